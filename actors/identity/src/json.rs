//! Reads JSON objects as a token must be read: each name once, numbers exact, values untouched until asked for.

use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Why a text is not one object with distinct names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotMembers {
    /// It is no JSON object, or something follows it.
    NotAnObject,
    /// A name stands twice, so two readers could see two different objects.
    Duplicate,
}

/// The members of one object: names decoded, values as they stand in the text.
#[derive(Debug)]
pub(crate) struct Members<'a>(Vec<(String, &'a RawValue)>);

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
                while let Some(member) = map.next_entry::<String, &'de RawValue>()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(MembersVisitor)
    }
}

/// How many lists and objects stand in each other at the deepest place of a JSON text. What a text that is no JSON
/// answers means nothing.
pub(crate) fn depth(text: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let (mut in_text, mut is_escaped) = (false, false);
    for byte in text {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = in_text,
            b'"' => in_text = !in_text,
            b'[' | b'{' if !in_text => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

impl<'a> Members<'a> {
    pub fn read(text: &'a [u8]) -> Result<Self, NotMembers> {
        let members: Self = serde_json::from_slice(text).map_err(|_| NotMembers::NotAnObject)?;
        let mut names = HashSet::new();
        if members.0.iter().all(|(name, _)| names.insert(name.as_str())) {
            Ok(members)
        } else {
            Err(NotMembers::Duplicate)
        }
    }

    /// The value, where there is one; null counts as none.
    pub fn get(&self, name: &str) -> Option<Value<'a>> {
        let (_, raw) = self.0.iter().find(|(found, _)| found == name)?;
        (raw.get() != "null").then(|| Value(raw.get()))
    }

    /// Whether there is a member with this name, null included.
    pub fn names(&self, name: &str) -> bool {
        self.0.iter().any(|(found, _)| found == name)
    }
}

/// One value that is not null, as it stands in the text. Each reading answers `None` for a value of another type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Value<'a>(&'a str);

impl<'a> Value<'a> {
    pub fn text(self) -> Option<String> {
        serde_json::from_str(self.0).ok()
    }

    /// An integer in the plain notation. `1e9` and `1.0` are refused: no time passes through a float.
    pub fn integer(self) -> Option<i64> {
        self.0.parse().ok()
    }

    pub fn boolean(self) -> Option<bool> {
        match self.0 {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        }
    }

    pub fn texts(self) -> Option<Vec<String>> {
        serde_json::from_str(self.0).ok()
    }

    pub fn list(self) -> Option<Vec<&'a RawValue>> {
        serde_json::from_str(self.0).ok()
    }

    pub fn is_object(self) -> bool {
        self.0.starts_with('{')
    }

    pub fn members(self) -> Result<Members<'a>, NotMembers> {
        Members::read(self.0.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_has_each_name_once() {
        let cases = [
            (r#"{"a":1,"b":{"a":2}}"#, Ok(())),
            (r#" {} "#, Ok(())),
            (r#"{"a":1,"a":1}"#, Err(NotMembers::Duplicate)),
            (r#"{"exp":1,"\u0065xp":2}"#, Err(NotMembers::Duplicate)),
            (r#"{"a":1}{"a":1}"#, Err(NotMembers::NotAnObject)),
            (r#"[]"#, Err(NotMembers::NotAnObject)),
            (r#"{"a":1"#, Err(NotMembers::NotAnObject)),
            ("", Err(NotMembers::NotAnObject)),
        ];
        for (text, expected) in cases {
            assert_eq!(Members::read(text.as_bytes()).map(|_| ()), expected, "{text}");
        }
    }

    #[test]
    fn depth_counts_what_stands_in_each_other_and_no_text() {
        let cases = [
            ("7", 0),
            ("{}", 1),
            (r#"{"a":[],"b":[[]],"c":{}}"#, 3),
            (r#"{"a[[[":"]{{","b":"\"[[[","c":"\\"}"#, 1),
            (r#"{"a":"\\","b":[[]]}"#, 3),
            ("]]]][", 1),
        ];
        for (text, expected) in cases {
            assert_eq!(depth(text.as_bytes()), expected, "{text}");
        }
        assert_eq!(depth("[".repeat(100_000).as_bytes()), 100_000);
    }

    #[test]
    fn integers_are_exact_or_no_integers() {
        let cases = [
            ("9223372036854775807", Some(i64::MAX)),
            ("-1", Some(-1)),
            ("9223372036854775808", None),
            ("1.0", None),
            ("1e3", None),
            ("\"1\"", None),
        ];
        for (text, expected) in cases {
            let object = format!(r#"{{"n":{text}}}"#);
            let members = Members::read(object.as_bytes()).unwrap();
            assert_eq!(members.get("n").unwrap().integer(), expected, "{text}");
        }
    }
}
