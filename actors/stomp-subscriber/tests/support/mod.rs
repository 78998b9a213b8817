//! Ports that remember what they got, a decoder, and a recorder of health: what every test of this room needs.
#![allow(dead_code, clippy::unwrap_used, reason = "each test binary uses its own part")]

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use freshet_feed::port::{DeadLetterStore, Outcome, Publisher, StoreError};
use freshet_feed::{DeadLetter, Epoch, Event, Position};
use freshet_stomp_subscriber::Ports;
use freshet_stomp_subscriber::acknowledge::Refusal;
use freshet_stomp_subscriber::state::Health;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::sync::watch;

/// The store behind both ports: it recognises events by their id, as the log does.
pub struct Store {
    /// How often each event id was accepted; more than once would be a bug of this store.
    accepted: Mutex<BTreeMap<String, u64>>,
    letters: Mutex<Vec<DeadLetter>>,
    /// What the next calls answer instead of storing.
    refusals: Mutex<VecDeque<StoreError>>,
    delay: Mutex<Duration>,
    calls: watch::Sender<u64>,
    unique: watch::Sender<usize>,
    buried: watch::Sender<usize>,
}

impl Store {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            accepted: Mutex::default(),
            letters: Mutex::default(),
            refusals: Mutex::default(),
            delay: Mutex::default(),
            calls: watch::Sender::new(0),
            unique: watch::Sender::new(0),
            buried: watch::Sender::new(0),
        })
    }

    pub fn ports(self: &Arc<Self>) -> Ports {
        Ports { publisher: self.clone(), dead_letters: self.clone(), decode: Arc::new(decode) }
    }

    /// The next calls are answered with these errors.
    pub fn refuse(&self, errors: impl IntoIterator<Item = StoreError>) {
        self.refusals.lock().unwrap().extend(errors);
    }

    /// From now on each call takes this long.
    pub fn delay(&self, delay: Duration) {
        *self.delay.lock().unwrap() = delay;
    }

    pub fn calls(&self) -> u64 {
        *self.calls.borrow()
    }

    pub fn ids(&self) -> Vec<String> {
        self.accepted.lock().unwrap().keys().cloned().collect()
    }

    pub fn letters(&self) -> Vec<DeadLetter> {
        self.letters.lock().unwrap().clone()
    }

    /// Waits until so many different events are stored.
    pub async fn stored(&self, events: usize) {
        self.unique.subscribe().wait_for(|&unique| unique >= events).await.unwrap();
    }

    /// Waits until so many letters are buried.
    pub async fn buried(&self, letters: usize) {
        self.buried.subscribe().wait_for(|&buried| buried >= letters).await.unwrap();
    }

    /// Waits until so many calls were made.
    pub async fn called(&self, calls: u64) {
        self.calls.subscribe().wait_for(|&made| made >= calls).await.unwrap();
    }

    async fn answer(&self) -> Result<(), StoreError> {
        self.calls.send_modify(|calls| *calls += 1);
        let delay = *self.delay.lock().unwrap();
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        match self.refusals.lock().unwrap().pop_front() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

impl Publisher for Store {
    fn publish(&self, events: Vec<Event>) -> BoxFuture<'_, Result<Vec<Outcome>, StoreError>> {
        async move {
            self.answer().await?;
            let mut accepted = self.accepted.lock().unwrap();
            let outcomes = events
                .into_iter()
                .map(|event| {
                    if accepted.contains_key(&event.event_id) {
                        return Outcome::Duplicate;
                    }
                    accepted.insert(event.event_id, 1);
                    let offset = accepted.len() as u64;
                    Outcome::Accepted { position: Position { epoch: Epoch(1), offset } }
                })
                .collect();
            self.unique.send_replace(accepted.len());
            Ok(outcomes)
        }
        .boxed()
    }
}

impl DeadLetterStore for Store {
    fn bury(&self, letters: Vec<DeadLetter>) -> BoxFuture<'_, Result<(), StoreError>> {
        async move {
            self.answer().await?;
            let mut buried = self.letters.lock().unwrap();
            buried.extend(letters);
            self.buried.send_replace(buried.len());
            Ok(())
        }
        .boxed()
    }
}

/// The largest body that this decoder takes, in bytes: less than a frame may have, so that what is over it
/// arrives whole.
pub const MAX_EVENT_BYTES: usize = 10 * 1024 * 1024;

/// Takes any text as an event whose id is the text; what starts with `bad` or holds a NUL is none.
pub fn decode(_: &[(String, String)], body: &Bytes) -> Result<Event, Refusal> {
    let refuse = |code: &str| Err(Refusal { code: code.into(), reason: "the test's decoder says so".into() });
    if body.len() > MAX_EVENT_BYTES {
        return refuse("event_too_large");
    }
    if body.starts_with(b"bad") || body.contains(&0) {
        return refuse("event_not_json");
    }
    let Ok(text) = std::str::from_utf8(body) else { return refuse("event_not_utf8") };
    Ok(Event {
        event_id: text.to_owned(),
        channel: freshet_feed::ChannelName::iceberg(),
        name: "iceberg-mutation".into(),
        key: None,
        room: None,
        timestamp: jiff::Timestamp::UNIX_EPOCH,
        source_application: None,
        commit: None,
        body: body.clone(),
    })
}

/// Remembers each code that was declared; `healthy` is one of them.
pub struct Recorder(watch::Sender<Vec<&'static str>>);

impl Recorder {
    pub fn new() -> std::rc::Rc<Self> {
        std::rc::Rc::new(Self(watch::Sender::default()))
    }

    pub fn codes(&self) -> Vec<&'static str> {
        self.0.borrow().clone()
    }

    /// Waits until this is the latest code.
    pub async fn reached(&self, code: &str) {
        self.0.subscribe().wait_for(|codes| codes.last() == Some(&code)).await.unwrap();
    }

    /// Waits until so many codes were declared.
    pub async fn declared(&self, codes: usize) {
        self.0.subscribe().wait_for(|declared| declared.len() >= codes).await.unwrap();
    }
}

impl Health for Recorder {
    fn degraded(&self, code: &'static str, _: String) {
        self.0.send_modify(|codes| codes.push(code));
    }

    fn healthy(&self) {
        self.0.send_modify(|codes| codes.push("healthy"));
    }
}
