//! A publisher and clients that all keep on through a load balancer, whatever happens behind it.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::support::{self, sse, websocket};

/// How many clients follow by server-sent events, and as many by WebSocket.
pub const CLIENTS: usize = 20;
/// The publisher's pace: 40 events a second.
const PACE: Duration = Duration::from_millis(25);
/// What is published at least, and at most.
const EVENTS: std::ops::Range<usize> = 600..8000;
/// How long a publisher waits for an answer before it asks again.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// How long a client waits before it comes back, unless it was told.
const RETRY_AFTER: Duration = Duration::from_millis(250);
/// The close code of an instance that stops.
const SHUTTING_DOWN: u64 = 1012;

/// An event as a client got it.
#[derive(Debug)]
pub struct Seen {
    pub id: String,
    pub data: String,
    /// Told by WebSocket only.
    pub position: Option<String>,
}

/// What all of them have in common. They run on one thread.
#[derive(Default)]
pub struct Crowd {
    open: Cell<usize>,
    opened: Cell<usize>,
    published: Cell<usize>,
    refused: Cell<usize>,
    is_finishing: Cell<bool>,
    last: OnceCell<String>,
    codes: RefCell<BTreeMap<String, usize>>,
}

impl Crowd {
    /// How many clients are connected.
    pub fn open(&self) -> usize {
        self.open.get()
    }

    /// How many connections there were.
    pub fn opened(&self) -> usize {
        self.opened.get()
    }

    /// How many events were answered with 200.
    pub fn published(&self) -> usize {
        self.published.get()
    }

    /// How many posts were answered with anything else, or not at all.
    pub fn refused(&self) -> usize {
        self.refused.get()
    }

    /// How often each close code was said, by the client's kind.
    pub fn codes(&self) -> BTreeMap<String, usize> {
        self.codes.borrow().clone()
    }

    /// The publisher may end.
    pub fn finish(&self) {
        self.is_finishing.set(true);
    }

    fn enter(&self) {
        self.open.set(self.open() + 1);
        self.opened.set(self.opened() + 1);
    }

    fn leave(&self) {
        self.open.set(self.open() - 1);
    }

    fn is_last(&self, id: &str) -> bool {
        self.last.get().is_some_and(|last| last == id)
    }

    /// Only an instance that stops may send a client away.
    fn closed(&self, kind: &str, close: &Value) {
        let code = close["code"].as_u64().expect("a code");
        *self.codes.borrow_mut().entry(format!("{kind} {code}")).or_default() += 1;
        assert_eq!((code, &close["reconnect"]), (SHUTTING_DOWN, &true.into()), "{kind} {close}");
    }

    /// Follows by server-sent events to the last one, as an EventSource does.
    pub async fn follow_stream(&self, port: u16) -> Vec<Seen> {
        let url = format!("http://127.0.0.1:{port}/events");
        let mut seen = Vec::new();
        let mut last_event_id = None::<String>;
        let mut retry_after = RETRY_AFTER;
        loop {
            if let Some(mut client) = sse::Client::reconnect(&url, last_event_id.as_deref()).await {
                let mut is_open = false;
                while let Some(message) = client.next().await {
                    if !message.last_event_id.is_empty() {
                        last_event_id = Some(message.last_event_id.clone());
                    }
                    match message.kind.as_str() {
                        "connected" => {
                            is_open = true;
                            self.enter();
                        }
                        "iceberg-mutation" => {
                            let id = message.last_event_id;
                            let is_last = self.is_last(&id);
                            seen.push(Seen { id, data: message.data, position: None });
                            if is_last {
                                return seen;
                            }
                        }
                        "close" => self.closed("SSE", &serde_json::from_str(&message.data).expect("JSON")),
                        other => panic!("{other}: {}", message.data),
                    }
                }
                retry_after = client.retry_millis().map_or(retry_after, Duration::from_millis);
                if is_open {
                    self.leave();
                }
            }
            tokio::time::sleep(retry_after).await;
        }
    }

