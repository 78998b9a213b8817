//! What the stories need: the daemon as a process of its own, real services, and clients that follow the
//! standards rather than our code.
#![allow(dead_code, reason = "each story uses a part of it")]

pub mod daemon;
pub mod service;
pub mod sse;
pub mod stomp;
pub mod token;
pub mod websocket;

use std::time::Duration;

/// A wait that ends in a failure, so that a broken promise fails the test instead of hanging it.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Awaits a condition that another process brings about, asking it again and again.
pub async fn eventually<T, F>(what: &str, mut ask: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    let asked_until = tokio::time::Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(tokio::time::Instant::now() < asked_until, "in vain: {what}");
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
}

/// An event of the contract, with whole numbers that no double can hold.
pub fn event(number: usize) -> (String, String) {
    let event_id = format!("{:08x}-5eed-4000-8000-{number:012x}", std::process::id());
    let snapshot_id = 9_007_199_254_740_993_u64 + number as u64;
    let body = format!(
        r#"{{"eventId":"{event_id}","eventTimestamp":"2026-02-03T04:05:06.789Z","sourceApplication":"story","tableIdentifier":"production.story.table_{}","eventType":"COMMIT_SUCCESS","payload":{{"operation":"append","snapshotId":{snapshot_id},"summary":{{"added-records":"{number}"}},"manifestList":"s3://lake/story/{number}.avro","schemaChanged":false}}}}"#,
        number % 7
    );
    (event_id, body)
}
