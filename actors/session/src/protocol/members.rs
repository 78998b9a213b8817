//! The members of one JSON object: their names, and their values as they stand in the text.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// So many members are kept. It is more than any object of the protocol may have, so that in one with more of them
/// a name that is unknown or stands twice is found among those that are kept.
const MAX_KEPT: usize = 16;

/// Members in their order. Values are skipped by a loop, so no depth of theirs can exhaust the stack.
#[derive(Debug)]
pub(super) struct Members<'a>(Vec<(String, &'a RawValue)>);

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
                while members.len() < MAX_KEPT
                    && let Some(member) = map.next_entry::<String, &'de RawValue>()?
                {
                    members.push(member);
                }
                if members.len() == MAX_KEPT {
                    while map.next_entry::<IgnoredAny, &'de RawValue>()?.is_some() {}
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(MembersVisitor)
    }
}

impl<'a> Members<'a> {
    pub(super) fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().find(|(found, _)| found == name).map(|(_, value)| *value)
    }

    /// A text member; `None` where there is none, or something else.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        serde_json::from_str(self.get(name)?.get()).ok()
    }

    pub(super) fn has_duplicate(&self) -> bool {
        self.names().enumerate().any(|(index, name)| self.names().take(index).any(|other| other == name))
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }
}
