//! How much of an input is looked at before it is refused.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The longest `eventId`, in bytes. It is sent to each client with each event, and comes back in a header.
pub const MAX_EVENT_ID_BYTES: usize = 512;
/// The longest `tableIdentifier`, in bytes.
pub const MAX_TABLE_BYTES: usize = 1024;
/// The longest of the other texts that are read (`eventType`, `sourceApplication`, `operation`), in bytes.
pub const MAX_TEXT_BYTES: usize = 512;

/// Limits on events as they come in.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// The largest event that is accepted, in bytes, white space around it included. Raise it when writers put
    /// large schemas or statistics into their events; a larger event is rejected with `event_too_large`.
    #[schemars(range(min = 1024, max = 67_108_864))]
    pub max_event_bytes: usize,
    /// How deep objects and arrays of an event may stand in each other; the event itself is the first level.
    /// A deeper event is rejected with `event_too_deep`.
    #[schemars(range(min = 4, max = 1024))]
    pub max_event_depth: usize,
    /// The most events that one HTTP request may carry. A request with more is refused whole, with
    /// `request_too_many_events`.
    #[schemars(range(min = 1, max = 100_000))]
    pub max_request_events: usize,
    /// The largest body of one HTTP request with events, in bytes. A larger one is refused whole, with
    /// `request_too_large`.
    #[schemars(range(min = 1024, max = 268_435_456))]
    pub max_request_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_event_bytes: 1024 * 1024,
            max_event_depth: 64,
            max_request_events: 1000,
            max_request_bytes: 16 * 1024 * 1024,
        }
    }
}

impl Limits {
    /// Impossible combinations: the path of the key, and what to do.
    #[must_use]
    pub fn problems(&self) -> Vec<(Vec<String>, String)> {
        if self.max_request_bytes >= self.max_event_bytes {
            return Vec::new();
        }
        vec![(
            vec!["max_request_bytes".to_owned()],
            format!(
                "no request could carry an event of max_event_bytes = {}; raise max_request_bytes or lower max_event_bytes",
                self.max_event_bytes
            ),
        )]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_must_have_room_for_its_largest_event() {
        assert_eq!(Limits::default().problems(), []);
        let cramped = Limits { max_request_bytes: 1024, ..Limits::default() };
        assert_eq!(cramped.problems()[0].0, ["max_request_bytes"]);
    }
}
