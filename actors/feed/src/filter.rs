//! Which events a client wants.

use std::fmt;

use crate::Event;
use crate::event::Commit;

/// The longest value of one filter parameter, in bytes.
pub const MAX_VALUE_BYTES: usize = 1024;
/// The most alternatives that one filter parameter may name.
pub const MAX_ALTERNATIVES: usize = 32;

/// A pattern for whole table names: `*` stands for any text, dots included, `?` for one character, and every
/// other character for itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Glob(String);

impl Glob {
    /// Takes the pattern as it is; every text is a pattern.
    #[must_use]
    pub fn new(pattern: impl Into<String>) -> Self {
        Self(pattern.into())
    }

    /// The pattern's text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the whole text fits. Takes at most `pattern × text` steps: after a mismatch only the last star
    /// widens, which is enough because an earlier star can never match better than leftmost.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        let mut rest_of_pattern = self.0.chars();
        let mut rest_of_text = text.chars();
        let mut after_last_star = None;
        loop {
            let mut next_pattern = rest_of_pattern.clone();
            match next_pattern.next() {
                Some('*') => {
                    rest_of_pattern = next_pattern.clone();
                    after_last_star = Some((next_pattern, rest_of_text.clone()));
                    continue;
                }
                Some(wanted) => {
                    if let Some(found) = rest_of_text.next()
                        && (wanted == '?' || wanted == found)
                    {
                        rest_of_pattern = next_pattern;
                        continue;
                    }
                }
                None if rest_of_text.as_str().is_empty() => return true,
                None => {}
            }
            let Some((pattern, text)) = &mut after_last_star else { return false };
            if text.next().is_none() {
                return false;
            }
            rest_of_pattern = pattern.clone();
            rest_of_text = text.clone();
        }
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Which events a client wants: each named field must fit one of its alternatives. The default wants all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct EventFilter {
    /// Patterns for `tableIdentifier`; empty wants every table.
    pub tables: Vec<Glob>,
    /// Values of `payload.operation`; empty wants every one, also an absent one.
    pub operations: Vec<String>,
    /// Values of `sourceApplication`; empty wants every one, also an absent one.
    pub applications: Vec<String>,
    /// The value of `payload.schemaChanged`; an event that does not say fits neither.
    pub schema_changed: Option<bool>,
}

/// A filter parameter that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// `schemaChanged` is neither `true` nor `false`.
    #[error("schemaChanged must be true or false")]
    NotABoolean,
    /// A value is longer than [`MAX_VALUE_BYTES`].
    #[error("{0} is longer than {MAX_VALUE_BYTES} bytes")]
    TooLong(&'static str),
    /// More than [`MAX_ALTERNATIVES`] values.
    #[error("{0} has more than {MAX_ALTERNATIVES} alternatives")]
    TooMany(&'static str),
}

impl FilterError {
    /// The stable machine code of the error.
    #[must_use]
    pub fn code(&self) -> &'static str {
        "invalid_filter"
    }
}

impl EventFilter {
    /// Reads the parameters `table`, `operation`, `application` and `schemaChanged`; others are left to their
    /// owners. A parameter may be repeated, and its alternatives may be joined by commas.
    ///
    /// # Errors
    /// When a value is too long, when there are too many, or when a boolean is none.
    pub fn from_query<'a>(
        parameters: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, FilterError> {
        let mut filter = Self::default();
        for (name, value) in parameters {
            match name {
                "table" => add("table", value, &mut filter.tables, |text| Glob::new(text))?,
                "operation" => add("operation", value, &mut filter.operations, |text| text.to_owned())?,
                "application" => add("application", value, &mut filter.applications, |text| text.to_owned())?,
                "schemaChanged" => {
                    filter.schema_changed = match value {
                        "" => None,
                        "true" => Some(true),
                        "false" => Some(false),
                        _ => return Err(FilterError::NotABoolean),
                    }
                }
                _ => {}
            }
        }
        // Clients that want the same share one group, whatever the order in which they say it.
        filter.tables.sort_unstable();
        filter.tables.dedup();
        filter.operations.sort_unstable();
        filter.operations.dedup();
        filter.applications.sort_unstable();
        filter.applications.dedup();
        Ok(filter)
    }

    /// Whether the client wants this event.
    #[must_use]
    pub fn matches(&self, event: &Event) -> bool {
        let named = |wanted: &[String], found: Option<&String>| {
            wanted.is_empty() || found.is_some_and(|found| wanted.contains(found))
        };
        let commit = event.commit.as_ref();
        let in_table = |commit: &Commit| self.tables.iter().any(|glob| glob.matches(&commit.table));
        (self.tables.is_empty() || commit.is_some_and(in_table))
            && named(&self.operations, commit.and_then(|commit| commit.operation.as_ref()))
            && named(&self.applications, event.source_application.as_ref())
            && self
                .schema_changed
                .is_none_or(|wanted| commit.is_some_and(|commit| commit.schema_changed == Some(wanted)))
    }

    /// Whether it wants every event.
    #[must_use]
    pub fn is_all(&self) -> bool {
        *self == Self::default()
    }
}

fn add<T>(
    name: &'static str,
    value: &str,
    alternatives: &mut Vec<T>,
    read: impl Fn(&str) -> T,
) -> Result<(), FilterError> {
    if value.len() > MAX_VALUE_BYTES {
        return Err(FilterError::TooLong(name));
    }
    alternatives.extend(value.split(',').map(str::trim).filter(|part| !part.is_empty()).map(read));
    if alternatives.len() > MAX_ALTERNATIVES {
        return Err(FilterError::TooMany(name));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The definition of the pattern, slow and plain.
    fn matches_by_definition(pattern: &[char], text: &[char]) -> bool {
        match (pattern.first(), text.first()) {
            (None, None) => true,
            (Some('*'), _) => {
                matches_by_definition(&pattern[1..], text)
                    || (!text.is_empty() && matches_by_definition(pattern, &text[1..]))
            }
            (Some('?'), Some(_)) => matches_by_definition(&pattern[1..], &text[1..]),
            (Some(wanted), Some(found)) if wanted == found => {
                matches_by_definition(&pattern[1..], &text[1..])
            }
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn glob_is_its_definition(pattern in "[ab.*?é]{0,8}", text in "[ab.é]{0,10}") {
            let expected = matches_by_definition(
                &pattern.chars().collect::<Vec<_>>(),
                &text.chars().collect::<Vec<_>>(),
            );
            prop_assert_eq!(Glob::new(pattern).matches(&text), expected);
        }
    }

    #[test]
    fn a_hostile_pattern_ends() {
        let glob = Glob::new(format!("{}b", "*a".repeat(400)));
        assert!(!glob.matches(&"a".repeat(1000)));
    }

    #[test]
    fn the_order_of_alternatives_does_not_make_another_filter() {
        let one = EventFilter::from_query([("table", "b.*,a"), ("operation", "append")]).unwrap();
        let other =
            EventFilter::from_query([("operation", "append"), ("table", "a"), ("table", "b.*")]).unwrap();
        assert_eq!(one, other);
    }

    #[test]
    fn rubbish_is_refused_with_a_code() {
        let long = "x".repeat(MAX_VALUE_BYTES + 1);
        let many = "x,".repeat(MAX_ALTERNATIVES + 1);
        for parameter in [("schemaChanged", "yes"), ("table", &long), ("operation", &many)] {
            let error = EventFilter::from_query([parameter]).unwrap_err();
            assert_eq!(error.code(), "invalid_filter");
        }
    }
}
