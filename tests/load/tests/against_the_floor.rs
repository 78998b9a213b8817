//! The clients against the floor, end to end: every delivery is counted, exactly.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use freshet_load::client::Target;
use freshet_load::floor::Sends;
use freshet_load::publisher::Many;
use freshet_load::report::Section;
use freshet_load::server::{Product, Server, Transport};
use freshet_load::swarm::{Plan, Swarm};

/// A floor in a process of its own. Dropping it kills it.
struct FloorProcess {
    child: Child,
    address: SocketAddr,
}

impl FloorProcess {
    fn start() -> Self {
        let mut child = command(&["floor", "--listen", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the floor starts");
        let mut line = String::new();
        let output = child.stdout.take().expect("its output is piped");
        BufReader::new(output).read_line(&mut line).expect("it says where it listens");
        let address = line.trim().trim_start_matches("listening on ").parse().expect("an address");
        Self { child, address }
    }

    fn target(&self, transport: Transport) -> Target {
        Server { product: Product::Floor, transport }.target(self.address, 10_000)
    }

    /// Clients that are subscribed.
    fn clients(&self, transport: Transport, clients: usize) -> Swarm {
        let mut swarm = Swarm::new(self.target(transport)).expect("a poll");
        swarm.connect(clients).expect("every client is subscribed");
        swarm
    }
}

impl Drop for FloorProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_freshet-load"));
    command.args(arguments);
    command
}

fn plan(first_sequence: u64, batches: u64, batch_events: u64) -> Plan {
    Plan {
        publication: Server { product: Product::Floor, transport: Transport::Sse }.publication(),
        first_sequence,
        batches,
        batch_events,
        interval: Duration::from_millis(1),
        event_bytes: 600,
        drain: Duration::from_secs(20),
    }
}

#[test]
fn fifty_clients_of_each_transport_receive_twenty_events_each_once_and_in_order() {
    for transport in [Transport::Sse, Transport::WebSocket] {
        let floor = FloorProcess::start();
        let mut swarm = floor.clients(transport, 50);

        // One at a time, then the same number in one request each, then each in a request of its own.
        let mut back_to_back = plan(41, 4, 5);
        back_to_back.publication.many = Many::BackToBack;
        for plan in [plan(1, 20, 1), plan(21, 4, 5), back_to_back] {
            let tally = swarm.run(&plan, || Ok(())).unwrap();
            assert_eq!(tally.delivered, 50 * 20);
            assert_eq!((tally.duplicates, tally.out_of_order), (0, 0));
            assert_eq!(tally.latency_nanos.total(), 50 * 20);
        }
        let sends: Sends = serde_json::from_slice(swarm.last_answer()).unwrap();
        assert_eq!(sends, Sends { complete: 50 * 60, would_block: 0, partial: 0 });
        assert_eq!((swarm.closed(), swarm.missing()), (0, 0));
    }
}

#[test]
fn stalled_clients_are_not_counted_and_those_that_read_lose_nothing() {
    let floor = FloorProcess::start();
    let mut swarm = floor.clients(Transport::Sse, 6);
    swarm.stall(2).unwrap();

    // 20 MB to each: more than the sockets of a client that does not read can hold.
    let large_events = Plan { event_bytes: 100_000, interval: Duration::from_millis(5), ..plan(1, 200, 1) };
    let tally = swarm.run(&large_events, || Ok(())).unwrap();
    assert_eq!(tally.delivered, 4 * 200);
    let sends: Sends = serde_json::from_slice(swarm.last_answer()).unwrap();
    assert!(sends.complete < 6 * 200, "the sockets of the stalled clients never were full");
    // Whether a full socket takes a part of an event or nothing is the system's choice; a part breaks the stream.
    swarm.resume(Duration::from_millis(500)).unwrap();
    assert_eq!(swarm.closed() as u64, sends.partial);
}

#[test]
fn clients_of_another_process_see_what_this_one_publishes() {
    let floor = FloorProcess::start();
    let address = floor.address.to_string();
    let clients =
        command(&["clients", "--target", &address, "--transport", "ws", "--clients", "5", "--seconds", "2"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
    let mut swarm = floor.clients(Transport::Sse, 1);

    // The floor's answers say how many clients it has: publish until the other five are among them, at most for
    // a minute, and then some more.
    let mut sequence = 1;
    let mut complete = 0;
    let mut subscribers = 0;
    while subscribers < 6 && sequence < 6000 {
        let one = Plan { interval: Duration::ZERO, ..plan(sequence, 1, 1) };
        swarm.run(&one, || Ok(())).unwrap();
        let sends: Sends = serde_json::from_slice(swarm.last_answer()).unwrap();
        (subscribers, complete) = (sends.complete - complete, sends.complete);
        sequence += 1;
        swarm.idle(Duration::from_millis(10)).unwrap();
    }
    let paced = Plan { interval: Duration::from_millis(5), ..plan(sequence, 100, 1) };
    swarm.run(&paced, || Ok(())).unwrap();

    let Output { status, stdout, .. } = clients.wait_with_output().unwrap();
    assert!(status.success());
    let result: serde_json::Value = serde_json::from_slice(&stdout).unwrap();
    let delivered = result["delivered"].as_u64().unwrap();
    assert!(delivered > 0, "{result}");
    for count in ["missing", "duplicates", "out_of_order", "closed_by_server"] {
        assert_eq!(result[count], 0, "{result}");
    }
    // Both processes read one clock: a latency of minutes would show that they do not.
    assert!(result["p99_micros"].as_u64().unwrap() < 60_000_000, "{result}");
}

#[test]
fn a_server_that_is_not_there_is_an_error_and_not_a_wait() {
    let floor = FloorProcess::start();
    let target = floor.target(Transport::WebSocket);
    drop(floor);
    let error = Swarm::new(target).unwrap().connect(3).unwrap_err();
    assert!(error.to_string().starts_with("not every client could connect"), "{error}");
}

#[test]
fn slow_clients_are_not_counted_and_stay_connected() {
    let floor = FloorProcess::start();
    let mut swarm = floor.clients(Transport::WebSocket, 4);
    swarm.slow_down(1).unwrap();
    let tally = swarm.run(&plan(1, 5, 1), || Ok(())).unwrap();
    assert_eq!((tally.delivered, swarm.closed()), (3 * 5, 0));
}

/// The cells of the lines that begin with this server.
fn lines_of(document: &str, server: &str) -> Vec<Vec<String>> {
    document
        .lines()
        .filter(|line| line.starts_with(&format!("| {server} ")))
        .map(|line| line.split('|').map(|cell| cell.trim().to_owned()).collect())
        .collect()
}

#[test]
fn a_benchmark_replaces_its_sections_of_the_document_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let document = directory.path().join("benchmarks.md");
    let marked = |section: Section| format!("{}\nold figures\n{}\n", section.begin(), section.end());
    let [targets, fan_out, idle, slow] =
        [Section::Targets, Section::FanOut, Section::Idle, Section::Slow].map(marked);
    std::fs::write(&document, format!("# Title\n\n{targets}{fan_out}{slow}{idle}\nWords.\n")).unwrap();
    let output =
        command(&["bench", "--rows", "20@100,20@100x5,100@200+slow", "--deliveries", "200", "--repeat", "1"])
            .args(["--servers", "freshet-ws,floor-ws,floor-sse,nchan-sse"])
            .args(["--peers", directory.path().to_str().unwrap(), "--out", document.to_str().unwrap()])
            .output()
            .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let written = std::fs::read_to_string(&document).unwrap();
    assert!(written.starts_with("# Title\n\n"), "{written}");
    assert!(written.ends_with(&format!("{idle}\nWords.\n")), "the section of another row changed: {written}");
    assert_eq!(written.matches("old figures").count(), 1, "{written}");
    for floor in ["floor-ws", "floor-sse"] {
        let lines = lines_of(&written, floor);
        assert_eq!(lines.len(), 3, "{written}");
        for line in &lines[..2] {
            assert_eq!(line[3], "1.00", "the floor's ratio to itself: {line:?}");
            assert_eq!(line[6..9], ["0", "0", "0"], "lost, gaps, twice or out of order: {line:?}");
        }
        assert_eq!(lines[2][5..7], ["0", "0"], "closed, lost: {line:?}", line = lines[2]);
    }
    // Whoever is not here has a line that says so.
    assert!(lines_of(&written, "freshet-ws").iter().all(|line| line[2].contains("--freshet")), "{written}");
    assert!(
        lines_of(&written, "nchan-sse").iter().all(|line| line[2].contains("peers/install nchan")),
        "{written}"
    );
}

#[test]
fn a_document_without_a_place_for_the_report_is_refused_before_anything_is_measured() {
    let directory = tempfile::tempdir().unwrap();
    let document = directory.path().join("benchmarks.md");
    std::fs::write(&document, "# Title\n").unwrap();
    let output = command(&["bench", "--out", document.to_str().unwrap()]).output().unwrap();
    assert!(!output.status.success());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains(&Section::Targets.begin()), "{errors}");
    assert_eq!(std::fs::read_to_string(&document).unwrap(), "# Title\n");
}
