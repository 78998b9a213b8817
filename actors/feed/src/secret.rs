//! Text that must not be printed.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

/// A password, a token or a key. Whatever prints or serialises it writes `[redacted]`; only
/// [`expose`](Self::expose) gives the text.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

const REDACTED: &str = "[redacted]";

impl Secret {
    /// Takes the text.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for the one place that sends it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether there is no text.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(REDACTED)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(REDACTED)
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(REDACTED)
    }
}

impl schemars::JsonSchema for Secret {
    fn schema_name() -> Cow<'static, str> {
        "Secret".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "format": "secret" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_way_of_printing_shows_the_text() {
        let secret = Secret::new("hunter2");
        for printed in [format!("{secret}"), format!("{secret:?}"), serde_json::to_string(&secret).unwrap()] {
            assert!(!printed.contains("hunter2"), "{printed}");
        }
        assert_eq!(secret.expose(), "hunter2");
    }
}
