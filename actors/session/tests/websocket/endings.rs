//! How a WebSocket ends: by its client, by a drain, by a full outbox, or without a word.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use bytes::Bytes;
use freshet_feed::Event;
use freshet_kernel::task;
use freshet_session::{CloseCode, Config};
use serde_json::json;
use tokio::io::AsyncWriteExt;

use crate::daemon::{Daemon, ids};
use crate::memory_log::{MemoryLog, event};
use crate::orders::at;
use crate::websocket::{CLOSE, Client, Frame, TEXT};

fn shutting_down() -> serde_json::Value {
    json!({"type": "close", "code": 1012, "reason": "shutting_down", "reconnect": true})
}

#[actix_rt::test]
async fn a_close_of_the_client_is_answered_with_its_code_and_nothing_after_it_is_heard() {
    let daemon = Daemon::start(Config::default()).await;
    for (payload, code) in [
        (&b""[..], None),
        (&b"\x03\xe8"[..], Some(1000)),
        (&b"\x03\xe9going away"[..], Some(1001)),
        (&b"\x0f\xa0my own reasons"[..], Some(4000)),
    ] {
        let mut client = Client::open(daemon.address).await;
        client.subscribe("iceberg", json!({})).await;
        client.send_frame(CLOSE, payload).await;
        client.send_frame(TEXT, b"{\"type\":\"ping\"}").await;
        assert_eq!(client.frame().await, Frame::Close(code, String::new()));
        assert_eq!(client.frame().await, Frame::End, "the server ends the connection first");
    }
    daemon.until(|daemon| daemon.open_sessions() == 0 && daemon.nursery.count() == 0).await;
    let counters = daemon.sessions.counters();
    assert!(CloseCode::ALL.into_iter().all(|code| counters.closed(code) == 0), "these are the daemon's own");
}

#[actix_rt::test]
async fn a_client_that_vanishes_leaves_nothing_behind() {
    let small = freshet_broadcaster::Config { recent_max_bytes: 1, batch_max_bytes: 1, ..Default::default() };
    let daemon = Daemon::start_on(MemoryLog::new(), Config::default(), small).await;
    daemon.publish(1..=5).await;
    let mut others = Client::open(daemon.address).await;
    others.subscribe("iceberg", json!({})).await;

    // One that listens, and whose connection is cut.
    let mut client = Client::open(daemon.address).await;
    client.subscribe("iceberg", json!({"window": 5})).await;
    socket2::SockRef::from(&client.stream).set_linger(Some(std::time::Duration::ZERO)).unwrap();
    drop(client);
    daemon.until(|daemon| daemon.open_sessions() == 1).await;

    // One that closes its side in the middle of a frame.
    let mut client = Client::open(daemon.address).await;
    client.send_bytes(&[TEXT, 0x85, 1, 2]).await;
    client.stream.shutdown().await.unwrap();
    assert_eq!(client.frame().await, Frame::End);
    daemon.until(|daemon| daemon.open_sessions() == 1).await;

    // One that catches up from a log that does not answer.
    daemon.log.readable.send_replace(false);
    let mut client = Client::open(daemon.address).await;
    client.subscribe("iceberg", json!({"from": {"position": at(1)}})).await;
    daemon.until(|daemon| daemon.log.reads.load(SeqCst) > 0).await;
    drop(client);
    daemon.until(|daemon| daemon.open_sessions() == 1 && daemon.nursery.count() == 1).await;
    daemon.log.readable.send_replace(true);

    daemon.publish([6]).await;
    assert_eq!(others.ids(1).await, ["e6"]);
}

