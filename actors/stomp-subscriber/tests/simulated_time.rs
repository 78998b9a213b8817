//! Sessions over a pipe in simulated time: heart-beats, silence, back-pressure, outages of the store, backoff.
#![allow(clippy::unwrap_used, reason = "helpers of tests may end a test")]

mod support;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use freshet_feed::port::StoreError;
use freshet_stomp_subscriber::Config;
use freshet_stomp_subscriber::connection::{Ending, run};
use freshet_stomp_subscriber::failure::{Failure, FailureClass};
use freshet_stomp_subscriber::state::{Monitor, Stage};
use freshet_stomp_subscriber::subscriber::serve_through;
use support::{Recorder, Store};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

const CONNECTED: &str = "CONNECTED\nversion:1.2\nheart-beat:1000,1000\n\n\0\n";
const SUBSCRIBED: &str = "RECEIPT\nreceipt-id:subscribed\n\n\0\n";

fn config() -> Config {
    Config { heart_beat_send_millis: 1000, heart_beat_receive_millis: 1000, ..Config::default() }
}

fn message(number: usize, body: &str) -> String {
    format!(
        "MESSAGE\nmessage-id:m{number}\nack:a{number}\ndestination:/topic/t\nsubscription:s\ncontent-length:{}\n\n{body}\0\n",
        body.len()
    )
}

/// The broker's end of the pipe.
struct Broker(DuplexStream);

impl Broker {
    async fn says(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.unwrap();
    }

    /// The next frame of the client, without the heart-beats before it.
    async fn hears(&mut self) -> String {
        let mut frame = Vec::new();
        loop {
            match self.0.read_u8().await.unwrap() {
                0 => return String::from_utf8(frame).unwrap(),
                b'\n' if frame.is_empty() => {}
                byte => frame.push(byte),
            }
        }
    }

    async fn accepts(&mut self) {
        assert!(self.hears().await.starts_with("CONNECT\n"));
        self.says(CONNECTED).await;
        assert!(self.hears().await.starts_with("SUBSCRIBE\n"));
        self.says(SUBSCRIBED).await;
    }

    async fn hears_acknowledgement(&mut self) -> String {
        let frame = self.hears().await;
        frame.trim().strip_prefix("ACK\nid:").unwrap_or_else(|| panic!("no ACK: {frame}")).to_owned()
    }
}

struct Story {
    store: Arc<Store>,
    recorder: Rc<Recorder>,
    monitor: Monitor,
    stop: watch::Sender<bool>,
}

/// Plays a session between the room and a broker in a pipe of this size, in bytes.
async fn play(config: Config, pipe_bytes: usize, broker: impl AsyncFn(Broker, &Story)) -> (Ending, Story) {
    let (ours, theirs) = tokio::io::duplex(pipe_bytes);
    let recorder = Recorder::new();
    let story = Story {
        store: Store::new(),
        monitor: Monitor::new("commits", recorder.clone()),
        recorder,
        stop: watch::Sender::new(false),
    };
    let ports = story.store.ports();
    let mut stop = story.stop.subscribe();
    let session = run(Box::new(ours), "broker", &config, &ports, &story.monitor, &mut stop);
    let (ending, ()) = tokio::join!(Box::pin(session), Box::pin(broker(Broker(theirs), &story)));
    (ending, story)
}

fn failure(ending: Ending) -> FailureClass {
    match ending {
        Ending::Failed { failure, .. } => failure.class,
        Ending::Stopped => panic!("it stopped"),
    }
}

