//! A real Redis for a test, who listens to a follower, and events.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use freshet_feed::event::{Commit, Summary, iceberg_mutation};
use freshet_feed::port::{Announce, EventLog, Logged, Outcome, PageLimit};
use freshet_feed::{ChannelName, Epoch, Event, Position, Secret};
use freshet_kernel::{NodeState, SupervisorSpec, Tree, task};
use freshet_redis_log::{Config, Follower, RedisEventLog, Server};
use tokio::sync::watch;

/// How long a test waits for what must come. A busy machine needs most of it.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a test waits before it asks again.
const RETRY: Duration = Duration::from_millis(50);
pub const ALL: PageLimit = PageLimit { events: 100_000, bytes: usize::MAX };

/// What servers ask for that sentinels or a cluster stand before. A single one asks for nothing.
pub const PASSWORD: &str = "right";

/// A Redis of this test's own; it and its data are gone when this is dropped.
pub struct Redis {
    mode: &'static str,
    port: u16,
    directory: tempfile::TempDir,
}

impl Redis {
    /// Starts it on a port that no other test uses.
    pub fn start(mode: &'static str, port: u16) -> Self {
        let redis = Self { mode, port, directory: tempfile::tempdir().unwrap() };
        redis.script("start");
        redis
    }

    fn script(&self, verb: &str) {
        run(self.mode, self.port, self.directory.path(), verb);
    }

    /// Runs a verb of the script while the test goes on.
    pub async fn does(&self, verb: &'static str) {
        let (mode, port, directory) = (self.mode, self.port, self.directory.path().to_owned());
        task::blocking("redis.sh", move || run(mode, port, &directory, verb)).await.unwrap();
    }

    /// Where the server keeps its data.
    pub fn data(&self) -> PathBuf {
        self.directory.path().join(format!("redis-{0}/{0}/appendonlydir", self.port))
    }

    pub fn config(&self) -> Config {
        let port = self.port;
        let url = match self.mode {
            "sentinel" => format!(
                "redis-sentinel://:{PASSWORD}@127.0.0.1:{},127.0.0.1:{},127.0.0.1:{}/freshet",
                port + 2,
                port + 3,
                port + 4
            ),
            "cluster" => format!("redis-cluster://:{PASSWORD}@127.0.0.1:{port},127.0.0.1:{}", port + 1),
            _ => format!("redis://127.0.0.1:{port}"),
        };
        Config { url: Secret::new(url), ..Config::default() }
    }

    pub fn server(&self) -> Server {
        Server::new(&self.config()).unwrap()
    }

    /// The log as one more instance sees it.
    pub fn log(&self) -> RedisEventLog {
        RedisEventLog::new(self.server(), &self.config())
    }

    /// The log under another prefix: an empty one.
    pub fn log_named(&self, prefix: &str) -> RedisEventLog {
        RedisEventLog::new(self.server(), &Config { prefix: prefix.to_owned(), ..self.config() })
    }

    /// What an operator does by hand.
    pub async fn command(&self, words: &[&str]) -> redis::Value {
        self.command_at(self.port, words).await.unwrap()
    }

    /// The same on another of its servers.
    pub async fn command_at(&self, port: u16, words: &[&str]) -> redis::RedisResult<redis::Value> {
        let login = if self.mode == "single" { String::new() } else { format!(":{PASSWORD}@") };
        let client = redis::Client::open(format!("redis://{login}127.0.0.1:{port}"))?;
        let mut connection = client.get_multiplexed_async_connection().await?;
        redis::cmd(words[0]).arg(&words[1..]).query_async(&mut connection).await
    }

    /// Sends its first server a signal: `KILL` ends it as a crash does, `STOP` makes it hang until `CONT`.
    pub fn signal_first(&self, signal: &str) {
        let pid = self.directory.path().join(format!("redis-{}/pid", self.port));
        let pid = std::fs::read_to_string(pid).unwrap();
        let pid = pid.split_whitespace().next().unwrap();
        assert!(Command::new("kill").args(["-s", signal, pid]).status().unwrap().success());
    }
}

/// A server beside those that the script starts; it ends when this is dropped.
pub struct Beside(std::process::Child);

impl Beside {
    pub fn start(arguments: &[&str], directory: &Path) -> Self {
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--save", "", "--dir"]).arg(directory).args(arguments);
        Self(command.stdout(std::process::Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Asks again until it is so.
pub async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !is_so().await {
        assert!(tokio::time::Instant::now() < deadline, "{what}: not within {PATIENCE:?}");
        tokio::time::sleep(RETRY).await;
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.script("wipe");
    }
}

fn run(mode: &str, port: u16, directory: &Path, verb: &str) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/services/redis.sh");
    let password = if mode == "single" { "" } else { PASSWORD };
    let output = Command::new(script)
        .arg(verb)
        .env("REDIS_PASSWORD", password)
        .env("REDIS_MODE", mode)
        .env("REDIS_PORT", port.to_string())
        .env("FRESHET_SERVICES", directory)
        .output()
        .unwrap();
    assert!(output.status.success(), "redis.sh {verb}: {}", String::from_utf8_lossy(&output.stderr));
}

/// What a follower said, in its order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    StandsAt(Position),
    Event(Position, String),
}

/// Listens to a follower.
pub struct Listener(watch::Sender<Vec<Said>>);

impl Listener {
    pub fn new() -> Arc<Self> {
        Arc::new(Self(watch::Sender::new(Vec::new())))
    }

