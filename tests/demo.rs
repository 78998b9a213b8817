//! Somebody tries it for ten minutes.

mod support;

use std::time::{Duration, Instant};

use support::daemon::{Daemon, freshet};
use support::sse::Client;

/// The promise of the README, from the start of the process to the first commit on screen.
const FIRST_EVENT_WITHIN: Duration = Duration::from_secs(3);

#[tokio::test]
async fn the_first_commit_is_on_screen_within_three_seconds() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let started = Instant::now();
    let mut command = freshet();
    command.args(["demo", "--listen", "127.0.0.1:0", "--data"]).arg(directory.path());
    let daemon = Daemon::start(command);
    // A client that comes first thing sees the next commit; the story asks for no more than that.
    let mut screen = Client::connect(&format!("{}/events", daemon.url), None).await;
    let commit = screen.next_commit().await;
    let waited = started.elapsed();
    assert!(waited < FIRST_EVENT_WITHIN, "{waited:?}");
    let event: serde_json::Value = serde_json::from_str(&commit.data).expect("an event");
    assert!(event["payload"]["snapshotId"].as_i64().expect("an id") > 1 << 53);

    let (status, page) = daemon.get("/").await;
    assert_eq!(status, 200);
    assert!(page.contains("EventSource"), "there is a page to look at");
    let named = daemon.log().iter().any(|line| line.contains(&*directory.path().to_string_lossy()));
    assert!(named, "it names the directory of its data");
    assert_eq!(daemon.terminate().await.code(), Some(0));
}
