//! How fast one instance and three at once append to a Redis, each with a follower that announces everything, against the
//! floor: bare `XADD` of the same bytes by one client, as many in a pipeline as in a batch. Prints Markdown.
//!
//! `tests/services/redis.sh start && cargo run --release -p freshet-redis-log --example append_rate redis://127.0.0.1:6390`
//! It writes, and deletes, keys that begin with `{append-rate}:`.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use freshet_feed::port::{Announce, EventLog, Logged};
use freshet_feed::{ChannelName, Epoch, Event, Position, Secret};
use freshet_kernel::{SupervisorSpec, start, task};
use freshet_redis_log::{Config, Follower, RedisEventLog, Server};
use futures_util::future::try_join_all;
use tokio::sync::Notify;

const BODY_BYTES: usize = 600;
type Any = Box<dyn Error + Send + Sync>;

/// Counts what a follower announces.
#[derive(Default)]
struct Counter {
    announced: AtomicU64,
    changed: Notify,
    stands: Notify,
}

impl Announce for Counter {
    fn announce(&self, _: Epoch, events: Vec<Logged>) {
        self.announced.fetch_add(events.len() as u64, Ordering::Relaxed);
        self.changed.notify_one();
    }

    fn stands_at(&self, _: Position) {
        self.stands.notify_one();
    }
}

fn main() -> Result<(), Any> {
    let url = std::env::args().nth(1).ok_or("give the URL of a Redis")?;
    println!("| instances | batch | floor, events/s | appended, events/s | announced by all, events/s |");
    println!("|---:|---:|---:|---:|---:|");
    for (batch, count) in [(1, 3000), (100, 60_000)] {
        for instances in [1, 3] {
            let url = url.clone();
            let run = run(url, instances, batch, count);
            let (floor, appended, announced) = actix::System::new().block_on(run)?;
            println!("| {instances} | {batch} | {floor:.0} | {appended:.0} | {announced:.0} |");
        }
    }
    Ok(())
}

fn events(instance: usize, count: usize) -> Option<Vec<Event>> {
    let channel = ChannelName::new("stock")?;
    let body = bytes::Bytes::from(vec![b'x'; BODY_BYTES]);
    let event = |number: usize| Event {
        event_id: format!("{instance:08x}-1b4e-4c39-9d52-{number:012x}"),
        channel: channel.clone(),
        name: "stock:update".into(),
        key: Some(format!("table {}", number % 200)),
        room: None,
        timestamp: jiff::Timestamp::now(),
        source_application: None,
        commit: None,
        body: body.clone(),
    };
    Some((0..count).map(event).collect())
}

async fn run(url: String, instances: usize, batch: usize, count: usize) -> Result<(f64, f64, f64), Any> {
    let floor = floor(&url, batch, count).await?;
    let config =
        Config { url: Secret::new(url.as_str()), prefix: "append-rate".to_owned(), ..Config::default() };
    wipe(&url).await?;
    let (mut counters, mut trees, mut logs) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..instances {
        let log = RedisEventLog::new(Server::new(&config)?, &config);
        let counter = Arc::new(Counter::default());
        let announce = Arc::clone(&counter) as Arc<dyn Announce>;
        let follower = Follower::specification("follower", log.clone(), &config, announce);
        trees.push(start(SupervisorSpec::new("root").child(follower)));
        counter.stands.notified().await;
        counters.push(counter);
        logs.push(log);
    }
    let began = Instant::now();
    let appenders = logs.into_iter().enumerate().map(|(instance, log)| {
        task::spawn("appender", async move {
            let events = events(instance, count / instances).ok_or("no channel")?;
            for batch in events.chunks(batch) {
                log.append(batch.to_vec()).await?;
            }
            Ok::<_, Any>(())
        })
    });
    for appended in try_join_all(appenders).await? {
        appended?;
    }
    let appended = began.elapsed();
    let total = count / instances * instances;
    for counter in &counters {
        while counter.announced.load(Ordering::Relaxed) < total as u64 {
            counter.changed.notified().await;
        }
    }
    let announced = began.elapsed();
    for tree in trees {
        tree.shutdown().await;
    }
    wipe(&url).await?;
    Ok((floor, rate(total, appended), rate(total, announced)))
}

async fn floor(url: &str, batch: usize, count: usize) -> Result<f64, Any> {
    wipe(url).await?;
    let mut connection = redis::Client::open(url)?.get_multiplexed_async_connection().await?;
    let body = vec![b'x'; BODY_BYTES];
    let began = Instant::now();
    for _ in 0..count / batch {
        let mut pipeline = redis::pipe();
        for _ in 0..batch {
            pipeline.cmd("XADD").arg("{append-rate}:floor").arg("*").arg("b").arg(&body).ignore();
        }
        pipeline.query_async::<()>(&mut connection).await?;
    }
    Ok(rate(count, began.elapsed()))
}

async fn wipe(url: &str) -> Result<(), Any> {
    let mut connection = redis::Client::open(url)?.get_multiplexed_async_connection().await?;
    let keys: Vec<String> = redis::cmd("KEYS").arg("{append-rate}:*").query_async(&mut connection).await?;
    for keys in keys.chunks(1000) {
        redis::cmd("DEL").arg(keys).query_async::<()>(&mut connection).await?;
    }
    Ok(())
}

fn rate(events: usize, elapsed: Duration) -> f64 {
    f64::from(u32::try_from(events).unwrap_or(u32::MAX)) / elapsed.as_secs_f64()
}
