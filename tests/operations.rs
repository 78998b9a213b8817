//! An operator starts it, looks at it, and stops it.

mod support;

use std::process::Output;

use nix::sys::signal::Signal;
use support::daemon::{Daemon, Home, freshet};
use support::sse::Client;

fn output(command: &mut std::process::Command) -> Output {
    command.output().expect("the binary runs")
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[tokio::test]
async fn health_metrics_and_tree_tell_how_it_is() {
    let daemon = Home::new("").start_kept();
    let daemon = &daemon.1;
    assert_eq!(daemon.get("/livez").await.0, 200);
    let ready = daemon.json("/readyz").await;
    assert_eq!(ready, serde_json::json!({"status": "ready", "reasons": []}));

    let mut dashboard = Client::connect(&format!("{}/events", daemon.url), None).await;
    for number in 0..3 {
        let (_, body) = support::event(number);
        daemon.post("application/json", body.clone()).await;
        daemon.post("application/json", body).await;
        dashboard.next_commit().await;
    }
    let (status, text) = daemon.get("/metrics").await;
    assert_eq!(status, 200);
    let value = |sample: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(sample)?.strip_prefix(' ')?.parse::<f64>().ok())
            .unwrap_or_else(|| panic!("{sample} is missing from:\n{text}"))
    };
    assert_eq!(value("freshet_events_published_total"), 3.0);
    assert_eq!(value("freshet_events_duplicate_total"), 3.0);
    assert_eq!(value("freshet_sessions"), 1.0);
    assert_eq!(value("freshet_event_log_events"), 3.0);
    assert_eq!(value("freshet_delivery_latency_seconds_count"), 3.0);
    assert!(value("freshet_messages_handled_total{class=\"Broadcaster\"}") >= 6.0);
    assert!(value("freshet_mailbox_capacity{class=\"Broadcaster\"}") >= 1.0);
    assert_eq!(value("freshet_actor_restarts_total{class=\"Broadcaster\"}"), 0.0);

    let tree = daemon.json("/actors").await;
    assert_eq!(tree["id"], "root");
    let text = tree.to_string();
    for class in ["EventLogWriter", "DeadLetter", "Broadcaster", "HttpServer"] {
        assert!(text.contains(class), "{class} is in {text}");
    }
}

#[tokio::test]
async fn every_metric_is_documented_and_every_documented_metric_is_there() {
    let (_home, daemon) = Home::new("[[stomp]]\nname = \"lake\"\nbrokers = [\"127.0.0.1:9\"]\n").start_kept();
    let _dashboard = Client::connect(&format!("{}/events", daemon.url), None).await;
    let (_, text) = daemon.get("/metrics").await;
    let mut exposed: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    let operations = include_str!("../docs/operations.md");
    let mut documented: Vec<&str> = operations
        .lines()
        .filter_map(|line| line.strip_prefix("| `freshet_"))
        .filter_map(|line| line.split(['`', '{']).next())
        .collect();
    documented.sort_unstable();
    documented.dedup();
    exposed.retain(|name| name.starts_with("freshet_"));
    exposed.sort_unstable();
    let exposed: Vec<&str> = exposed.iter().map(|name| &name["freshet_".len()..]).collect();
    assert_eq!(exposed, documented, "left: exposed, right: in docs/operations.md");
}

#[tokio::test]
async fn probes_may_ask_with_head_and_other_methods_are_told_what_is_allowed() {
    let (_home, daemon) = Home::new("").start_kept();
    let client = reqwest::Client::new();
    for path in
        ["/", "/events", "/livez", "/readyz", "/metrics", "/actors", "/api/v2/events", "/api/v2/tables"]
    {
        let head = client.head(format!("{}{path}", daemon.url)).send().await.expect("it answers");
        assert_eq!(head.status(), 200, "HEAD {path}");
        let refused = client.delete(format!("{}{path}", daemon.url)).send().await.expect("it answers");
        assert_eq!(refused.status(), 405, "DELETE {path}");
        let allowed = refused.headers().get("allow").expect("it says what it takes").to_str().expect("text");
        assert!(allowed.contains("GET"), "{path}: {allowed}");
        let text = refused.text().await.expect("the answer arrives");
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&text).expect("JSON")["code"],
            "method_not_allowed"
        );
    }
}

#[tokio::test]
async fn a_client_that_falls_silent_in_its_body_keeps_nobody_out() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let (_home, daemon) = Home::new("[server]\nworkers = 1\nrequest_body_timeout_secs = 1\n").start_kept();
    let address = daemon.url.strip_prefix("http://").expect("an address");
    let mut silent = Vec::new();
    // As many as one thread reads at once.
    for _ in 0..8 {
        let mut stream = tokio::net::TcpStream::connect(address).await.expect("it listens");
        let head = "POST /api/v2/events HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{";
        stream.write_all(head.as_bytes()).await.expect("it reads");
        silent.push(stream);
    }
    let (_, body) = support::event(1);
    support::eventually("another client is served", || async {
        (daemon.post("application/json", body.clone()).await.0 == 200).then_some(())
    })
    .await;
    let mut answer = vec![0; 12];
    silent[0].read_exact(&mut answer).await.expect("it is answered");
    assert_eq!(answer, b"HTTP/1.1 408");
}

