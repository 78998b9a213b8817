//! A data engineer commits to Iceberg tables; the dashboards of the house show each commit, digit for digit.

mod support;

use std::process::Command;

use serde_json::Value;
use support::daemon::Home;
use support::service::Service;
use support::sse::Client;
use support::stomp::Producer;

const DESTINATION: &str = "/topic/ICEBERG_METADATA_EVENTS";

/// Real commits on a local warehouse, one JSON event a line, as PyIceberg reports them.
fn real_commits() -> Vec<String> {
    let warehouse = tempfile::tempdir().expect("a warehouse");
    let cache = std::env::var_os("XDG_CACHE_HOME").map_or_else(
        || std::path::PathBuf::from(std::env::var_os("HOME").expect("a home")).join(".cache"),
        std::path::PathBuf::from,
    );
    let python = cache.join("freshet/venv/bin/python");
    let output = Command::new(&python)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/iceberg/commits.py"))
        .args(["--tables", "3", "--commits", "10", "--warehouse"])
        .arg(warehouse.path())
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}; tests/install prepares it", python.display()));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8").lines().map(str::to_owned).collect()
}

/// The configuration of a daemon that listens to one real broker.
fn configuration(port: u16) -> String {
    format!(
        "[[stomp]]\nname = \"lake\"\nbrokers = [\"127.0.0.1:{port}\"]\nflavour = \"activemq_classic\"\n\
         login = \"admin\"\npasscode = \"admin\"\nclient_id = \"freshet-story\"\n"
    )
}

#[tokio::test]
async fn real_commits_reach_dashboards_and_history_digit_for_digit() {
    let commits = real_commits();
    assert!(commits.len() >= 20, "the warehouse made {} commits", commits.len());
    assert!(
        commits.iter().any(|commit| commit.contains(r#""schemaChanged": true"#)
            || commit.contains(r#""schemaChanged":true"#))
    );
    let broker = Service::activemq();
    let home = Home::new(&configuration(broker.port));
    let daemon = home.start();
    support::eventually("the daemon is subscribed", || async {
        (daemon.get("/readyz").await.0 == 200).then_some(())
    })
    .await;

    let mut dashboard = Client::connect(&format!("{}/events", daemon.url), None).await;
    let first = dashboard.next().await.expect("the stream begins");
    assert_eq!(first.kind, "connected");
    let mut producer = Producer::connect(broker.port, "/", "admin", "admin").await;
    for commit in &commits {
        producer.send_and_wait(DESTINATION, commit.as_bytes()).await;
    }

    for commit in &commits {
        let shown = dashboard.next_commit().await;
        assert_eq!(&shown.data, commit, "the bytes of the event are passed on");
        let expected: Value = serde_json::from_str(commit).expect("an event");
        assert_eq!(shown.last_event_id, expected["eventId"].as_str().expect("an id"));
    }
    let kept: Vec<String> = daemon.history().await.into_iter().map(|(_, event)| event).collect();
    assert_eq!(kept, commits);

    let tables = daemon.json("/api/v2/tables").await;
    for table in tables["tables"].as_array().expect("tables") {
        let name = table["table"].as_str().expect("a name");
        let of_table: Vec<Value> = commits
            .iter()
            .map(|commit| serde_json::from_str::<Value>(commit).expect("an event"))
            .filter(|commit| commit["tableIdentifier"] == name)
            .collect();
        let last = of_table.last().expect("the table was committed to");
        assert_eq!(table["lastCommit"]["snapshotId"], last["payload"]["snapshotId"], "{name}");
        assert_eq!(table["commitsLastDay"], of_table.len(), "{name}");
    }
    assert_eq!(daemon.terminate().await.code(), Some(0));
}
