//! The broker is away for half a minute in the middle of the night.

mod support;

use std::time::Duration;

use support::daemon::Home;
use support::service::Service;
use support::sse::Client;
use support::stomp::Producer;

/// How long the broker is away. This is the story itself, so the test really waits for it.
const AWAY: Duration = Duration::from_secs(30);

/// The subscription's node in the actor tree.
fn subscriber(tree: &serde_json::Value) -> Option<&serde_json::Value> {
    if tree["class"] == "StompSubscriber" {
        return Some(tree);
    }
    tree["children"].as_array()?.iter().find_map(subscriber)
}

#[tokio::test]
async fn broker_away_for_thirty_seconds_is_a_state_and_not_a_crash() {
    let broker = Service::activemq();
    let home = Home::new(&format!(
        "[[stomp]]\nname = \"lake\"\nbrokers = [\"127.0.0.1:{}\"]\nflavour = \"activemq_classic\"\n\
         login = \"admin\"\npasscode = \"admin\"\nclient_id = \"freshet-night\"\n",
        broker.port
    ));
    let daemon = home.start();
    let ready = || async { (daemon.get("/readyz").await.0 == 200).then_some(()) };
    support::eventually("the daemon is ready", ready).await;
    let mut dashboard = Client::connect(&format!("{}/events", daemon.url), None).await;
    let mut producer = Producer::connect(broker.port, "/", "admin", "admin").await;
    let (first_id, first) = support::event(1);
    producer.send_and_wait("/topic/ICEBERG_METADATA_EVENTS", first.as_bytes()).await;
    assert_eq!(dashboard.next_commit().await.last_event_id, first_id);

    broker.stop();
    let left = tokio::time::Instant::now();
    let reasons = support::eventually("/readyz is red and says why", || async {
        let (status, text) = daemon.get("/readyz").await;
        // First the connection is closed; then nobody is there.
        (status == 503 && text.contains("connection_refused"))
            .then(|| serde_json::from_str::<serde_json::Value>(&text).expect("JSON"))
    })
    .await;
    let reason = &reasons["reasons"][0];
    assert!(reason["actor"].as_str().expect("the actor is named").contains("lake"), "{reasons}");
    let tree = daemon.json("/actors").await;
    let node = subscriber(&tree).expect("the subscriber is in the tree");
    assert_eq!(node["state"], "degraded", "{node}");
    let restarts_before = node["restarts"].clone();

    tokio::time::sleep_until(left + AWAY).await;
    assert_eq!(daemon.get("/livez").await.0, 200);
    let (second_id, second) = support::event(2);
    let (status, _) = daemon.post("application/json", second).await;
    assert_eq!(status, 200, "the other ways in stay open");
    assert_eq!(dashboard.next_commit().await.last_event_id, second_id);

    broker.start_again();
    let mut producer = Producer::connect(broker.port, "/", "admin", "admin").await;
    let (third_id, third) = support::event(3);
    producer.send_and_wait("/topic/ICEBERG_METADATA_EVENTS", third.as_bytes()).await;
    assert_eq!(dashboard.next_commit().await.last_event_id, third_id, "it catches up by itself");
    support::eventually("the daemon is ready again", ready).await;
    let tree = daemon.json("/actors").await;
    let node = subscriber(&tree).expect("the subscriber is in the tree");
    assert_eq!(node["restarts"], restarts_before, "an outage burns no restart");
    assert_eq!(daemon.terminate().await.code(), Some(0));
}