    pub fn said(&self) -> Vec<Said> {
        self.0.borrow().clone()
    }

    pub fn positions(&self) -> Vec<Position> {
        let positions = self.said().into_iter();
        positions.filter_map(|said| matches!(said, Said::StandsAt(_)).then_some(said)).map(position).collect()
    }

    pub fn events(&self) -> Vec<(u64, String)> {
        let events = self.said().into_iter().filter_map(|said| match said {
            Said::Event(position, event_id) => Some((position.offset, event_id)),
            Said::StandsAt(_) => None,
        });
        events.collect()
    }

    /// What somebody has who dropped, at each new position, what lies after it. The offsets of one epoch have no holes.
    pub fn held(&self) -> Vec<(u64, String)> {
        let mut held: Vec<(u64, String)> = Vec::new();
        let mut stands_at = None;
        for said in self.said() {
            match said {
                Said::StandsAt(position) => {
                    held.retain(|(offset, _)| *offset <= position.offset);
                    stands_at = Some(position);
                }
                Said::Event(position, event_id) => {
                    let next = stands_at.map(|last| Position { offset: last.offset + 1, ..last });
                    assert_eq!(next, Some(position), "{event_id}");
                    held.push((position.offset, event_id));
                    stands_at = Some(position);
                }
            }
        }
        held
    }

    /// Waits until what was said so far fulfils the condition.
    pub async fn until(&self, condition: impl Fn(&Self) -> bool) {
        let mut receiver = self.0.subscribe();
        let waited = tokio::time::timeout(PATIENCE, async {
            while !condition(self) {
                receiver.changed().await.unwrap();
            }
        });
        assert!(waited.await.is_ok(), "not said within {PATIENCE:?}; last was {:?}", self.said().last());
    }
}

fn position(said: Said) -> Position {
    match said {
        Said::StandsAt(position) | Said::Event(position, _) => position,
    }
}

impl Announce for Listener {
    fn announce(&self, epoch: Epoch, events: Vec<Logged>) {
        self.0.send_modify(|said| {
            said.extend(
                events.into_iter().map(|logged| {
                    Said::Event(Position { epoch, offset: logged.offset }, logged.event.event_id)
                }),
            );
        });
    }

    fn stands_at(&self, position: Position) {
        self.0.send_modify(|said| said.push(Said::StandsAt(position)));
    }
}

/// A follower in a tree of its own that has begun.
pub async fn follow(log: RedisEventLog, config: &Config) -> (Tree, Arc<Listener>) {
    let listener = Listener::new();
    let follower =
        Follower::specification("follower", log, config, Arc::clone(&listener) as Arc<dyn Announce>);
    let tree = freshet_kernel::start(SupervisorSpec::new("root").child(follower));
    listener.until(|listener| !listener.positions().is_empty()).await;
    (tree, listener)
}

/// The code of the follower's outage, if it is in one, and how often it was restarted.
pub async fn health(tree: &Tree) -> (Option<&'static str>, u64) {
    let snapshot = tree.fresh_snapshot(Duration::from_secs(5)).await;
    let follower = &snapshot.children[0];
    let code = match &follower.state {
        NodeState::Running => None,
        NodeState::Degraded { code, .. } => Some(*code),
        other => panic!("the follower is {other:?}"),
    };
    (code, follower.restarts)
}

/// Waits until the follower is in an outage of this code, or in none.
pub async fn until_health(tree: &Tree, code: Option<&str>) {
    until(&format!("an outage {code:?}"), async || {
        let (found, restarts) = health(tree).await;
        assert_eq!(restarts, 0, "an outage is no reason for a restart");
        found == code
    })
    .await;
}

/// Appends until it is taken, as a source does.
pub async fn append_until_taken(log: &RedisEventLog, events: Vec<Event>) -> Vec<Outcome> {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        match log.append(events.clone()).await {
            Ok(outcomes) => return outcomes,
            Err(error) => assert!(tokio::time::Instant::now() < deadline, "not taken: {error}"),
        }
        tokio::time::sleep(RETRY).await;
    }
}

pub fn channel(name: &str) -> ChannelName {
    ChannelName::new(name).unwrap()
}

/// An object of the channel `stock` at noon, without a key.
pub fn event(event_id: &str) -> Event {
    Event {
        event_id: event_id.to_owned(),
        channel: channel("stock"),
        name: "stock:update".into(),
        key: None,
        room: None,
        timestamp: "2026-03-01T12:00:00Z".parse().unwrap(),
        source_application: None,
        commit: None,
        body: "{}".into(),
    }
}

/// An event that tells the state of a key.
pub fn keyed(event_id: &str, key: &str, room: Option<&str>) -> Event {
    Event { key: Some(key.to_owned()), room: room.map(str::to_owned), ..event(event_id) }
}

/// An append to the table `prod.orders` that made this snapshot.
pub fn commit(event_id: &str, snapshot_id: i64) -> Event {
    Event {
        channel: ChannelName::iceberg(),
        name: iceberg_mutation(),
        commit: Some(Commit {
            table: "prod.orders".to_owned(),
            event_type: "COMMIT_SUCCESS".to_owned(),
            operation: Some("append".to_owned()),
            snapshot_id: Some(snapshot_id),
            schema_changed: None,
            summary: Summary::default(),
        }),
        ..event(event_id)
    }
}

pub fn ids(page: &[Logged]) -> Vec<&str> {
    page.iter().map(|logged| logged.event.event_id.as_str()).collect()
}
