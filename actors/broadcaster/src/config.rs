//! What an operator may set for the Broadcaster.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How events are gathered, rendered and kept for live delivery.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Events that come faster than this many milliseconds after one another reach the clients together, in one
    /// write for each client. A lone event goes out at once. 0 delivers after every append; raise it when many
    /// clients follow a fast stream and the processor time matters more than the delay.
    #[schemars(range(min = 0, max = 1000))]
    pub tick_millis: u64,
    /// How many events may be gathered while one append to the log is in flight. When it is reached, sources wait.
    #[schemars(range(min = 1, max = 100_000))]
    pub gather_max_events: usize,
    /// How many bytes of event bodies may be gathered while one append to the log is in flight. When it is
    /// reached, sources wait.
    #[schemars(range(min = 1, max = 1_073_741_824))]
    pub gather_max_bytes: usize,
    /// The size in bytes at which a batch of rendered events is cut. One event that is larger makes a batch of
    /// its own.
    #[schemars(range(min = 1, max = 16_777_216))]
    pub batch_max_bytes: usize,
    /// How many bytes of rendered events are kept in memory for clients that reconnect. Clients that missed more
    /// read the log.
    #[schemars(range(min = 1, max = 4_294_967_296_u64))]
    pub recent_max_bytes: usize,
    /// How many events one page of the log holds when clients catch up.
    #[schemars(range(min = 1, max = 100_000))]
    pub page_max_events: usize,
    /// How many pages of the log are kept in memory while clients catch up; clients at the same place share them.
    #[schemars(range(min = 1, max = 10_000))]
    pub cached_pages: usize,
    /// How many pages of the log may be read at the same time for clients that catch up.
    #[schemars(range(min = 1, max = 64))]
    pub concurrent_reads: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            tick_millis: 5,
            gather_max_events: 4096,
            gather_max_bytes: 4 << 20,
            batch_max_bytes: 64 << 10,
            recent_max_bytes: 8 << 20,
            page_max_events: 256,
            cached_pages: 32,
            concurrent_reads: 2,
        }
    }
}

impl Config {
    /// Impossible values: the key's path inside this struct, and what is wrong with what to do about it.
    #[must_use]
    pub fn problems(&self) -> Vec<(Vec<String>, String)> {
        let mut problems = Vec::new();
        let mut between = |key: &str, value: usize, smallest: usize, largest: usize| {
            if !(smallest..=largest).contains(&value) {
                problems.push((vec![key.to_owned()], format!("must be between {smallest} and {largest}")));
            }
        };
        between("tick_millis", usize::try_from(self.tick_millis).unwrap_or(usize::MAX), 0, 1000);
        between("gather_max_events", self.gather_max_events, 1, 100_000);
        between("gather_max_bytes", self.gather_max_bytes, 1, 1 << 30);
        between("batch_max_bytes", self.batch_max_bytes, 1, 16 << 20);
        between("recent_max_bytes", self.recent_max_bytes, 1, 1 << 32);
        between("page_max_events", self.page_max_events, 1, 100_000);
        between("cached_pages", self.cached_pages, 1, 10_000);
        between("concurrent_reads", self.concurrent_reads, 1, 64);
        if problems.is_empty() && self.recent_max_bytes < self.batch_max_bytes {
            problems.push((
                vec!["recent_max_bytes".to_owned()],
                "must not be smaller than batch_max_bytes, or every client would read the log; raise it"
                    .to_owned(),
            ));
        }
        problems
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
        let config = Config { gather_max_events: 0, tick_millis: 5000, ..Config::default() };
        let keys: Vec<_> = config.problems().into_iter().flat_map(|(path, _)| path).collect();
        assert_eq!(keys, ["tick_millis", "gather_max_events"]);

        let config = Config { recent_max_bytes: 10, ..Config::default() };
        assert_eq!(config.problems()[0].0, ["recent_max_bytes"]);
    }
}
