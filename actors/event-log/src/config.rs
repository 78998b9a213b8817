//! Options of the event log.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The embedded event log: how long events are kept, and how much one search may cost.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// How long a known event is recognised when it comes again, in seconds. An event is recognised at least
    /// as long as it is held, and no longer than `deduplication_events` allows. Raise it when a source may
    /// repeat events after more than a week.
    #[schemars(range(min = 1, max = 31_536_000))]
    pub deduplication_window_secs: u64,
    /// How many events are recognised at most; the oldest are forgotten first, also within the window. All that
    /// are held are recognised whatever this says. A forgotten event is accepted again as a new one, and no
    /// longer counts in the summaries of tables. An event that is recognised and no longer held takes about 200
    /// bytes on disk. Lower it when the disk is small.
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub deduplication_events: u64,
    /// How far the times of two events may lie apart, in seconds, for them to be the same commit reported by
    /// two ways: same table, snapshot and event type, but another event id. Operations and counts must be equal
    /// where both events have them; an absent `schemaChanged` counts as false. 0 wants equal times. A change of
    /// properties or partitions that names the snapshot of the commit before it, soon after it and without
    /// counts, is taken for that commit. Lower it when tables are changed so, or rolled back, soon after a
    /// commit.
    #[schemars(range(max = 86_400))]
    pub same_commit_within_secs: u64,
    /// How long events are held, in days after their arrival.
    #[schemars(range(min = 1, max = 36_500))]
    pub retention_days: u32,
    /// How many events are held at most; the oldest go first. Of an event that has gone, its id and the columns
    /// of its commit are kept until it need not be recognised any more: see `deduplication_events`.
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub retention_events: u64,
    /// How many bytes of event bodies are held at most; the oldest events go first. The files on disk take
    /// two to three times as much, since the log can be searched, and besides that what is kept of events that
    /// have gone: see `deduplication_events`. They do not shrink: freed room is used again.
    #[schemars(range(min = 1))]
    pub retention_bytes: u64,
    /// How many searches run at once; further ones wait. Live feeds read through connections of their own.
    #[schemars(range(min = 1, max = 64))]
    pub readers: usize,
    /// How long one search may take, in milliseconds, before it is refused as too broad. One step of the
    /// word index is never interrupted, so that a search for frequent words may end somewhat later.
    #[schemars(range(min = 10, max = 60_000))]
    pub search_time_limit_millis: u64,
    /// How many events or tables one page of a search may have.
    #[schemars(range(min = 1, max = 10_000))]
    pub search_page_limit: usize,
    /// How many bytes of event bodies one page of a search may have. Its first event is returned whatever its
    /// size.
    #[schemars(range(min = 1, max = 1_073_741_824))]
    pub search_page_bytes: usize,
    /// How often old events are looked for when nothing arrives, in seconds. It is also how soon the end of an
    /// outage, such as a full disk, is noticed.
    #[schemars(range(min = 1, max = 3600))]
    pub maintenance_secs: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            deduplication_window_secs: 7 * 24 * 60 * 60,
            deduplication_events: 10_000_000,
            same_commit_within_secs: 300,
            retention_days: 30,
            retention_events: 1_000_000,
            retention_bytes: 1024 * 1024 * 1024,
            readers: 4,
            search_time_limit_millis: 2000,
            search_page_limit: 1000,
            search_page_bytes: 8 * 1024 * 1024,
            maintenance_secs: 5,
        }
    }
}

impl Config {
    /// What is impossible: the path of keys inside this struct, and what to do about it.
    #[must_use]
    pub fn problems(&self) -> Vec<(Vec<String>, String)> {
        let mut problems = Vec::new();
        let mut refuse = |key: &str, reason: String| problems.push((vec![key.to_owned()], reason));
        let at_least_one = [
            ("deduplication_window_secs", self.deduplication_window_secs),
            ("deduplication_events", self.deduplication_events),
            ("retention_days", u64::from(self.retention_days)),
            ("retention_events", self.retention_events),
            ("retention_bytes", self.retention_bytes),
            ("readers", self.readers as u64),
            ("search_page_limit", self.search_page_limit as u64),
            ("search_page_bytes", self.search_page_bytes as u64),
            ("search_time_limit_millis", self.search_time_limit_millis),
            ("maintenance_secs", self.maintenance_secs),
        ];
        for (key, value) in at_least_one {
            if value == 0 {
                refuse(key, "0 would leave nothing; give at least 1".to_owned());
            }
        }
        if self.same_commit_within_secs > self.deduplication_window_secs {
            refuse(
                "same_commit_within_secs",
                format!(
                    "a commit is forgotten after deduplication_window_secs = {}; give at most that",
                    self.deduplication_window_secs
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
    fn the_default_is_possible() {
        assert_eq!(Config::default().problems(), []);
    }

    #[test]
    fn impossible_combinations_name_their_key() {
        let config = Config { deduplication_window_secs: 10, retention_events: 0, ..Config::default() };
        let keys: Vec<_> = config.problems().into_iter().map(|(path, _)| path.join(".")).collect();
        assert_eq!(keys, ["retention_events", "same_commit_within_secs"]);
    }

    #[test]
    fn unknown_keys_are_refused() {
        assert!(serde_json::from_str::<Config>(r#"{"retention_day": 3}"#).is_err());
    }
}
