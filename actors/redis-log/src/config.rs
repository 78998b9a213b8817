//! What an operator may set.

use freshet_feed::Secret;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::address::Servers;

/// The longest prefix, in bytes.
const MAX_PREFIX_BYTES: usize = 64;

/// The log that several instances share: a Redis that all of them read and append to. Redis keeps what it has
/// acknowledged only when it is told to: set `appendonly yes`, `appendfsync always` (or accept that a power failure takes
/// the last second) and `maxmemory-policy noeviction`. Version 6.2 or newer.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Where Redis is. Empty means that none is used, and this instance has a log of its own.
    /// `redis://user:password@host:6379/0` is one server, `rediss://` the same over TLS with the system's certificates;
    /// `redis-sentinel://user:password@host:26379,host:26379/master-name` asks sentinels for the master (user and
    /// password are the servers'), `redis-cluster://user:password@host:6379,host:6379` is a cluster; both take `rediss-`
    /// for TLS.
    pub url: Secret,
    /// The beginning of all keys, in braces, so that a cluster keeps them together: 1 to 64 letters, digits, dots,
    /// underscores or hyphens. Instances with the same prefix share one log.
    pub prefix: String,
    /// How long making a connection may take, in milliseconds; with sentinels or a cluster that is all they are asked.
    #[schemars(range(min = 10, max = 60_000))]
    pub connect_timeout_millis: u64,
    /// How long an answer may take, in milliseconds, a new connection included. Raise it when Redis is far away or its
    /// disk is slow.
    #[schemars(range(min = 10, max = 60_000))]
    pub call_timeout_millis: u64,
    /// How many events are held; the oldest go first. Up to a hundred more may be held. They stand in the memory of
    /// Redis, with about 300 bytes beside each body.
    #[schemars(range(min = 1, max = 100_000_000))]
    pub log_max_events: u64,
    /// How long events are held, in days after their arrival.
    #[schemars(range(min = 1, max = 36_500))]
    pub log_max_age_days: u32,
    /// How long a known event is recognised when it comes again, in days; at least as long as events are held.
    #[schemars(range(min = 1, max = 36_500))]
    pub duplicate_window_days: u32,
    /// How far the times of two events may lie apart, in seconds, for them to be the same commit reported by two ways:
    /// same channel, room, table, snapshot and event type, but another event id. Operations and counts must be equal where
    /// both events have them; an absent `schemaChanged` counts as false. 0 wants equal times.
    #[schemars(range(max = 86_400))]
    pub same_commit_within_secs: u64,
    /// How many events are read at once.
    #[schemars(range(min = 1, max = 10_000))]
    pub read_batch_events: usize,
    /// How long further events are awaited after each that was announced, in milliseconds, so that a burst goes out
    /// together. 0 announces at once; more than a few delays every event.
    #[schemars(range(max = 1000))]
    pub tick_millis: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            url: Secret::default(),
            prefix: "freshet".to_owned(),
            connect_timeout_millis: 2000,
            call_timeout_millis: 5000,
            log_max_events: 1_000_000,
            log_max_age_days: 7,
            duplicate_window_days: 7,
            same_commit_within_secs: 300,
            read_batch_events: 256,
            tick_millis: 2,
        }
    }
}

impl Config {
    /// Whether a Redis is configured.
    #[must_use]
    pub fn is_used(&self) -> bool {
        !self.url.is_empty()
    }

    /// What is impossible: the path of keys inside this struct, and what to do about it. The text never shows the URL.
    #[must_use]
    pub fn problems(&self) -> Vec<(Vec<String>, String)> {
        let mut problems = Vec::new();
        let mut refuse = |key: &str, reason: String| problems.push((vec![key.to_owned()], reason));
        if self.is_used()
            && let Err(error) = self.url.expose().parse::<Servers>()
        {
            refuse("url", error.to_string());
        }
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        if !(1..=MAX_PREFIX_BYTES).contains(&self.prefix.len()) || !self.prefix.bytes().all(allowed) {
            refuse("prefix", "must be 1 to 64 letters, digits, dots, underscores or hyphens".to_owned());
        }
        let at_least_one = [
            ("connect_timeout_millis", self.connect_timeout_millis),
            ("call_timeout_millis", self.call_timeout_millis),
            ("log_max_events", self.log_max_events),
            ("log_max_age_days", u64::from(self.log_max_age_days)),
            ("duplicate_window_days", u64::from(self.duplicate_window_days)),
            ("read_batch_events", self.read_batch_events as u64),
        ];
        for (key, value) in at_least_one {
            if value == 0 {
                refuse(key, "0 would leave nothing; give at least 1".to_owned());
            }
        }
        if self.connect_timeout_millis > self.call_timeout_millis {
            refuse(
                "connect_timeout_millis",
                format!(
                    "a call, its connection included, ends after call_timeout_millis = {}; give at most that",
                    self.call_timeout_millis
                ),
            );
        }
        if self.duplicate_window_days < self.log_max_age_days {
            refuse(
                "duplicate_window_days",
                format!(
                    "an event is found by its id as long as it is recognised; give at least log_max_age_days = {}",
                    self.log_max_age_days
                ),
            );
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_possible_and_uses_no_redis() {
        assert_eq!(Config::default().problems(), []);
        assert!(!Config::default().is_used());
    }

    #[test]
    fn impossible_combinations_name_their_key_and_never_show_the_url() {
        let config = Config {
            url: Secret::new("redis:/:hunter2@host"),
            prefix: "a{b}".to_owned(),
            read_batch_events: 0,
            connect_timeout_millis: 6000,
            duplicate_window_days: 1,
            ..Config::default()
        };
        let problems = config.problems();
        let keys: Vec<_> = problems.iter().map(|(path, _)| path.join(".")).collect();
        assert_eq!(
            keys,
            ["url", "prefix", "read_batch_events", "connect_timeout_millis", "duplicate_window_days"]
        );
        assert!(problems.iter().all(|(_, reason)| !reason.contains("hunter2")), "{problems:?}");
    }

    #[test]
    fn unknown_keys_are_refused() {
        assert!(serde_json::from_str::<Config>(r#"{"tick_milis": 3}"#).is_err());
    }
}