#[tokio::test]
async fn sigterm_closes_sessions_gently_and_keeps_everything() {
    let (home, mut daemon) = Home::new("[sessions]\ndrain_window_secs = 1\n").start_kept();
    let mut dashboard = Client::connect(&format!("{}/events", daemon.url), None).await;
    let (event_id, body) = support::event(1);
    daemon.post("application/json", body).await;
    assert_eq!(dashboard.next_commit().await.last_event_id, event_id);
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.ended().await.code(), Some(0));
    let log = daemon.log();
    assert!(!log.iter().any(|line| line.contains("\"ERROR\"") || line.contains("\"WARN\"")), "{log:#?}");
    let closing = dashboard.next().await.expect("the stream says why it ends");
    assert_eq!(closing.kind, "close");
    assert!(closing.data.contains("\"code\""), "{}", closing.data);
    assert_eq!(dashboard.next().await, None);
    assert!(dashboard.retry_millis().is_some(), "and when to come back");

    let daemon = home.start();
    let mut dashboard = Client::connect(&format!("{}/events", daemon.url), Some(&event_id)).await;
    let (next_id, body) = support::event(2);
    daemon.post("application/json", body).await;
    assert_eq!(dashboard.next_commit().await.last_event_id, next_id, "it resumes after the restart");
    assert_eq!(daemon.history().await.len(), 2);
}

#[tokio::test]
async fn a_second_signal_ends_it_at_once() {
    let (_home, mut daemon) = Home::new("[sessions]\ndrain_window_secs = 600\n").start_kept();
    let mut dashboards = Vec::new();
    for _ in 0..3 {
        dashboards.push(Client::connect(&format!("{}/events", daemon.url), None).await);
    }
    daemon.signal(Signal::SIGTERM);
    support::eventually("it drains", || async { (daemon.get("/readyz").await.0 == 503).then_some(()) }).await;
    let refused = reqwest::get(format!("{}/events", daemon.url)).await.expect("it answers");
    assert_eq!(refused.status(), 503, "no new sessions");
    assert!(refused.headers().contains_key("retry-after"));
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.ended().await.code(), Some(130), "it ends without waiting for the window");
}

#[tokio::test]
async fn a_port_in_use_and_a_data_directory_in_use_have_errors_of_their_own() {
    let (home, daemon) = Home::new("").start_kept();
    let address = daemon.url.strip_prefix("http://").expect("an address");
    let other = Home::new("");
    let taken = output(freshet().args(["run", "--listen", address, "--data"]).arg(other.data()));
    assert_eq!(taken.status.code(), Some(69), "{}", errors(&taken));
    assert!(errors(&taken).contains(address), "{}", errors(&taken));

    let shared = output(freshet().args(["run", "--listen", "127.0.0.1:0", "--data"]).arg(home.data()));
    assert_eq!(shared.status.code(), Some(75), "{}", errors(&shared));
    assert!(errors(&shared).contains("another instance"), "{}", errors(&shared));
}

#[tokio::test]
async fn a_corrupt_log_is_refused_and_left_as_it_is() {
    let home = Home::new("");
    let daemon = home.start();
    let (_, body) = support::event(1);
    daemon.post("application/json", body).await;
    assert_eq!(daemon.terminate().await.code(), Some(0));
    let log = std::fs::read_dir(home.data())
        .expect("the data directory")
        .map(|entry| entry.expect("an entry").path())
        .find(|path| path.ends_with("event-log.sqlite"))
        .expect("the log's file");
    std::fs::write(&log, b"this is no database, it is a letter from a full disk").expect("it is overwritten");
    let refused = output(home.command().stdin(std::process::Stdio::null()));
    assert_eq!(refused.status.code(), Some(74), "{}", errors(&refused));
    assert!(std::fs::read(&log).expect("it is still there").starts_with(b"this is no database"));
}

#[test]
fn a_listener_beyond_loopback_must_be_asked_for_by_name() {
    let home = Home::new("");
    let refused = output(freshet().args(["run", "--listen", "0.0.0.0:0", "--data"]).arg(home.data()));
    assert_eq!(refused.status.code(), Some(78), "{}", errors(&refused));
    assert!(errors(&refused).contains("allow_remote"), "{}", errors(&refused));
}

#[test]
fn version_and_usage() {
    let version = output(freshet().arg("--version"));
    assert_eq!(version.status.code(), Some(0));
    assert_eq!(
        String::from_utf8_lossy(&version.stdout).trim(),
        concat!("freshet ", env!("CARGO_PKG_VERSION"))
    );
    assert_eq!(output(freshet().arg("--nonsense")).status.code(), Some(64));
}

impl Home {
    /// Starts a daemon and keeps its home beside it.
    fn start_kept(self) -> (Self, Daemon) {
        let daemon = self.start();
        (self, daemon)
    }
}
