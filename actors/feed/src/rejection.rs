//! Why an input is no event: the catalogue of codes.

use std::borrow::Cow;
use std::fmt;

/// Makes the codes, their list and their texts from one table, so that none can be forgotten in another.
macro_rules! catalogue {
    ($($code:ident = $text:literal, $meaning:literal;)+) => {
        /// The stable code of a rejection. Dead letters, answers and metrics carry its text.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum RejectionCode {
            $(#[doc = concat!("`", $text, "`: ", $meaning, ".")] $code,)+
        }

        impl RejectionCode {
            /// Every code.
            pub const ALL: &'static [Self] = &[$(Self::$code),+];

            /// The text of the code, which never changes: `event_not_json`.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$code => $text,)+ }
            }

            /// What it means, for the documentation.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$code => $meaning,)+ }
            }
        }
    };
}

catalogue! {
    TooLarge = "event_too_large", "the event is larger than the limit";
    NotUtf8 = "event_not_utf8", "the event is not UTF-8";
    TooDeep = "event_too_deep", "objects and arrays stand in each other deeper than the limit";
    NotJson = "event_not_json", "the event is not one JSON value";
    NotObject = "event_not_object", "the event is JSON, but not an object";
    DuplicateField = "event_duplicate_field", "a field stands twice in one object, so that readers would disagree on it";
    MissingField = "event_missing_field", "a required field is absent or null";
    WrongType = "event_wrong_type", "a field has another JSON type than the contract says";
    InvalidText = "event_invalid_text", "a text is empty, has control characters or white space at an end, or is not Unicode";
    TextTooLong = "event_text_too_long", "a text is longer than its limit";
    InvalidTimestamp = "event_invalid_timestamp", "the time is not RFC 3339 with an offset";
    InexactId = "event_inexact_id", "a 64-bit id is written with a fraction or an exponent, so that its digits cannot be trusted";
    IdOutOfRange = "event_id_out_of_range", "an id does not fit a signed 64-bit integer";
    InvalidEnvelope = "cloud_event_invalid", "the envelope is not a CloudEvent: not one JSON object, or a member twice";
    UnsupportedVersion = "cloud_event_unsupported_version", "the CloudEvent has another version than 1.0";
    MissingAttribute = "cloud_event_missing_attribute", "a required attribute of the CloudEvent is absent";
    InvalidAttribute = "cloud_event_invalid_attribute", "an attribute of the CloudEvent is not a text, is empty, cannot be decoded, or stands twice";
    UnsupportedData = "cloud_event_unsupported_data", "the CloudEvent's data is absent, given twice, not base64, or not JSON";
}

impl fmt::Display for RejectionCode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// Why an input is no event. Holds nothing of the input's contents, so it may be logged and answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Rejection {
    /// The stable code.
    pub code: RejectionCode,
    /// The field or attribute at fault, by its path in the contract: `payload.snapshotId`. `None` when it is the
    /// whole, or a field that the contract does not name.
    pub field: Option<&'static str>,
    /// One sentence for a person, without the field's name.
    pub message: Cow<'static, str>,
}

impl Rejection {
    pub(crate) fn whole(code: RejectionCode, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, field: None, message: message.into() }
    }

    pub(crate) fn field(
        code: RejectionCode,
        field: &'static str,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { code, field: Some(field), message: message.into() }
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field {
            Some(field) => write!(formatter, "{field}: {}", self.message),
            None => formatter.write_str(&self.message),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn codes_are_distinct_snake_case_words() {
        let texts: HashSet<&str> = RejectionCode::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(texts.len(), RejectionCode::ALL.len());
        for text in texts {
            let snake =
                |character: char| character.is_ascii_lowercase() || matches!(character, '_' | '0'..='9');
            assert!(text.chars().all(snake), "{text}");
            assert!(text.starts_with("event_") || text.starts_with("cloud_event_"), "{text}");
        }
    }
}