#[tokio::test(start_paused = true)]
async fn our_heart_beats_come_twice_as_often_as_promised() {
    let (_, story) = play(config(), 65_536, async |mut broker, story| {
        broker.accepts().await;
        for _ in 0..20 {
            broker.says("\n").await;
            let begun = Instant::now();
            assert_eq!(broker.0.read_u8().await.unwrap(), b'\n');
            assert!(begun.elapsed() <= Duration::from_millis(510), "{:?}", begun.elapsed());
        }
        story.stop.send_replace(true);
        loop {
            if broker.hears().await.starts_with("DISCONNECT") {
                break;
            }
        }
        broker.says("RECEIPT\nreceipt-id:disconnected\n\n\0").await;
    })
    .await;
    assert_eq!(story.recorder.codes(), ["connecting", "healthy"]);
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_is_silent_for_two_and_a_half_intervals_is_gone() {
    let (ending, _) = play(config(), 65_536, async |mut broker, _| {
        broker.accepts().await;
        // As late as ActiveMQ is in good health, and a little later.
        for _ in 0..5 {
            tokio::time::sleep(Duration::from_millis(2450)).await;
            broker.says("\n").await;
        }
        let begun = Instant::now();
        let mut rest = Vec::new();
        broker.0.read_to_end(&mut rest).await.unwrap();
        let waited = begun.elapsed();
        assert!((2490..2600).contains(&waited.as_millis()), "{waited:?}");
    })
    .await;
    assert_eq!(failure(ending), FailureClass::HeartBeatMissed);
}

#[tokio::test(start_paused = true)]
async fn a_broker_without_heart_beats_may_be_silent_for_a_day() {
    let (ending, story) = play(config(), 65_536, async |mut broker, story| {
        broker.hears().await;
        broker.says("CONNECTED\nversion:1.2\n\n\0").await;
        broker.hears().await;
        broker.says(SUBSCRIBED).await;
        tokio::time::sleep(Duration::from_secs(86_400)).await;
        broker.says(&message(1, "after a day")).await;
        assert_eq!(broker.hears_acknowledgement().await, "a1");
        story.stop.send_replace(true);
        assert!(broker.hears().await.starts_with("DISCONNECT"));
        broker.says("RECEIPT\nreceipt-id:disconnected\n\n\0").await;
    })
    .await;
    assert!(matches!(ending, Ending::Stopped));
    assert_eq!(story.store.ids(), ["after a day"]);
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_does_not_answer_is_given_up() {
    for answers in [0, 1] {
        let (ending, _) = play(config(), 65_536, async |mut broker, _| {
            broker.hears().await;
            if answers == 1 {
                broker.says("CONNECTED\nversion:1.2\n\n\0").await;
                broker.hears().await;
            }
            let begun = Instant::now();
            broker.0.read_to_end(&mut Vec::new()).await.unwrap();
            assert_eq!(begun.elapsed().as_secs(), 10);
        })
        .await;
        assert_eq!(failure(ending), FailureClass::HandshakeTimedOut);
    }
}

#[tokio::test(start_paused = true)]
async fn messages_are_acknowledged_in_order_good_and_bad_alike() {
    let (_, story) = play(config(), 65_536, async |mut broker, _| {
        broker.accepts().await;
        broker.says(&(message(1, "one") + &message(2, "bad two") + &message(3, "three"))).await;
        for ack in ["a1", "a2", "a3"] {
            assert_eq!(broker.hears_acknowledgement().await, ack);
        }
    })
    .await;
    assert_eq!(story.store.ids(), ["one", "three"]);
    assert_eq!(story.store.letters()[0].source_position, "m2");
    let state = story.monitor.state();
    assert_eq!((state.received, state.acknowledged, state.buried), (3, 3, 1));
}

#[tokio::test(start_paused = true)]
async fn while_the_store_takes_nothing_there_is_no_acknowledgement_but_heart_beats() {
    let (_, story) = play(config(), 65_536, async |mut broker, story| {
        broker.accepts().await;
        story.store.refuse((0..40).map(|_| StoreError::Unavailable("disk full".into())));
        broker.says(&(message(1, "one") + &message(2, "bad two"))).await;
        story.recorder.reached("store_unavailable").await;
        assert_eq!(story.monitor.state().code, Some("store_unavailable"));
        let mut beats = 0;
        let frame = loop {
            match broker.0.read_u8().await.unwrap() {
                b'\n' => beats += 1,
                byte => break byte,
            }
        };
        assert_eq!(frame, b'A', "the first frame is the first ACK");
        assert_eq!(story.store.ids(), ["one"]);
        assert_eq!(story.store.letters().len(), 1);
        // 40 refusals with waits of up to 5 s: the broker, silent meanwhile, is not called dead.
        assert!(beats > 100, "{beats}");
        assert_eq!(story.store.calls(), 42);
        assert!(broker.hears().await.contains("id:a1"));
        assert_eq!(broker.hears_acknowledgement().await, "a2");
        assert_eq!(story.monitor.state().code, None);
    })
    .await;
    assert_eq!(story.recorder.codes().first(), Some(&"connecting"));
    assert!(story.recorder.codes().ends_with(&["store_unavailable", "healthy"]));
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_takes_no_bytes_does_not_hold_up_the_store() {
    // Eight heart-beats fill the pipe in 4 s, and the next write would stall for the 10 s of connect_timeout_millis.
    let (_, story) = play(config(), 8, async |mut broker, story| {
        broker.accepts().await;
        story.store.delay(Duration::from_secs(6));
        let begun = Instant::now();
        broker.says(&message(1, "one")).await;
        story.store.stored(1).await;
        assert!(begun.elapsed() < Duration::from_secs(7), "{:?}", begun.elapsed());
        assert_eq!(broker.hears_acknowledgement().await, "a1", "what was half written is written whole");
    })
    .await;
    assert_eq!(story.monitor.state().acknowledged, 1);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_works_again_is_no_subscription() {
    let (_, story) = play(config(), 65_536, async |mut broker, story| {
        broker.hears().await;
        broker.says(CONNECTED).await;
        broker.hears().await;
        // A broker may deliver before it confirms.
        story.store.refuse([StoreError::Unavailable("disk full".into())]);
        broker.says(&message(1, "one")).await;
        assert_eq!(broker.hears_acknowledgement().await, "a1");
        assert_eq!(story.recorder.codes(), ["connecting", "store_unavailable", "connecting"]);
        assert_eq!(story.monitor.state().state, Stage::Connecting);
        broker.says(SUBSCRIBED).await;
        story.recorder.reached("healthy").await;
    })
    .await;
    assert_eq!(story.store.ids(), ["one"]);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_works_again_does_not_bring_back_a_lost_connection() {
    for last_words in ["", "ERROR\nmessage:the broker shuts down\n\n\0"] {
        let (ending, story) = play(config(), 65_536, async |mut broker, story| {
            broker.accepts().await;
            story.recorder.reached("healthy").await;
            story.store.refuse((0..10).map(|_| StoreError::Unavailable("disk full".into())));
            broker.says(&(message(1, "one") + last_words)).await;
            story.recorder.reached("store_unavailable").await;
        })
        .await;
        assert!(matches!(ending, Ending::Failed { .. }));
        assert_eq!(story.store.ids(), ["one"]);
        let codes = story.recorder.codes();
        assert_eq!(codes[..3], ["connecting", "healthy", "store_unavailable"]);
        assert!(codes.ends_with(&["store_unavailable", "connecting"]), "{codes:?}");
        assert_eq!(story.monitor.state().state, Stage::Connecting);
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_store_holds_the_broker_back() {
    let config = Config { prefetch: 4, ..config() };
    let (_, story) = play(config, 512, async |mut broker, story| {
        broker.accepts().await;
        story.store.delay(Duration::from_secs(3600));
        let body = "x".repeat(200);
        let mut written = 0;
        let flood = async {
            loop {
                broker.says(&message(written, &format!("{written}{body}"))).await;
                written += 1;
            }
        };
        assert!(timeout(Duration::from_secs(3000), flood).await.is_err());
        // One batch in hand, one read ahead, and what the pipe holds; the rest stays with the broker.
        assert!(written < 300, "{written}");
        assert_eq!(story.store.calls(), 1);
    })
    .await;
    assert_eq!(story.monitor.state().acknowledged, 0);
}

#[tokio::test(start_paused = true)]
async fn a_stop_finishes_the_batch_in_hand_and_says_goodbye() {
    let (ending, story) = play(config(), 65_536, async |mut broker, story| {
        broker.accepts().await;
        story.store.delay(Duration::from_secs(1));
        broker.says(&message(1, "one")).await;
        story.store.called(1).await;
        story.stop.send_replace(true);
        assert_eq!(broker.hears_acknowledgement().await, "a1");
        assert!(broker.hears().await.starts_with("DISCONNECT\nreceipt:disconnected"));
        // What comes after the goodbye is not taken.
        broker.says(&message(2, "two")).await;
        broker.says("RECEIPT\nreceipt-id:disconnected\n\n\0").await;
    })
    .await;
    assert!(matches!(ending, Ending::Stopped));
    assert_eq!(story.store.ids(), ["one"]);
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_does_not_confirm_the_goodbye_does_not_hold_us() {
    let begun = Instant::now();
    let (ending, _) = play(config(), 65_536, async |mut broker, story| {
        broker.accepts().await;
        story.recorder.reached("healthy").await;
        story.stop.send_replace(true);
        broker.0.read_to_end(&mut Vec::new()).await.unwrap();
    })
    .await;
    assert!(matches!(ending, Ending::Stopped));
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_stop_while_the_store_takes_nothing_ends_without_an_acknowledgement() {
    let (ending, story) = play(config(), 65_536, async |mut broker, story| {
        broker.accepts().await;
        story.store.refuse((0..1000).map(|_| StoreError::Unavailable("disk full".into())));
        broker.says(&message(1, "one")).await;
        story.recorder.reached("store_unavailable").await;
        story.stop.send_replace(true);
        let mut rest = String::new();
        broker.0.read_to_string(&mut rest).await.unwrap();
        assert!(!rest.contains("ACK"), "{rest}");
    })
    .await;
    assert!(matches!(ending, Ending::Stopped));
    assert_eq!(story.monitor.state().acknowledged, 0);
}

#[tokio::test(start_paused = true)]
async fn what_is_in_hand_when_the_connection_breaks_is_stored_all_the_same() {
    let (ending, story) = play(config(), 65_536, async |mut broker, _| {
        broker.accepts().await;
        broker.says(&(message(1, "one") + "ERROR\nmessage:the broker shuts down\n\n\0")).await;
    })
    .await;
    assert_eq!(failure(ending), FailureClass::BrokerError);
    assert_eq!(story.store.ids(), ["one"]);
    assert_eq!(story.monitor.state().acknowledged, 0);
}

#[tokio::test(start_paused = true)]
async fn a_frame_over_the_limit_is_buried_and_acknowledged_and_the_next_is_read() {
    let config = Config { max_frame_bytes: 65_536, ..config() };
    let (_, story) = play(config, 8192, async |mut broker, _| {
        broker.accepts().await;
        broker.says(&message(1, &"x".repeat(1_000_000))).await;
        broker.says(&message(2, "two")).await;
        assert_eq!(broker.hears_acknowledgement().await, "a1");
        assert_eq!(broker.hears_acknowledgement().await, "a2");
    })
    .await;
    assert_eq!(story.store.letters()[0].code, "frame_too_large");
    assert_eq!(story.store.ids(), ["two"]);
}

#[tokio::test(start_paused = true)]
async fn an_old_version_and_a_stranger_are_refused() {
    let cases = [
        ("CONNECTED\nversion:1.1\n\n\0", FailureClass::VersionUnsupported),
        ("HTTP/1.1 400 Bad Request\r\n\r\n\0", FailureClass::FrameMalformed),
        (SUBSCRIBED, FailureClass::ConnectionClosed),
        ("MESSAGE\nmessage-id:1\ndestination:d\nsubscription:s\n\n\0", FailureClass::FrameMalformed),
    ];
    for (answer, class) in cases {
        let (ending, _) = play(config(), 65_536, async |mut broker, _| {
            broker.hears().await;
            broker.says(answer).await;
        })
        .await;
        assert_eq!(failure(ending), class, "{answer}");
    }
}

/// Serves with a dialer that always fails, and notes when each broker was tried.
#[tokio::test(start_paused = true)]
async fn brokers_are_tried_in_order_with_growing_waits_and_no_hot_loop() {
    let config = Config { brokers: vec!["a:1".into(), "b:1".into()], ..config() };
    let recorder = Recorder::new();
    let monitor = Monitor::new("commits", recorder.clone());
    let stop = watch::Sender::new(false);
    let tried = RefCell::new(Vec::new());
    let begun = Instant::now();
    let dial = async |broker: &str| {
        tried.borrow_mut().push((broker.to_owned(), begun.elapsed()));
        Err(Failure::new(FailureClass::ConnectionRefused, "nobody listens"))
    };
    let ports = Store::new().ports();
    let serving = serve_through(dial, &config, &ports, &monitor, stop.subscribe());
    assert!(timeout(Duration::from_secs(600), serving).await.is_err());
    let tried = tried.into_inner();
    for (index, (broker, _)) in tried.iter().enumerate() {
        assert_eq!(broker, ["a:1", "b:1"][index % 2]);
    }
    // Rounds begin after at least 0.5, 1, 2, 4, 8, 15, 15 … s and at most twice that, and never more than 30.
    assert!((40..90).contains(&tried.len()), "{}", tried.len());
    for round in tried.chunks(2).collect::<Vec<_>>().windows(2) {
        let [[_, (_, ended)], [(_, next), _]] = round else { break };
        let wait = *next - *ended;
        assert!(wait >= Duration::from_millis(500) && wait <= Duration::from_secs(30), "{wait:?}");
    }
    let state = monitor.state();
    assert_eq!(state.code, Some("connection_refused"));
    assert_eq!(state.attempts, tried.len() as u64);
    assert!(recorder.codes()[1..].iter().all(|&code| code == "connection_refused"));
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_the_wait_between_attempts() {
    let monitor = Monitor::new("commits", Recorder::new());
    let stop = watch::Sender::new(false);
    let dial = async |_: &str| Err(Failure::new(FailureClass::ConnectionRefused, "nobody listens"));
    let ports = Store::new().ports();
    let config = config();
    let serving = serve_through(dial, &config, &ports, &monitor, stop.subscribe());
    let stopping = async {
        tokio::time::sleep(Duration::from_secs(300)).await;
        stop.send_replace(true);
        Instant::now()
    };
    let ((), stopped_at) = tokio::join!(serving, stopping);
    assert!(stopped_at.elapsed() < Duration::from_millis(10));
}
