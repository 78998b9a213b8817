//! The section `[log]`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The log, which goes to standard error.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LogConfig {
    /// What a line looks like.
    pub format: LogFormat,
    /// Which lines are written: `error`, `warn`, `info`, `debug` or `trace`, or a list of directives for single
    /// modules, such as `info,freshet_stomp_subscriber=debug`.
    pub level: String,
}

/// The form of a log line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// For people when standard error is a terminal, JSON otherwise.
    #[default]
    Auto,
    /// A line for people.
    Human,
    /// A JSON object on one line.
    Json,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { format: LogFormat::Auto, level: "info,actix_server=warn".into() }
    }
}

impl LogConfig {
    /// Impossible combinations: the key's path in this section, and what to do.
    #[must_use]
    pub fn problems(&self) -> Vec<(Vec<String>, String)> {
        const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
        // To the filter a word alone is the name of a module, so a misspelt level would switch the log off.
        let is_level = |word: &str| LEVELS.contains(&word.to_lowercase().as_str());
        let words = self.level.split(',').map(str::trim);
        let words_are_levels = words.filter(|word| !word.contains('=')).all(is_level);
        if words_are_levels && tracing_subscriber::EnvFilter::try_new(&self.level).is_ok() {
            return Vec::new();
        }
        let message = "no such filter: write error, warn, info, debug or trace, or module=level for one \
                       module, joined by commas";
        vec![(vec!["level".to_owned()], message.to_owned())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_level_is_not_taken_for_a_module() {
        let accepted =
            |level: &str| LogConfig { level: level.into(), ..Default::default() }.problems().is_empty();
        for level in ["info", "WARN", "off", "info,freshet_stomp_subscriber=debug", "freshet=trace, warn"] {
            assert!(accepted(level), "{level}");
        }
        for level in ["inof", "", "info,", "info,freshet", "freshet=loud"] {
            assert!(!accepted(level), "{level}");
        }
    }
}
