//! Several channels on one connection; rooms, and rooms that are tenants.

use freshet_session::Config;
use serde_json::json;

use crate::daemon::Daemon;
use crate::memory_log::event_of;
use crate::orders::{at, order, orders};
use crate::websocket::Client;

#[actix_rt::test]
async fn one_connection_carries_several_channels_and_each_is_left_alone() {
    let daemon = Daemon::start_with(Config::default(), orders(|_| {})).await;
    let mut client = Client::open(daemon.address).await;
    client.subscribe("iceberg", json!({"filter": {"table": ["prod.*"]}})).await;
    client.subscribe("orders", json!({"room": ["north"]})).await;
    let events = vec![
        event_of(1, "prod.t"),
        order(2, "a", "north"),
        event_of(3, "test.t"),
        order(4, "b", "south"),
        order(5, "a", "north"),
    ];
    for event in events {
        daemon.publish_events(vec![event]).await;
    }
    let mut got = Vec::new();
    for _ in 0..3 {
        let message = client.says().await;
        got.push([message["channel"].clone(), message["event"].clone(), message["id"].clone()]);
        if message["channel"] == "orders" {
            assert_eq!((&message["key"], &message["room"]), (&json!("a"), &json!("north")));
            assert_eq!(message["data"]["room"], "north");
        }
    }
    // Events of one batch that belong to different channels may change places.
    got.sort_by_key(|message| message[2].to_string());
    assert_eq!(
        json!(got),
        json!([
            ["iceberg", "iceberg-mutation", "e1"],
            ["orders", "message", "e2"],
            ["orders", "message", "e5"]
        ])
    );
    client.has_heard_all().await;

    let refused = |code: &str, channel: &str| json!([code, channel]);
    let again = client.subscribe("orders", json!({})).await;
    assert_eq!(json!([again["code"], again["channel"]]), refused("already_subscribed", "orders"));
    for message in [
        json!({"type": "unsubscribe", "channel": "nothing"}),
        json!({"type": "ack",
        "channel": "nothing", "position": at(1)}),
    ] {
        client.send(message).await;
        let answer = client.says().await;
        assert_eq!(json!([answer["code"], answer["channel"]]), refused("not_subscribed", "nothing"));
    }
    client.send(json!({"type": "unsubscribe", "channel": "orders"})).await;
    assert_eq!(client.says().await["type"], "unsubscribed");
    daemon.publish_events(vec![order(6, "a", "north")]).await;
    daemon.publish_events(vec![event_of(7, "prod.t")]).await;
    assert_eq!(client.ids(1).await, ["e7"]);
}

#[actix_rt::test]
async fn a_connection_has_so_many_subscriptions_and_no_more() {
    let daemon =
        Daemon::start_with(Config { max_subscriptions: 1, ..Config::default() }, orders(|_| {})).await;
    let mut client = Client::open(daemon.address).await;
    assert_eq!(client.subscribe("iceberg", json!({})).await["type"], "subscribed");
    assert_eq!(client.subscribe("orders", json!({})).await["code"], "too_many_subscriptions");
    client.send(json!({"type": "unsubscribe", "channel": "iceberg"})).await;
    client.says().await;
    assert_eq!(client.subscribe("orders", json!({})).await["type"], "subscribed");
}

#[actix_rt::test]
async fn a_tenant_sees_its_own_room_and_what_is_not_its_own_does_not_exist() {
    let channels = orders(|config| config.rooms_are_tenants = true);
    let daemon = Daemon::start_with(Config::default(), channels).await;
    daemon.publish_events(vec![order(1, "a", "north"), order(2, "b", "south")]).await;
    let mut north = Client::open_with(daemon.address, "X-Tenant: north\r\n").await;
    let mut answers = Vec::new();
    for room in ["south", "none"] {
        for rooms in [vec![room], vec!["north", room]] {
            for from in ["now", "snapshot"] {
                answers.push(north.subscribe("orders", json!({"room": rooms, "from": from})).await);
            }
        }
    }
    assert_eq!(answers[0]["code"], "unknown_room");
    answers.dedup();
    assert_eq!(answers.len(), 1, "another tenant's room is refused as one that is not: {answers:?}");
    let refused = north.subscribe("secrets", json!({"id": "5"})).await;
    assert_eq!(json!([refused["code"], refused["id"]]), json!(["unknown_channel", "5"]));

    let subscribed = north.subscribe("orders", json!({"from": "snapshot"})).await;
    assert_eq!(subscribed["snapshot"], 1);
    assert_eq!(north.ids(1).await, ["e1"]);
    assert_eq!(north.says().await["type"], "live");
    for number in 3..=6 {
        let room = if number % 2 == 0 { "south" } else { "north" };
        daemon.publish_events(vec![order(number, "c", room)]).await;
    }
    assert_eq!(north.ids(2).await, ["e3", "e5"]);
    let mut south = Client::open_with(daemon.address, "X-Tenant: south\r\n").await;
    south.subscribe("orders", json!({"from": {"position": at(0)}})).await;
    assert_eq!(south.ids(3).await, ["e2", "e4", "e6"]);
    north.has_heard_all().await;
}

#[actix_rt::test]
async fn who_has_no_tenant_or_no_grant_is_refused_like_one_that_asks_for_nothing() {
    let channels = orders(|config| config.rooms_are_tenants = true);
    let daemon = Daemon::start_with(Config::default(), channels).await;
    daemon.publish_events(vec![order(1, "a", "north")]).await;
    let mut nobody = Client::open_with(daemon.address, "X-Tenant: \r\n").await;
    let mut of = async |channel: &str, options| {
        let mut answer = nobody.subscribe(channel, options).await;
        assert_eq!(answer["channel"].take(), channel);
        answer
    };
    let unknown = of("nothing", json!({})).await;
    assert_eq!(unknown["code"], "unknown_channel");
    for options in [json!({}), json!({"from": "snapshot"}), json!({"room": ["north"]})] {
        assert_eq!(of("orders", options).await, unknown);
    }
    assert_eq!(of("iceberg", json!({})).await["type"], "subscribed");
}
