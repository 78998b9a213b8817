//! Channels and rooms on the stream of server-sent events: the same rules as on a WebSocket.

#![allow(dead_code, reason = "each test uses its part of the support")]
#![allow(clippy::unwrap_used, reason = "the support of tests fails as tests do")]

#[path = "support/daemon.rs"]
mod daemon;
#[path = "../../broadcaster/tests/support/memory_log.rs"]
mod memory_log;
#[path = "support/orders.rs"]
mod orders;
#[path = "support/sse.rs"]
mod sse;

use daemon::Daemon;
use freshet_feed::Event;
use freshet_session::Config;
use memory_log::event_of;
use orders::{at, order, orders};
use sse::Client;

/// Commits and orders in turn, each with its own publication.
async fn publish(daemon: &Daemon, events: Vec<Event>) {
    for event in events {
        daemon.publish_events(vec![event]).await;
    }
}

fn mixed(first: u64) -> Vec<Event> {
    vec![
        event_of(first, "prod.t"),
        order(first + 1, "a", "north"),
        order(first + 2, "b", "south"),
        event_of(first + 3, "test.t"),
        order(first + 4, "c", "north"),
    ]
}

impl Client {
    async fn open(daemon: &Daemon, path: &str, headers: &str) -> Self {
        let mut client = Self::get(daemon.address, path, headers).await;
        assert_eq!(client.status(), "200", "{path}");
        client.connected().await;
        client
    }

    /// The names and ids of the next events.
    async fn named(&mut self, count: usize) -> Vec<(String, String)> {
        let mut named = Vec::new();
        while named.len() < count {
            let event = self.next().await.unwrap();
            named.push((event.name, event.last_event_id));
        }
        named
    }

    /// The next events are these orders.
    async fn gets_orders(&mut self, numbers: &[u64]) {
        let expected: Vec<_> =
            numbers.iter().map(|number| ("message".to_owned(), format!("e{number}"))).collect();
        assert_eq!(self.named(numbers.len()).await, expected);
    }
}

#[actix_rt::test]
async fn a_stream_of_several_channels_has_the_order_of_the_log() {
    let daemon = Daemon::start_with(Config::default(), orders(|_| {})).await;
    let expected = |first: u64| {
        let names = ["iceberg-mutation", "message", "message", "iceberg-mutation", "message"];
        (first..).zip(names).map(|(number, name)| (name.to_owned(), format!("e{number}"))).collect::<Vec<_>>()
    };
    let mut client = Client::open(&daemon, "/events?channels=iceberg,orders", "").await;
    let mut commits = Client::open(&daemon, "/events", "").await;
    publish(&daemon, mixed(1)).await;
    assert_eq!(client.named(5).await, expected(1));
    assert_eq!(commits.ids(2).await, ["e1", "e4"], "who names no channel gets commits");

    let resume = format!("Last-Event-ID: {}\r\n", client.parser.last_event_id);
    drop(client);
    publish(&daemon, mixed(6)).await;
    let mut client = Client::open(&daemon, "/events?channels=orders&channels=iceberg", &resume).await;
    assert_eq!(client.named(5).await, expected(6), "it goes on where it stood, whatever channel that was");
}

#[actix_rt::test]
async fn rooms_narrow_a_stream_live_and_replayed() {
    let daemon = Daemon::start_with(Config::default(), orders(|_| {})).await;
    publish(&daemon, mixed(1)).await;
    let resumed = format!("Last-Event-ID: {}\r\n", at(0));
    let mut north = Client::open(&daemon, "/events?channels=orders&room=north", &resumed).await;
    let mut both =
        Client::open(&daemon, "/events?channels=orders&room=north,west&room=south", &resumed).await;
    // Commits have no room here, so none of them is in this one.
    let mut all = Client::open(&daemon, "/events?channels=orders,iceberg&room=north", &resumed).await;
    let mut filtered = Client::open(&daemon, "/events?channels=orders,iceberg&table=prod.*", &resumed).await;
    north.gets_orders(&[2, 5]).await;
    both.gets_orders(&[2, 3, 5]).await;
    all.gets_orders(&[2, 5]).await;
    assert_eq!(filtered.ids(1).await, ["e1"], "only commits have a table");
    publish(&daemon, mixed(6)).await;
    north.gets_orders(&[7, 10]).await;
    both.gets_orders(&[7, 8, 10]).await;
    all.gets_orders(&[7, 10]).await;
    assert_eq!(filtered.ids(1).await, ["e6"]);
}

#[actix_rt::test]
async fn a_tenant_streams_its_own_room_and_what_is_not_its_own_does_not_exist() {
    let channels = orders(|config| config.rooms_are_tenants = true);
    let daemon = Daemon::start_with(Config::default(), channels).await;
    publish(&daemon, mixed(1)).await;
    let tenant = "X-Tenant: north\r\n";
    for (path, status, code) in [
        ("/events?channels=orders&room=south", "404", "unknown_room"),
        ("/events?channels=orders&room=none", "404", "unknown_room"),
        ("/events?channels=orders&room=north,south", "404", "unknown_room"),
        ("/events?channels=orders&room=*", "404", "unknown_room"),
        ("/events?channels=secrets", "404", "unknown_channel"),
        ("/events?channels=orders,secrets", "404", "unknown_channel"),
        ("/events?channels=*", "404", "unknown_channel"),
    ] {
        let refused = Client::get(daemon.address, path, tenant).await;
        assert_eq!(refused.status(), status, "{path}");
        assert_eq!(refused.body().await["code"], code, "{path}");
    }
    let mut answers = Vec::new();
    for room in ["south", "none"] {
        let refused =
            Client::get(daemon.address, &format!("/events?channels=orders&room={room}"), tenant).await;
        answers.push(refused.body().await);
    }
    assert_eq!(answers[0], answers[1], "another tenant's room is refused as one that is not");
    let nobody = Client::get(daemon.address, "/events?channels=orders", "X-Tenant: \r\n").await;
    assert_eq!(nobody.body().await["code"], "unknown_channel");
    assert_eq!(daemon.open_sessions(), 0);

    let resumed = format!("{tenant}Last-Event-ID: {}\r\n", at(0));
    let mut client = Client::open(&daemon, "/events?channels=orders", &resumed).await;
    client.gets_orders(&[2, 5]).await;
    publish(&daemon, mixed(6)).await;
    client.gets_orders(&[7, 10]).await;
}

#[actix_rt::test]
async fn a_stream_names_so_many_channels_and_rooms_and_no_more() {
    let daemon = Daemon::start_with(Config::default(), orders(|_| {})).await;
    let many = |count: usize| (0..count).map(|number| format!("x{number}")).collect::<Vec<_>>().join(",");
    for (path, status, code) in [
        (format!("/events?channels={}", many(33)), "400", "too_many_channels"),
        (format!("/events?channels=orders&room={}", many(65)), "400", "too_many_channels"),
        (format!("/events?channels=orders&room={}", "x".repeat(257)), "404", "unknown_room"),
    ] {
        let refused = Client::get(daemon.address, &path, "").await;
        assert_eq!(refused.status(), status, "{path}");
        assert_eq!(refused.body().await["code"], code, "{path}");
    }
    let path = format!("/events?channels=orders,orders&room={},north", many(63));
    let mut client = Client::open(&daemon, &path, "").await;
    publish(&daemon, mixed(1)).await;
    client.gets_orders(&[2, 5]).await;
}
