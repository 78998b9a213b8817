//! The section `[demo]`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The feed of `freshet demo`. `freshet run` does not look at it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DemoConfig {
    /// The milliseconds between two commits, on the average.
    #[schemars(range(min = 1, max = 3_600_000))]
    pub interval_millis: u64,
}

impl Default for DemoConfig {
    fn default() -> Self {
        Self { interval_millis: 1000 }
    }
}
