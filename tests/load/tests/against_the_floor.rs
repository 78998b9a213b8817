//! The clients against the floor, end to end: every delivery is counted, exactly.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use freshet_load::floor::Sends;
use freshet_load::report::{BEGIN, END};
use freshet_load::swarm::{Plan, Swarm, Target};

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

    fn target(&self) -> Target {
        Target { address: self.address, path: "/events".to_owned(), connects_per_second: 10_000 }
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
        first_sequence,
        batches,
        batch_events,
        interval: Duration::from_millis(1),
        event_bytes: 600,
        drain: Duration::from_secs(20),
    }
}

#[test]
fn fifty_clients_receive_twenty_events_each_once_and_in_order() {
    let floor = FloorProcess::start();
    let mut swarm = Swarm::new().unwrap();
    swarm.connect(&floor.target(), 50).unwrap();

    // One at a time, then the same number in batches.
    for plan in [plan(1, 20, 1), plan(21, 4, 5)] {
        let tally = swarm.run(floor.address, &plan, || Ok(())).unwrap();
        assert_eq!(tally.delivered, 50 * 20);
        assert_eq!((tally.duplicates, tally.out_of_order, tally.unknown), (0, 0, 0));
        assert_eq!(tally.latency_nanos.total(), 50 * 20);
    }
    let sends: Sends = serde_json::from_slice(swarm.last_answer()).unwrap();
    assert_eq!(sends, Sends { complete: 50 * 40, would_block: 0, partial: 0 });
    assert_eq!((swarm.closed(), swarm.missing()), (0, 0));
}

#[test]
fn stalled_clients_are_not_counted_and_those_that_read_lose_nothing() {
    let floor = FloorProcess::start();
    let mut swarm = Swarm::new().unwrap();
    swarm.connect(&floor.target(), 6).unwrap();
    swarm.stall(2).unwrap();

    // 20 MB to each: more than the sockets of a client that does not read can hold.
    let large_events = Plan { event_bytes: 100_000, interval: Duration::from_millis(5), ..plan(1, 200, 1) };
    let tally = swarm.run(floor.address, &large_events, || Ok(())).unwrap();
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
    let clients = command(&["clients", "--target", &address, "--clients", "5", "--seconds", "2"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut swarm = Swarm::new().unwrap();
    swarm.connect(&floor.target(), 1).unwrap();

    // The floor's answers say how many clients it has: publish until the other five are among them, at most for
    // a minute, and then some more.
    let mut sequence = 1;
    let mut complete = 0;
    let mut subscribers = 0;
    while subscribers < 6 && sequence < 6000 {
        let one = Plan { interval: Duration::ZERO, ..plan(sequence, 1, 1) };
        swarm.run(floor.address, &one, || Ok(())).unwrap();
        let sends: Sends = serde_json::from_slice(swarm.last_answer()).unwrap();
        (subscribers, complete) = (sends.complete - complete, sends.complete);
        sequence += 1;
        swarm.idle(Duration::from_millis(10)).unwrap();
    }
    let paced = Plan { interval: Duration::from_millis(5), ..plan(sequence, 100, 1) };
    swarm.run(floor.address, &paced, || Ok(())).unwrap();

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
    let target = floor.target();
    drop(floor);
    let error = Swarm::new().unwrap().connect(&target, 3).unwrap_err();
    assert!(error.to_string().starts_with("not every client could connect"), "{error}");
}

#[test]
fn a_benchmark_replaces_its_section_of_the_document_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let document = directory.path().join("benchmarks.md");
    std::fs::write(&document, format!("# Title\n\n{BEGIN}\nold figures\n{END}\n\nWords.\n")).unwrap();
    let out = document.to_str().unwrap();
    let status = command(&["bench", "--rows", "20@100", "--deliveries", "200", "--repeat", "1"])
        .args(["--slow-megabytes", "0", "--out", out])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());

    let written = std::fs::read_to_string(&document).unwrap();
    assert!(written.starts_with(&format!("# Title\n\n{BEGIN}\n")), "{written}");
    assert!(written.ends_with(&format!("{END}\n\nWords.\n")), "{written}");
    assert!(!written.contains("old figures"), "{written}");
    let rows: Vec<Vec<&str>> = written
        .lines()
        .filter(|line| line.starts_with("| 20 "))
        .map(|line| line.split('|').map(str::trim).collect())
        .collect();
    assert_eq!(rows.len(), 1, "{written}");
    assert_eq!(rows[0][1..5], ["20", "100", "1", "floor"]);
    assert_eq!(rows[0][11..13], ["0", "0"], "lost, twice or out of order");
}

#[test]
fn a_document_without_a_place_for_the_report_is_refused_before_anything_is_measured() {
    let directory = tempfile::tempdir().unwrap();
    let document = directory.path().join("benchmarks.md");
    std::fs::write(&document, "# Title\n").unwrap();
    let output = command(&["bench", "--out", document.to_str().unwrap()]).output().unwrap();
    assert!(!output.status.success());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains(BEGIN), "{errors}");
    assert_eq!(std::fs::read_to_string(&document).unwrap(), "# Title\n");
}
