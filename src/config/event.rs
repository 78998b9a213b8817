//! The section `[event]`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The limits of one event, by whatever way it comes. What is beyond them is refused with a code: over HTTP with
/// an answer, from a broker into the dead letters.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EventConfig {
    /// The largest event, in bytes of its JSON.
    #[schemars(range(min = 1024, max = 67_108_864))]
    pub max_bytes: usize,
    /// The deepest nesting of objects and lists in it.
    #[schemars(range(min = 4, max = 100))]
    pub max_depth: usize,
}

impl Default for EventConfig {
    fn default() -> Self {
        Self { max_bytes: 1024 * 1024, max_depth: 64 }
    }
}
