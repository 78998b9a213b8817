use std::net::TcpListener;

use super::*;
use crate::server::{Product, Server};
use crate::websocket::write_server_head;

const WEBSOCKET_HEAD: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n";
const SSE_HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";

fn frame(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_server_head(&mut bytes, Opcode::Text, text.len());
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

fn server(transport: Transport) -> Server {
    Server { product: Product::Freshet, transport }
}

/// What the daemon says to a WebSocket up to its end.
fn websocket_stream() -> Vec<u8> {
    [
        WEBSOCKET_HEAD,
        &frame(r#"{"type":"welcome"}"#),
        &frame(r#"{"type":"subscribed","channel":"iceberg"}"#),
        &frame(r#"{"type":"event","data":{"code":1}}"#),
        &frame(r#"{"type":"coalesced","channel":"iceberg","leftOut":41}"#),
        &frame(r#"{"type":"event","data":{}}"#),
        &frame(r#"{"type":"close","code":4001}"#),
        &[0x88, 2, 0x0f, 0xa1],
    ]
    .concat()
}

fn sse_stream() -> Vec<u8> {
    [
        SSE_HEAD,
        b"retry: 1000\nevent: connected\ndata: {}\n\n" as &[u8],
        b"id: 1\nevent: iceberg-mutation\ndata: {\"code\":1}\n\n",
        b"event: coalesced\ndata: {\"leftOut\":41}\n\n",
        b"id: 2\nevent: iceberg-mutation\ndata: {}\n\n",
        b"retry: 2000\nevent: close\ndata: {\"code\":4001,\"reason\":\"outbox_full\",\"reconnect\":true}\n\n",
    ]
    .concat()
}

#[test]
fn both_transports_are_understood_at_every_split() {
    for (transport, stream) in [(Transport::WebSocket, websocket_stream()), (Transport::Sse, sse_stream())] {
        for split in 0..=stream.len() {
            let mut wire = Wire::new(transport);
            wire.feed(&stream[..split], "").unwrap();
            wire.feed(&stream[split..], "").unwrap();
            assert_eq!((wire.events, wire.told_left_out), (2, 41), "{transport} {split}");
            assert!(wire.is_subscribed);
            assert_eq!(wire.code, Some(4001));
        }
    }
}

#[test]
fn it_subscribes_behind_the_head_once_and_answers_pings() {
    let mut wire = Wire::new(Transport::WebSocket);
    let mut expected = Vec::new();
    write_masked(&mut expected, Opcode::Text, b"subscribe");
    assert_eq!(wire.feed(WEBSOCKET_HEAD, "subscribe").unwrap(), expected);
    let mut pong = Vec::new();
    write_masked(&mut pong, Opcode::Pong, b"x");
    assert_eq!(wire.feed(&[0x89, 1, b'x'], "subscribe").unwrap(), pong);
    assert!(!wire.is_subscribed);
}

#[test]
fn refusals_are_errors() {
    let mut wire = Wire::new(Transport::Sse);
    let error = wire.feed(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n", "").unwrap_err();
    assert_eq!(error.to_string(), "a laggard was answered with status 503");
    let mut wire = Wire::new(Transport::WebSocket);
    wire.feed(WEBSOCKET_HEAD, "").unwrap();
    assert!(wire.feed(&frame(r#"{"type":"error","code":"unknown_channel"}"#), "").is_err());
}

/// A daemon of one connection, with a clock that only the test moves.
struct Story {
    listener: TcpListener,
    laggard: Laggard,
    now: Instant,
}

impl Story {
    fn of(kind: Kind) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = server(Transport::WebSocket).target(listener.local_addr().unwrap(), 1);
        let now = Instant::now();
        Self { listener, laggard: Laggard::new(kind, target, now), now }
    }

    /// Connects, and says what the daemon says up to the subscription.
    fn subscribe(&mut self) -> TcpStream {
        self.laggard.look(self.now).unwrap();
        let (mut daemon, _) = self.listener.accept().unwrap();
        daemon.write_all(&[WEBSOCKET_HEAD, &frame(r#"{"type":"subscribed"}"#)].concat()).unwrap();
        self.look_until(|laggard| {
            laggard.connection.as_ref().is_some_and(|connection| connection.stage == Stage::Lagging)
        });
        daemon
    }

    /// Loopback delivers at once, but another thread of the system may do it.
    fn look_until(&mut self, is_so: impl Fn(&Laggard) -> bool) {
        let started = Instant::now();
        while !is_so(&self.laggard) {
            assert!(started.elapsed() < Duration::from_secs(10), "{:?}", self.laggard);
            self.laggard.look(self.now).unwrap();
            std::thread::yield_now();
        }
    }

    fn events_read(&self) -> u64 {
        self.laggard.connection.as_ref().map_or(0, |connection| connection.wire.events)
    }
}

#[test]
fn the_slow_one_reads_a_kibibyte_a_second_at_most() {
    let mut story = Story::of(Kind::Slow);
    let mut daemon = story.subscribe();
    // Four make a kibibyte.
    let event = frame(&format!("{{\"type\":\"event\",\"data\":{:_<229}", ""));
    daemon.write_all(&event.repeat(10)).unwrap();
    assert_eq!(event.len(), 256);
    for _ in 0..100 {
        story.laggard.look(story.now).unwrap();
    }
    assert_eq!(story.events_read(), 0);
    for read in [4, 8, 10] {
        story.now += SIP_INTERVAL;
        for _ in 0..100 {
            story.laggard.look(story.now).unwrap();
        }
        assert_eq!(story.events_read(), read);
    }
}

#[test]
fn the_silent_one_reads_nothing_until_it_gives_up_and_then_learns_its_code_and_comes_back() {
    let mut story = Story::of(Kind::Silent);
    let mut daemon = story.subscribe();
    daemon.write_all(&websocket_stream()[WEBSOCKET_HEAD.len()..]).unwrap();
    drop(daemon);
    story.now += SILENT_FOR - Duration::from_millis(1);
    story.laggard.look(story.now).unwrap();
    assert_eq!((story.events_read(), story.laggard.fate().endings.len()), (0, 0));
    story.now += Duration::from_millis(1);
    story.look_until(|laggard| laggard.connection.is_none());
    assert_eq!(story.laggard.fate().endings, BTreeMap::from([(Ending::Code(4001), 1)]));
    assert_eq!(story.laggard.fate().events, 2);
    story.laggard.look(story.now).unwrap();
    assert!(story.laggard.connection.is_none());
    story.now += COME_BACK;
    story.subscribe();
}

#[test]
fn the_one_without_acknowledgements_asks_for_a_window_and_reads_at_once() {
    let mut story = Story::of(Kind::WithoutAcknowledgement);
    let mut daemon = story.subscribe();
    let mut subscribe = Vec::new();
    write_masked(&mut subscribe, Opcode::Text, SUBSCRIBE_WITH_WINDOW.as_bytes());
    let mut request = Vec::new();
    while !request.ends_with(&subscribe) {
        let mut buffer = [0; 4096];
        let read = daemon.read(&mut buffer).unwrap();
        assert!(read > 0, "{}", String::from_utf8_lossy(&request));
        request.extend_from_slice(&buffer[..read]);
    }
    daemon.write_all(&frame(r#"{"leftOut":7,"type":"coalesced"}"#)).unwrap();
    drop(daemon);
    story.look_until(|laggard| laggard.connection.is_none());
    assert_eq!(story.laggard.fate().endings, BTreeMap::from([(Ending::Cut, 1)]));
    assert_eq!(story.laggard.fate().told_left_out, 7);
}

#[test]
fn who_leaves_with_an_open_connection_says_so_and_does_not_come_back() {
    let mut story = Story::of(Kind::Silent);
    let _daemon = story.subscribe();
    story.laggard.leave(story.now);
    story.laggard.look(story.now).unwrap();
    assert!(!story.laggard.is_gone());
    story.now += READ_OUT;
    story.laggard.look(story.now).unwrap();
    assert!(story.laggard.is_gone());
    assert_eq!(story.laggard.fate().endings, BTreeMap::from([(Ending::Open, 1)]));
    assert_eq!(Kind::of(Transport::Sse), [Kind::Slow, Kind::Silent]);
}
