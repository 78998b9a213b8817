//! What must hold with every broker. Each story has a topic of its own.

use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use freshet_feed::Secret;
use freshet_stomp_subscriber::Config;
use freshet_stomp_subscriber::state::{Monitor, State};
use freshet_stomp_subscriber::subscriber::serve;
use tokio::sync::watch;

use crate::producer::Producer;
use crate::proxy::Proxy;
use crate::service::{Service, topic};
use crate::support::{MAX_EVENT_BYTES, Recorder, Store};

/// How long a story may take. A cold broker on a busy machine is slow.
const PATIENCE: Duration = Duration::from_secs(240);

/// A subscription that lives while a story is told, and is cut off at its end.
pub struct Subscriber {
    pub config: Config,
    pub store: Arc<Store>,
    pub recorder: Rc<Recorder>,
    pub monitor: Monitor,
    stop: watch::Sender<bool>,
}

impl Subscriber {
    pub fn new(config: Config) -> Self {
        assert_eq!(config.problems(), Vec::new());
        let recorder = Recorder::new();
        let monitor = Monitor::new(&config.name, recorder.clone());
        Self { config, store: Store::new(), recorder, monitor, stop: watch::Sender::new(false) }
    }

    fn serving(&self) -> impl Future<Output = ()> {
        let config = Arc::new(self.config.clone());
        serve(config, self.store.ports(), self.monitor.clone(), self.stop.subscribe())
    }

    /// Serves while the story is told; then its socket is cut, as in a crash.
    pub async fn until<T>(&self, story: impl Future<Output = T>) -> T {
        let told = tokio::time::timeout(PATIENCE, story);
        tokio::select! {
            () = self.serving() => panic!("the subscription ended by itself"),
            told = told => told.unwrap_or_else(|_| {
                panic!("the story takes too long; {:?}, {} stored", self.state(), self.store.ids().len())
            }),
        }
    }

    /// Serves while the story is told; then it is stopped in order.
    pub async fn until_stopped<T>(&self, story: impl Future<Output = T>) -> T {
        let stopping = async {
            let told = story.await;
            self.stop.send_replace(true);
            told
        };
        let both = async { tokio::join!(self.serving(), stopping) };
        tokio::time::timeout(PATIENCE, both).await.expect("the story takes too long").1
    }

    pub async fn subscribed(&self) {
        self.recorder.reached("healthy").await;
    }

    pub fn state(&self) -> State {
        self.monitor.state()
    }
}

async fn send(service: &Service, test: &str, bodies: &[&[u8]]) {
    let mut producer = Producer::connect(service.port).await.unwrap();
    producer.send(&topic(test), bodies.iter().copied()).await.unwrap();
}

/// Bodies of `count` events with different ids.
fn events(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("event-{number:05}")).collect()
}