#[actix_rt::test]
async fn a_drain_tells_each_client_before_it_closes_and_waits_for_its_answer() {
    let daemon = Daemon::start(Config { drain_window_secs: 1, ..Config::default() }).await;
    let mut clients = Vec::new();
    for _ in 0..6 {
        let mut client = Client::open(daemon.address).await;
        client.subscribe("iceberg", json!({})).await;
        clients.push(client);
    }
    let sessions = daemon.sessions.clone();
    let drain = task::spawn("drain", async move { sessions.drain().await });
    for client in &mut clients {
        assert_eq!(client.says().await, shutting_down());
        assert_eq!(client.frame().await, Frame::Close(Some(1012), "shutting_down".to_owned()));
    }
    assert_eq!(daemon.open_sessions(), 6, "their own close frames are still to come");
    for client in &mut clients {
        // Who had something to say at that moment is not answered any more.
        client.send(json!({"type": "ping"})).await;
        client.send_frame(CLOSE, &1012_u16.to_be_bytes()).await;
        assert_eq!(client.frame().await, Frame::End);
    }
    assert_eq!(drain.await.unwrap(), 0);
    assert_eq!(daemon.sessions.counters().closed(CloseCode::ShuttingDown), 6);

    let mut refused = Client::ask(daemon.address, "").await;
    assert_eq!(refused.status(), "503");
    assert!(refused.header("retry-after").is_some());
    assert_eq!(refused.refusal().await["code"], "draining");
}

#[actix_rt::test]
async fn who_does_not_answer_a_close_is_cut_off_after_a_while() {
    let daemon = Daemon::start(Config { drain_window_secs: 0, ..Config::default() }).await;
    let mut client = Client::open(daemon.address).await;
    let sessions = daemon.sessions.clone();
    let drain = task::spawn("drain", async move { sessions.drain().await });
    assert_eq!(client.says().await, shutting_down());
    assert_eq!(client.frame().await, Frame::Close(Some(1012), "shutting_down".to_owned()));
    assert_eq!(client.frame().await, Frame::End);
    daemon.until(|daemon| daemon.open_sessions() == 0).await;
    drain.await.unwrap();
}

#[actix_rt::test]
async fn one_client_too_many_is_told_when_to_come_back() {
    let daemon = Daemon::start(Config { max_sessions: 1, ..Config::default() }).await;
    let mut first = Client::open(daemon.address).await;
    let mut refused = Client::ask(daemon.address, "").await;
    assert_eq!(refused.status(), "503");
    let retry_after: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=5).contains(&retry_after));
    assert_eq!(refused.refusal().await["code"], "too_many_sessions");
    assert_eq!(daemon.sessions.counters().refused.load(Relaxed), 1);
    assert_eq!(daemon.sessions.counters().closed(CloseCode::InternalError), 0, "it never was open");
    first.has_heard_all().await;
}

#[actix_rt::test]
async fn a_client_that_never_reads_is_closed_resumes_where_it_stood_and_others_get_all() {
    const LARGE_BYTES: usize = 64 << 10;
    let config =
        Config { outbox_max_bytes: 4 * LARGE_BYTES, socket_unsent_max_bytes: 16 << 10, ..Config::default() };
    let daemon = Daemon::start(config).await;
    let mut reader = Client::open(daemon.address).await;
    reader.subscribe("iceberg", json!({})).await;
    let mut client = Client::open(daemon.address).await;
    client.subscribe("iceberg", json!({})).await;
    let mut published = 0;
    while daemon.sessions.counters().closed(CloseCode::OutboxFull) == 0 {
        published += 1;
        let body = format!("{{\"filler\":\"{}\"}}", "x".repeat(LARGE_BYTES));
        daemon.publish_events(vec![Event { body: Bytes::from(body), ..event(published) }]).await;
        assert_eq!(reader.ids(1).await, ids([published]));
    }
    assert!(daemon.sessions.counters().dropped.load(Relaxed) >= 4, "what waited for it is not kept");
    let (mut got, mut last) = (Vec::new(), String::new());
    let close = loop {
        let message = client.says().await;
        if message["type"] == "close" {
            break message;
        }
        got.push(message["id"].as_str().unwrap().to_owned());
        message["position"].as_str().unwrap().clone_into(&mut last);
    };
    assert_eq!(close, json!({"type": "close", "code": 4001, "reason": "outbox_full", "reconnect": true}));
    assert_eq!(client.frame().await, Frame::Close(Some(4001), "outbox_full".to_owned()));
    client.send_frame(CLOSE, &4001_u16.to_be_bytes()).await;
    assert_eq!(client.frame().await, Frame::End);

    let mut client = Client::open(daemon.address).await;
    let subscribed = client.subscribe("iceberg", json!({"from": {"position": last}})).await;
    assert_eq!(subscribed["recovered"], true);
    got.extend(client.ids(usize::try_from(published).unwrap() - got.len()).await);
    assert_eq!(got, ids(1..=published));
}
