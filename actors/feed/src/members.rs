//! Reads a JSON object into its members without reading the members' values.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;

/// A JSON string, borrowed where it has no escapes.
pub(crate) struct Text<'a>(pub Cow<'a, str>);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a string")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(TextVisitor)
    }
}

/// The members of one JSON object: names decoded, values as they stand in the text.
///
/// Values are skipped by a loop and not by recursion, so no depth of theirs can exhaust the stack.
pub(crate) struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;
        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Members<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some((Text(name), value)) = map.next_entry::<Text<'de>, &'de RawValue>()? {
                    members.push((name, value));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(MembersVisitor)
    }
}

/// Why a text is not one JSON object.
pub(crate) enum NotMembers {
    /// It is not one JSON value.
    NotJson {
        /// Counted from 1.
        line: usize,
        /// In bytes, counted from 1.
        column: usize,
    },
    /// It is another JSON value.
    NotObject,
}

impl<'a> Members<'a> {
    /// Reads one object and nothing else but white space around it.
    pub fn read(text: &'a str) -> Result<Self, NotMembers> {
        let not_json =
            |error: serde_json::Error| NotMembers::NotJson { line: error.line(), column: error.column() };
        if text.trim_start().starts_with('{') {
            return serde_json::from_str(text).map_err(not_json);
        }
        serde_json::from_str::<&RawValue>(text).map_err(not_json)?;
        Err(NotMembers::NotObject)
    }

    /// The value's text, where there is one; null counts as none.
    pub fn get(&self, name: &str) -> Option<&'a str> {
        let (_, value) = self.0.iter().find(|(found, _)| found == name)?;
        (value.get() != "null").then(|| value.get())
    }

    /// Whether there is a member with this name, null included.
    pub fn names(&self, name: &str) -> bool {
        self.0.iter().any(|(found, _)| found == name)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A name that stands more than once.
    pub fn duplicate(&self) -> Option<&str> {
        let mut names: Vec<&str> = self.0.iter().map(|(name, _)| &**name).collect();
        names.sort_unstable();
        names.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
    }
}

/// Whether objects and arrays stand deeper in each other than the limit. Says nothing of whether it is JSON.
pub(crate) fn is_deeper_than(text: &str, limit: usize) -> bool {
    let mut depth = 0_usize;
    let mut in_string = false;
    let mut escaped = false;
    for byte in text.bytes() {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'{' | b'[' => {
                depth += 1;
                if depth > limit {
                    return true;
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

/// The text of a JSON string; `None` when the raw value is another type; an error when it is not Unicode.
pub(crate) fn string_of(raw: &str) -> Option<Result<Cow<'_, str>, serde_json::Error>> {
    raw.starts_with('"').then(|| serde_json::from_str::<Text<'_>>(raw).map(|Text(text)| text))
}