/// Sends all events, again and again what the broker did not confirm, whatever happens to the broker.
async fn send_whatever_happens(service: &Service, test: &str, events: &[String]) {
    for chunk in events.chunks(100) {
        loop {
            let sending = async {
                let mut producer = Producer::connect(service.port).await?;
                producer.send(&topic(test), chunk.iter().map(|event| event.as_bytes())).await
            };
            if sending.await.is_ok() {
                break;
            }
            // The broker is away; it comes back after seconds.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// The broker stops and starts in the middle of 10,000 events, then is killed: nothing is lost.
pub async fn a_broker_restart_loses_nothing(service: Arc<Service>) {
    let test = "restart";
    let subscriber = Subscriber::new(service.config(test));
    let events = events(10_000);
    let story = async {
        subscriber.subscribed().await;
        let outages = async {
            subscriber.store.stored(3000).await;
            service.run_aside("restart").await;
            subscriber.store.stored(6000).await;
            service.run_aside("crash").await;
            service.run_aside("start").await;
        };
        tokio::join!(send_whatever_happens(&service, test, &events), outages);
        subscriber.store.stored(events.len()).await;
    };
    subscriber.until(story).await;
    assert_eq!(subscriber.store.ids(), events, "each event exactly once, and no other");
    let outages = subscriber.recorder.codes().iter().filter(|&&code| code == "healthy").count();
    assert!(outages >= 3, "{:?}", subscriber.recorder.codes());
}

/// What was sent while nobody was subscribed arrives when the subscription returns.
pub async fn a_durable_subscription_gets_what_it_missed(service: Arc<Service>) {
    let test = "durable";
    let first = Subscriber::new(service.config(test));
    first.until_stopped(first.subscribed()).await;
    send(&service, test, &[b"missed-1", b"missed-2"]).await;
    let second = Subscriber::new(service.config(test));
    second.until_stopped(second.store.stored(2)).await;
    assert_eq!(second.store.ids(), ["missed-1", "missed-2"]);
    // The goodbye came after the acknowledgements, so nothing is left.
    let third = Subscriber::new(service.config(test));
    third
        .until(async {
            third.subscribed().await;
            send(&service, test, &[b"new"]).await;
            third.store.stored(1).await;
        })
        .await;
    assert_eq!(third.store.ids(), ["new"]);
}

/// The subscriber dies between taking messages and acknowledging them: they come again.
pub async fn a_crash_before_the_acknowledgement_brings_the_messages_again(service: Arc<Service>) {
    let test = "crash";
    let first = Subscriber::new(service.config(test));
    first.store.delay(Duration::from_secs(3600));
    first
        .until(async {
            first.subscribed().await;
            send(&service, test, &[b"one", b"two"]).await;
            first.store.called(1).await;
        })
        .await;
    assert!(first.store.ids().is_empty());
    let second = Subscriber::new(service.config(test));
    second.until_stopped(second.store.stored(2)).await;
    assert_eq!(second.store.ids(), ["one", "two"]);
    assert_eq!(second.state().acknowledged, 2);
    if service.flavour == freshet_stomp_subscriber::config::Flavour::Rabbitmq {
        assert!(second.state().redelivered >= 1);
    }
}

/// A wrong password is a state with its code; attempts go on, with waits.
pub async fn a_wrong_password_is_a_state(service: Arc<Service>) {
    let config = Config { passcode: Secret::new("wrong-password"), ..service.config("password") };
    let subscriber = Subscriber::new(config);
    subscriber
        .until(async {
            subscriber.recorder.declared(4).await;
        })
        .await;
    let state = subscriber.state();
    assert_eq!(state.code, Some("login_refused"));
    let seen = serde_json::to_string(&state).unwrap();
    assert!(!seen.contains("wrong-password"), "{seen}");
    assert_eq!(
        subscriber.recorder.codes()[..4],
        ["connecting", "login_refused", "login_refused", "login_refused"]
    );
}

/// Bodies that are no events, among them one with NUL bytes, are buried byte for byte, and do not come again.
pub async fn what_is_no_event_is_buried_byte_for_byte(service: Arc<Service>) {
    let test = "bad";
    let with_nul: &[u8] = b"a\0b\0c";
    let no_utf8: &[u8] = b"\xff\xfe{";
    let subscriber = Subscriber::new(service.config(test));
    subscriber
        .until_stopped(async {
            subscriber.subscribed().await;
            send(&service, test, &[with_nul, b"good", no_utf8, b""]).await;
            subscriber.store.buried(2).await;
            subscriber.store.stored(2).await;
        })
        .await;
    let letters = subscriber.store.letters();
    let bodies: Vec<&[u8]> = letters.iter().map(|letter| &letter.body[..]).collect();
    assert_eq!(bodies, [with_nul, no_utf8]);
    let codes: Vec<&str> = letters.iter().map(|letter| letter.code.as_str()).collect();
    assert_eq!(codes, ["event_not_json", "event_not_utf8"]);
    assert!(letters.iter().all(|letter| !letter.source_position.is_empty() && letter.source == test));
    let state = subscriber.state();
    assert_eq!((state.received, state.acknowledged, state.buried), (4, 4, 2));
}

/// A body just over the limit of an event arrives whole in the dead letters; one over the limit of a frame
/// leaves its first bytes there. Neither keeps the next event from coming.
pub async fn bodies_of_ten_megabytes_are_buried(service: Arc<Service>) {
    let test = "large";
    let over_event = vec![b'x'; MAX_EVENT_BYTES + 1];
    let over_frame = vec![b'y'; 13 * 1024 * 1024];
    let subscriber = Subscriber::new(service.config(test));
    subscriber
        .until_stopped(async {
            subscriber.subscribed().await;
            send(&service, test, &[&over_event]).await;
            send(&service, test, &[&over_frame]).await;
            send(&service, test, &[b"small"]).await;
            subscriber.store.buried(2).await;
            subscriber.store.stored(1).await;
        })
        .await;
    let letters = subscriber.store.letters();
    assert_eq!(letters[0].code, "event_too_large");
    assert!(letters[0].body == over_event, "the body arrived whole");
    assert_eq!(letters[1].code, "frame_too_large");
    assert!(letters[1].body.iter().all(|&byte| byte == b'y') && !letters[1].body.is_empty());
    assert_eq!(subscriber.state().acknowledged, 3);
}

/// The network swallows everything without a word: after two and a half heart-beats the subscription moves on.
/// Before that, heart-beats alone keep an idle connection for many intervals.
pub async fn a_half_open_connection_is_left(service: Arc<Service>) {
    let test = "halfopen";
    let proxy = Proxy::listen(service.port).await;
    // One second each: short enough to wait for many. A pause of the machine may cost a connection, and the story
    // goes on with the next.
    let config = Config {
        brokers: vec![format!("127.0.0.1:{}", proxy.port())],
        heart_beat_send_millis: 1000,
        heart_beat_receive_millis: 1000,
        ..service.config(test)
    };
    let subscriber = Subscriber::new(config);
    let story = async {
        subscriber.subscribed().await;
        // CONNECTED and the receipt, and then nothing but heart-beats on one connection.
        proxy.broker_sent.subscribe().wait_for(|&sent| sent >= 2 + 5).await.unwrap();
        proxy.mute.send_replace(true);
        subscriber.recorder.reached("heart_beat_missed").await;
        send(&service, test, &[b"meanwhile"]).await;
        subscriber.store.stored(1).await;
    };
    tokio::select! {
        () = proxy.run() => {}
        () = subscriber.until(story) => {}
    }
    assert!(subscriber.recorder.codes().contains(&"heart_beat_missed"), "{:?}", subscriber.recorder.codes());
}
