//! The configuration: a TOML file, overridden by the environment, overridden by the command line.
//!
//! [`load`] goes through plain steps, each in a file of its own, and gathers every problem on the way:
//!
//! 1. `tree`: the text becomes values that remember where they stand;
//! 2. `environment`: variables `FRESHET__SECTION__KEY` are set in it, then the options of the command line;
//! 3. `expand`: `${VARIABLE}` in any string and `file:/path` in secrets are replaced;
//! 4. `check`: the values are compared with the `shape`, which is read from the JSON schema of [`Configuration`];
//! 5. the structs are filled, and the `problems` of each section name impossible combinations.
//!
//! The structs are the reference: `reference` and `markdown` print their doc comments and defaults. No message
//! shows a secret, or the value of a variable that was put in by `${VARIABLE}`.

mod check;
mod demo;
mod environment;
mod expand;
mod load;
mod log;
mod markdown;
mod options;
mod problem;
mod reference;
mod server;
mod shape;
mod stomp;
mod tree;

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use demo::DemoConfig;
pub use environment::PREFIX;
pub use expand::MAX_SECRET_FILE_BYTES;
pub use load::{MAX_FILE_BYTES, Overrides, load, parse};
pub use log::{LogConfig, LogFormat};
pub use markdown::reference_markdown;
pub use problem::{Place, Problem, Problems};
pub use reference::reference;
pub use server::ServerConfig;

/// Everything that can be configured. The default is what the daemon runs with when nothing is named.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Configuration {
    /// The directory that holds everything that lasts: the event log and the dead letters. It is created when it is
    /// not there. One instance at a time may use it. A relative path starts at the working directory.
    pub data_directory: PathBuf,
    /// The HTTP server: feeds, history, ingest, health and metrics.
    pub server: ServerConfig,
    /// Who clients are, and how they prove it.
    pub identity: freshet_identity::Config,
    /// The log, which goes to standard error.
    pub log: LogConfig,
    /// The limits of one event, by whatever way it comes. What is beyond them is refused with a code: over HTTP
    /// with an answer, from a broker into the dead letters.
    pub event: freshet_feed::limits::Limits,
    /// The embedded event log: how long events are kept, and how much one search may cost.
    pub event_log: freshet_event_log::Config,
    /// The log that several instances share. With a URL it takes the place of the embedded event log, which is then this
    /// instance's searchable copy of it.
    pub redis: freshet_redis_log::Config,
    /// What could not be processed: how much of it is kept.
    pub dead_letters: freshet_dead_letter::Config,
    /// How events are gathered, rendered and kept for live delivery.
    pub broadcaster: freshet_broadcaster::Config,
    /// The streams of clients: how many there may be, and what becomes of slow ones.
    pub sessions: freshet_session::Config,
    /// What clients subscribe to: what it carries, who may read it, and what becomes of those who read slowly. Write
    /// `[[channel]]` once for each; `iceberg` is there without being written.
    pub channel: Vec<freshet_feed::channel::Config>,
    /// A subscription to a topic or a queue of a STOMP broker. Write `[[stomp]]` once for each.
    pub stomp: Vec<freshet_stomp_subscriber::Config>,
    /// The feed of `freshet demo`. `freshet run` does not look at it.
    pub demo: DemoConfig,
}

impl Default for Configuration {
    fn default() -> Self {
        Self {
            data_directory: "data".into(),
            server: ServerConfig::default(),
            identity: freshet_identity::Config::default(),
            log: LogConfig::default(),
            event: freshet_feed::limits::Limits::default(),
            event_log: freshet_event_log::Config::default(),
            redis: freshet_redis_log::Config::default(),
            dead_letters: freshet_dead_letter::Config::default(),
            broadcaster: freshet_broadcaster::Config::default(),
            sessions: freshet_session::Config::default(),
            channel: Vec::new(),
            stomp: Vec::new(),
            demo: DemoConfig::default(),
        }
    }
}

impl Configuration {
    /// The default with one item in each list of sections, to show in the references what can be set there.
    #[must_use]
    fn example() -> Self {
        Self {
            channel: vec![freshet_feed::channel::Config::default()],
            stomp: vec![freshet_stomp_subscriber::Config::default()],
            ..Self::default()
        }
    }

    /// Impossible combinations: the path of the key, and what is impossible and what to do.
    #[must_use]
    pub fn problems(&self) -> Vec<(Vec<String>, String)> {
        let mut problems = Vec::new();
        let mut section = |path: &[&str], found: Vec<(Vec<String>, String)>| {
            problems.extend(found.into_iter().map(|(key, message)| {
                let mut whole: Vec<String> = path.iter().map(|part| (*part).to_owned()).collect();
                whole.extend(key);
                (whole, message)
            }));
        };
        section(
            &["server"],
            self.server.problems(self.identity.mode == freshet_identity::config::Mode::None),
        );
        section(&["identity"], self.identity.problems());
        section(&["log"], self.log.problems());
        section(&["event"], self.event.problems());
        section(&["event_log"], self.event_log.problems());
        section(&["redis"], self.redis.problems());
        section(&["dead_letters"], self.dead_letters.problems());
        section(&["sessions"], self.sessions.problems());
        section(&["broadcaster"], self.broadcaster.problems());
        for (index, channel) in self.channel.iter().enumerate() {
            let number = index.to_string();
            section(&["channel", &number], channel.problems());
            if self.channel[..index].iter().any(|other| other.name == channel.name) {
                let message = "another channel has this name already; give each a name of its own".to_owned();
                section(&["channel", &number], vec![(vec!["name".to_owned()], message)]);
            }
        }
        for (index, subscription) in self.stomp.iter().enumerate() {
            let index = index.to_string();
            section(&["stomp", &index], subscription.problems());
            let is_known = subscription.channel == freshet_feed::channel::ICEBERG
                || self.channel.iter().any(|channel| channel.name == subscription.channel);
            if !is_known {
                let message = "there is no [[channel]] of this name; declare it, or name another".to_owned();
                section(&["stomp", &index], vec![(vec!["channel".to_owned()], message)]);
            }
            // A larger event would be cut before the event's own limit could judge it.
            if subscription.max_frame_bytes <= self.event.max_event_bytes {
                let largest = self.event.max_event_bytes;
                let message = format!("no event of max_event_bytes = {largest} in [event] fits in; raise it");
                section(&["stomp", &index], vec![(vec!["max_frame_bytes".to_owned()], message)]);
            }
        }
        section(&["stomp"], stomp::clashes(&self.stomp));
        if self.data_directory.as_os_str().is_empty() {
            section(&["data_directory"], vec![(Vec::new(), "must not be empty".to_owned())]);
        }
        problems
    }
}
