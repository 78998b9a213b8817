//! The daemon is killed again and again in the middle of a stream; nobody notices but by a reconnect.

mod support;

use std::collections::HashMap;

use support::daemon::Home;
use support::service::Service;
use support::sse::Client;
use support::stomp::Producer;

const EVENTS: usize = 10_000;
const KILLS: usize = 5;

#[tokio::test]
async fn five_kills_in_ten_thousand_events_lose_nothing_and_repeat_nothing() {
    let broker = Service::activemq();
    let home = Home::new(&format!(
        "[[stomp]]\nname = \"lake\"\nbrokers = [\"127.0.0.1:{}\"]\nflavour = \"activemq_classic\"\n\
         login = \"admin\"\npasscode = \"admin\"\nclient_id = \"freshet-crash\"\n",
        broker.port
    ));
    let mut daemon = home.start();
    support::eventually("it is subscribed", || async {
        (daemon.get("/readyz").await.0 == 200).then_some(())
    })
    .await;

    let port = broker.port;
    let sending = async {
        let mut producer = Producer::connect(port, "/", "admin", "admin").await;
        for number in 0..EVENTS {
            let (_, body) = support::event(number);
            // A receipt now and then keeps the producer from running ahead of the broker.
            if number % 100 == 99 {
                producer.send_and_wait("/topic/ICEBERG_METADATA_EVENTS", body.as_bytes()).await;
            } else {
                producer.send("/topic/ICEBERG_METADATA_EVENTS", &[], body.as_bytes()).await;
            }
        }
    };
    let receiving = async {
        let mut seen = HashMap::new();
        let mut kills = 0;
        let mut client = Client::connect(&format!("{}/events", daemon.url), None).await;
        while seen.len() < EVENTS {
            let Some(message) = client.next().await else {
                panic!("the stream broke although nobody killed the daemon");
            };
            assert_ne!(message.kind, "gap", "the history reaches back");
            if message.kind != "iceberg-mutation" {
                continue;
            }
            *seen.entry(message.last_event_id.clone()).or_insert(0) += 1;
            if kills < KILLS && seen.len() >= (kills + 1) * EVENTS / (KILLS + 1) {
                kills += 1;
                daemon.kill();
                daemon = home.start();
                client =
                    Client::connect(&format!("{}/events", daemon.url), Some(&message.last_event_id)).await;
            }
        }
        assert_eq!(kills, KILLS);
        (daemon, seen)
    };
    let ((), (daemon, seen)) = tokio::join!(sending, receiving);

    for number in 0..EVENTS {
        let (event_id, _) = support::event(number);
        assert_eq!(seen.get(&event_id), Some(&1), "event {number}");
    }
    let mut history = daemon.history().await;
    assert_eq!(history.len(), EVENTS, "the history holds each event once");
    history.sort_unstable();
    for (number, (event_id, body)) in history.into_iter().enumerate() {
        assert_eq!((event_id, body), support::event(number));
    }
    assert_eq!(daemon.terminate().await.code(), Some(0));
}