    /// Follows by WebSocket to the last event.
    pub async fn follow_socket(&self, port: u16) -> Vec<Seen> {
        let mut seen = Vec::new();
        let mut place = None::<String>;
        loop {
            if let Some(mut client) = websocket::Client::connect(port).await {
                let from = place.as_ref().map_or(json!("now"), |position| json!({"position": position}));
                client.send(&json!({"type": "subscribe", "channel": "iceberg", "from": from})).await;
                let mut is_open = false;
                while let Some(text) = client.next().await {
                    let message: Message<'_> = serde_json::from_str(&text).expect("a message");
                    match message.kind {
                        "welcome" | "live" => {}
                        "subscribed" => {
                            assert_eq!(message.recovered, Some(true), "{text}");
                            place = message.position.map(str::to_owned);
                            is_open = true;
                            self.enter();
                        }
                        "event" => {
                            let id = message.id.expect("an id").to_owned();
                            place = message.position.map(str::to_owned);
                            let is_last = self.is_last(&id);
                            let data = message.data.expect("data").get().to_owned();
                            seen.push(Seen { id, data, position: place.clone() });
                            if is_last {
                                return seen;
                            }
                        }
                        "close" => self.closed("WebSocket", &serde_json::from_str(&text).expect("JSON")),
                        _ => panic!("{text}"),
                    }
                }
                if is_open {
                    self.leave();
                }
            }
            tokio::time::sleep(RETRY_AFTER).await;
        }
    }
}

/// What the daemon says by WebSocket, as far as it matters here.
#[derive(Deserialize)]
struct Message<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    id: Option<&'a str>,
    position: Option<&'a str>,
    recovered: Option<bool>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

/// Publishes the numbered events one after the other, each again and again until it is answered with 200. Gives the
/// position that was answered, which a duplicate has none of.
pub async fn publish(port: u16, crowd: &Crowd) -> Vec<Option<String>> {
    let url = format!("http://127.0.0.1:{port}/api/v2/events");
    let client = reqwest::Client::builder().timeout(ANSWER_WITHIN).build().expect("a client");
    let mut pace = tokio::time::interval(PACE);
    pace.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut positions = Vec::new();
    for number in 0..EVENTS.end {
        let (id, body) = support::event(number);
        let is_last = number >= EVENTS.start && crowd.is_finishing.get();
        if is_last {
            crowd.last.set(id).expect("there is one last event");
        }
        let answer = loop {
            pace.tick().await;
            let request = client.post(&url).header("Content-Type", "application/json").body(body.clone());
            match request.send().await {
                Ok(response) if response.status() == 200 => {
                    if let Ok(text) = response.text().await {
                        break serde_json::from_str::<Value>(&text).expect("JSON");
                    }
                }
                _ => {}
            }
            crowd.refused.set(crowd.refused() + 1);
        };
        assert!(answer["accepted"] == 1 || answer["duplicate"] == 1, "{answer}");
        positions.push(answer["results"][0]["position"].as_str().map(str::to_owned));
        crowd.published.set(crowd.published() + 1);
        if is_last {
            return positions;
        }
    }
    panic!("the story does not end");
}

/// The same events in the same order, each once; the first difference is told.
pub fn same(seen: &[(String, String)], expected: &[(String, String)]) {
    for (number, (seen, expected)) in seen.iter().zip(expected).enumerate() {
        assert_eq!(seen, expected, "event {number}");
    }
    assert_eq!(seen.len(), expected.len());
}

/// Positions without a gap or a repeat: one epoch, and each offset is the one before plus one.
pub fn dense(seen: &[Seen]) {
    let place = |event: &Seen| {
        let position = event.position.as_ref().expect("a position");
        let (epoch, offset) = position.split_once('-').expect("an epoch and an offset");
        (epoch.to_owned(), offset.parse::<u64>().expect("a number"))
    };
    for pair in seen.windows(2) {
        let ((epoch, offset), next) = (place(&pair[0]), place(&pair[1]));
        assert_eq!(next, (epoch, offset + 1), "after {pair:?}");
    }
}
