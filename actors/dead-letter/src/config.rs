//! The limits of the dead-letter room.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What could not be processed is kept in a file of its own until it is too old or makes room for newer letters.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The most letters that are kept. When there are more, the oldest go.
    #[schemars(range(min = 1, max = 100_000_000))]
    pub max_letters: u64,
    /// The most bytes of letters that are kept, bodies and headers together. When there are more, the oldest go.
    /// The file itself is a few percent larger.
    #[schemars(range(min = 65_536, max = 1_099_511_627_776_u64))]
    pub max_total_bytes: u64,
    /// Letters older than this go. Long enough for a person to notice, look and replay.
    #[schemars(range(min = 1, max = 3650))]
    pub max_age_days: u32,
    /// A body up to this size is kept whole. Of a longer one the first bytes are kept, with its length and a mark
    /// that it was cut. The default is `max_frame_bytes` of a broker's connection, so that every frame that is taken whole
    /// is also kept whole; raise both together.
    #[schemars(range(min = 1024, max = 536_870_912))]
    pub max_body_bytes: usize,
    /// Headers are kept in their order while all of them together have at most this many bytes; the first that
    /// does not fit and all after it go, with a mark.
    #[schemars(range(min = 1024, max = 16_777_216))]
    pub max_headers_bytes: usize,
    /// While the file cannot be written, the room tries again after this many seconds.
    #[schemars(range(min = 1, max = 3600))]
    pub retry_secs: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            max_letters: 100_000,
            max_total_bytes: 1024 * 1024 * 1024,
            max_age_days: 30,
            max_body_bytes: 12 * 1024 * 1024,
            max_headers_bytes: 64 * 1024,
            retry_secs: 5,
        }
    }
}

impl Config {
    /// Impossible combinations: the path of the key, and what to do.
    #[must_use]
    pub fn problems(&self) -> Vec<(Vec<String>, String)> {
        let largest = self.max_body_bytes as u64 + self.max_headers_bytes as u64;
        if largest <= self.max_total_bytes {
            return Vec::new();
        }
        vec![(
            vec!["max_total_bytes".to_owned()],
            format!(
                "one letter may have {largest} bytes (max_body_bytes + max_headers_bytes); raise max_total_bytes to at least that"
            ),
        )]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_frame_that_is_taken_whole_is_kept_whole() {
        // The default of `max_frame_bytes` of a broker's connection.
        assert!(Config::default().max_body_bytes >= 12_582_912);
    }

    #[test]
    fn there_is_room_for_the_largest_letter() {
        assert_eq!(Config::default().problems(), []);
        let cramped = Config { max_total_bytes: 65_536, ..Config::default() };
        assert_eq!(cramped.problems()[0].0, ["max_total_bytes"]);
    }
}
