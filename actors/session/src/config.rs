//! What an operator may set for client sessions.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Limits, timing and the policy for slow clients.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// How many clients may be connected at the same time. One more is answered 503 with `Retry-After`. Each takes
    /// one open file of the process.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub max_sessions: usize,
    /// How many bytes may wait for one client that reads slower than events come. One delivery that is larger is
    /// taken when nothing else waits.
    #[schemars(range(min = 4096, max = 1_073_741_824))]
    pub outbox_max_bytes: usize,
    /// A client that heard nothing for this many seconds gets a heartbeat, give or take a tenth. Keep it well below
    /// the idle limit of proxies, which is 60 seconds often.
    #[schemars(range(min = 1, max = 3600))]
    pub heartbeat_secs: u64,
    /// The shortest time in milliseconds that a client is told to wait before it reconnects. Each client gets a
    /// random time between the shortest and the longest, so that they do not all come back at once.
    #[schemars(range(min = 1, max = 3_600_000))]
    pub retry_min_millis: u64,
    /// The longest time in milliseconds that a client is told to wait before it reconnects.
    #[schemars(range(min = 1, max = 3_600_000))]
    pub retry_max_millis: u64,
    /// At shutdown the sessions are closed evenly over this many seconds, so that their clients do not reach the
    /// other instances all at once. 0 closes them together.
    #[schemars(range(min = 0, max = 3600))]
    pub drain_window_secs: u64,
    /// A connection whose client acknowledged nothing for this many seconds, although bytes wait for it, is ended.
    #[schemars(range(min = 1, max = 3600))]
    pub stalled_after_secs: u64,
    /// How many bytes the operating system may hold unsent for one client. Small values show early that a client is
    /// slow; large values help clients that are far away.
    #[schemars(range(min = 4096, max = 1_073_741_824))]
    pub socket_unsent_max_bytes: u32,
    /// How many keys a channel may have whose state a client asks for with `from = "snapshot"`. With more it is
    /// told `snapshot_too_large`.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub snapshot_max_keys: usize,
    /// How many bytes one message of a WebSocket client may have. A longer one ends the connection with code 1009.
    #[schemars(range(min = 1024, max = 1_048_576))]
    pub message_max_bytes: usize,
    /// How many messages a second a WebSocket client may send. One that sends more is closed with code 4004.
    #[schemars(range(min = 1, max = 100_000))]
    pub messages_per_sec: u32,
    /// How many channels one WebSocket client may subscribe to.
    #[schemars(range(min = 1, max = 1000))]
    pub max_subscriptions: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            max_sessions: 10_000,
            outbox_max_bytes: 1 << 20,
            heartbeat_secs: 25,
            retry_min_millis: 1000,
            retry_max_millis: 5000,
            drain_window_secs: 10,
            stalled_after_secs: 30,
            socket_unsent_max_bytes: 128 << 10,
            snapshot_max_keys: 10_000,
            message_max_bytes: 64 << 10,
            messages_per_sec: 100,
            max_subscriptions: 32,
        }
    }
}

impl Config {
    /// Impossible values: the key's path inside this struct, and what is wrong with what to do about it.
    #[must_use]
    pub fn problems(&self) -> Vec<(Vec<String>, String)> {
        let mut problems = Vec::new();
        let mut between = |key: &str, value: u64, smallest: u64, largest: u64| {
            if !(smallest..=largest).contains(&value) {
                problems.push((vec![key.to_owned()], format!("must be between {smallest} and {largest}")));
            }
        };
        let as_u64 = |value: usize| u64::try_from(value).unwrap_or(u64::MAX);
        between("max_sessions", as_u64(self.max_sessions), 1, 1_000_000);
        between("outbox_max_bytes", as_u64(self.outbox_max_bytes), 4096, 1 << 30);
        between("heartbeat_secs", self.heartbeat_secs, 1, 3600);
        between("retry_min_millis", self.retry_min_millis, 1, 3_600_000);
        between("retry_max_millis", self.retry_max_millis, 1, 3_600_000);
        between("drain_window_secs", self.drain_window_secs, 0, 3600);
        between("stalled_after_secs", self.stalled_after_secs, 1, 3600);
        between("socket_unsent_max_bytes", u64::from(self.socket_unsent_max_bytes), 4096, 1 << 30);
        if self.retry_min_millis > self.retry_max_millis {
            problems.push((
                vec!["retry_min_millis".to_owned()],
                "must not be greater than retry_max_millis; lower it or raise the other".to_owned(),
            ));
        }
        problems
    }

    /// A random time between the shortest and the longest.
    pub(crate) fn retry(&self) -> Duration {
        let longest = self.retry_max_millis.max(self.retry_min_millis);
        Duration::from_millis(fastrand::u64(self.retry_min_millis..=longest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_possible() {
        assert_eq!(Config::default().problems(), []);
    }

    #[test]
    fn impossible_values_name_their_key() {
        let config = Config { max_sessions: 0, retry_min_millis: 9000, ..Config::default() };
        let keys: Vec<_> = config.problems().into_iter().flat_map(|(path, _)| path).collect();
        assert_eq!(keys, ["max_sessions", "retry_min_millis"]);
    }
}
