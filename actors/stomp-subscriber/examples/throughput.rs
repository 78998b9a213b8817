//! How many events a second one subscription takes from a real ActiveMQ Classic, acknowledgements included.
//!
//! ```text
//! tests/services/activemq.sh start
//! cargo run --release -p freshet-stomp-subscriber --example throughput -- 10000
//! ```
//!
//! The events wait in the durable subscription before the clock starts, so that the producer takes no part. The store
//! is memory; a second figure grants it 5 ms for each batch, as a disk takes to write one down.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a measurement that prints, and ends when it cannot measure"
)]

#[path = "../tests/brokers/producer.rs"]
mod producer;
#[path = "../tests/support/mod.rs"]
mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use freshet_feed::Secret;
use freshet_stomp_subscriber::Config;
use freshet_stomp_subscriber::state::Monitor;
use freshet_stomp_subscriber::subscriber::serve;
use producer::Producer;
use support::{Recorder, Store};
use tokio::sync::watch;

const BODY_BYTES: usize = 1024;
/// Where `tests/services/activemq.sh` listens.
const PORT: u16 = 61613;

/// Serves until the store has so many events and all are acknowledged, and says how long that took.
async fn take(config: &Config, store_delay: Duration, events: usize) -> Duration {
    let store = Store::new();
    store.delay(store_delay);
    let recorder = Recorder::new();
    let monitor = Monitor::new(&config.name, recorder.clone());
    let stop = watch::Sender::new(false);
    let begun = Instant::now();
    let stopping = async {
        recorder.reached("healthy").await;
        store.stored(events).await;
        // What is in hand is acknowledged before it ends.
        stop.send_replace(true);
    };
    let serving = serve(Arc::new(config.clone()), store.ports(), monitor.clone(), stop.subscribe());
    tokio::join!(serving, stopping);
    assert_eq!(monitor.state().acknowledged, events as u64);
    begun.elapsed()
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let events: usize = std::env::args().nth(1).map_or(10_000, |count| count.parse().unwrap());
    let topic = format!("THROUGHPUT_{}", std::process::id());
    for store_delay in [Duration::ZERO, Duration::from_millis(5)] {
        let name = format!("{topic}_{}", store_delay.as_millis());
        let config = Config {
            brokers: vec![format!("127.0.0.1:{PORT}")],
            login: "admin".into(),
            passcode: Secret::new("admin"),
            client_id: name.clone(),
            subscription: name.clone(),
            destination: name.clone(),
            ..Config::default()
        };
        // Subscribes once, so that the broker keeps what comes.
        take(&config, Duration::ZERO, 0).await;
        let mut producer = Producer::connect(PORT).await.unwrap();
        let bodies: Vec<String> = (0..events).map(|number| format!("{number:0BODY_BYTES$}")).collect();
        for chunk in bodies.chunks(500) {
            producer.send(&name, chunk.iter().map(|body| body.as_bytes())).await.unwrap();
        }
        let taken = take(&config, store_delay, events).await;
        println!(
            "{events} events of {BODY_BYTES} bytes, batches of at most {}, {} ms for each batch: {:.2} s, {:.0} events/s",
            config.prefetch,
            store_delay.as_millis(),
            taken.as_secs_f64(),
            events as f64 / taken.as_secs_f64()
        );
    }
}
