//! What a client may learn, and what it is told of what is gone.

use freshet_feed::Event;
use freshet_session::Config;
use serde_json::{Value, json};

use crate::daemon::{Daemon, ids};
use crate::memory_log::{MemoryLog, event};
use crate::orders::{at, order, orders};
use crate::websocket::Client;

fn small_pages() -> freshet_broadcaster::Config {
    freshet_broadcaster::Config {
        recent_max_bytes: 1,
        batch_max_bytes: 1,
        page_max_events: 7,
        ..Default::default()
    }
}

#[actix_rt::test]
async fn a_position_whose_successors_are_gone_is_not_recovered() {
    let daemon = Daemon::start_on(MemoryLog::new(), Config::default(), small_pages()).await;
    daemon.publish(1..=20).await;
    daemon.log.drop_before(11);
    let mut client = Client::open(daemon.address).await;
    let subscribed = client.subscribe("iceberg", json!({"from": {"position": at(3)}})).await;
    assert_eq!(
        subscribed,
        json!({
            "type": "subscribed", "channel": "iceberg", "position": at(10), "recovered": false,
            "requested": at(3), "oldest": at(11), "newest": at(20),
        })
    );
    assert_eq!(client.ids(10).await, ids(11..=20));
}

/// The id may stand in another channel: then it is not known here, and nothing is lost.
#[actix_rt::test]
async fn an_event_id_of_another_channel_hides_nothing_of_this_one() {
    let daemon = Daemon::start_with(Config::default(), orders(|_| {})).await;
    let commit = Event { event_id: "e1".to_owned(), ..event(3) };
    for event in [order(1, "a", "x"), order(2, "b", "x"), commit] {
        daemon.publish_events(vec![event]).await;
    }
    let mut client = Client::open(daemon.address).await;
    let subscribed = client.subscribe("orders", json!({"from": {"eventId": "e1"}})).await;
    assert_eq!(subscribed["recovered"], false);
    assert_eq!(client.ids(2).await, ["e1", "e2"]);
}

/// What is another tenant's answers like what never was.
#[actix_rt::test]
async fn an_event_of_another_tenant_is_as_unknown_as_one_that_never_was() {
    let channels = orders(|config| config.rooms_are_tenants = true);
    let daemon = Daemon::start_with(Config::default(), channels).await;
    daemon.publish_events(vec![order(1, "a", "north"), order(2, "b", "south")]).await;
    let mut answers = Vec::new();
    for event_id in ["e2", "x2"] {
        let mut client = Client::open_with(daemon.address, "X-Tenant: north\r\n").await;
        let mut answer = client.subscribe("orders", json!({"from": {"eventId": event_id}})).await;
        if answer["requested"] == event_id {
            answer["requested"] = Value::Null;
        }
        answers.push(answer);
    }
    assert_eq!(answers[0], answers[1]);
}

#[actix_rt::test]
async fn a_stream_names_no_event_of_another_tenant() {
    let channels = orders(|config| config.rooms_are_tenants = true);
    let daemon = Daemon::start_with(Config::default(), channels).await;
    daemon.publish_events(vec![order(1, "a", "north"), order(2, "b", "south")]).await;
    let mut client =
        crate::sse::Client::get(daemon.address, "/events?channels=orders", "X-Tenant: north\r\n").await;
    client.connected().await;
    assert_ne!(client.parser.last_event_id, "e2");
}
