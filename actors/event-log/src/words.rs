//! The words by which an event is found. Events and queries go through the same function, so that what is
//! typed is compared with what is stored by one rule: a word is a run of letters and digits, in lower case.

use std::fmt;

use freshet_feed::Event;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};

/// At most this many bytes of words are kept of one event; what comes later in it is not found.
pub const MAX_WORDS_BYTES: usize = 16 * 1024;
/// The longest text of a query, in bytes.
pub const MAX_TEXT_BYTES: usize = 1024;
/// The most words of a query.
pub const MAX_TEXT_WORDS: usize = 32;
/// A last word of fewer characters is wanted as it is. What goes on from one or two characters is a large part
/// of all words, and FTS5 merges them in one step that no time limit ends.
pub const MIN_PREFIX_CHARACTERS: usize = 3;

/// The words of an event, each followed by a space: its table, application, operation and id, and all texts
/// and numbers in its body. The names of JSON fields are left out: nearly all events share them.
#[must_use]
pub fn of_event(event: &Event) -> String {
    let mut words = Words { text: String::with_capacity(event.body.len()) };
    words.add(event.table().unwrap_or_default());
    words.add(event.source_application.as_deref().unwrap_or_default());
    let operation = event.commit.as_ref().and_then(|commit| commit.operation.as_deref());
    words.add(operation.unwrap_or_default());
    words.add(&event.event_id);
    let mut deserializer = serde_json::Deserializer::from_slice(&event.body);
    // A body that ends in the middle gives the words before that place.
    let _ = Values(&mut words).visit_next(&mut deserializer);
    words.text
}

/// The query of a text in FTS5's language: all words must occur, the last one may go on when it has at least
/// [`MIN_PREFIX_CHARACTERS`]. `None` when the text has no word. Words are of letters and digits only, so nothing in them can be an operator.
///
/// # Errors
/// The reason why the text is refused.
pub fn query(text: &str) -> Result<Option<String>, String> {
    if text.len() > MAX_TEXT_BYTES {
        return Err(format!("the text is longer than {MAX_TEXT_BYTES} bytes"));
    }
    let mut words = Words { text: String::new() };
    words.add(text);
    let words: Vec<&str> = words.text.split_ascii_whitespace().collect();
    if words.len() > MAX_TEXT_WORDS {
        return Err(format!("the text has more than {MAX_TEXT_WORDS} words"));
    }
    let Some(last) = words.last() else { return Ok(None) };
    let may_go_on = if last.chars().count() >= MIN_PREFIX_CHARACTERS { "*" } else { "" };
    let quoted: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
    Ok(Some(format!("{}{may_go_on}", quoted.join(" AND "))))
}

struct Words {
    text: String,
}

impl Words {
    fn add(&mut self, text: &str) {
        for character in text.chars() {
            if self.text.len() >= MAX_WORDS_BYTES {
                return;
            }
            if character.is_ascii() {
                self.add_ascii(character);
            } else if character.is_alphanumeric() {
                self.text.extend(character.to_lowercase());
            } else {
                self.end_word();
            }
        }
        self.end_word();
    }

    fn add_ascii(&mut self, character: char) {
        if character.is_ascii_alphanumeric() {
            self.text.push(character.to_ascii_lowercase());
        } else {
            self.end_word();
        }
    }

    fn end_word(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with(' ') {
            self.text.push(' ');
        }
    }
}

/// Walks through a JSON value and takes its words, without building the value.
struct Values<'a>(&'a mut Words);

impl Values<'_> {
    fn visit_next<'de, D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> serde::de::DeserializeSeed<'de> for Values<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        self.visit_next(deserializer)
    }
}

impl<'de> Visitor<'de> for Values<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any JSON value")
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.0.add(text);
        Ok(())
    }

    fn visit_i64<E>(self, number: i64) -> Result<(), E> {
        self.0.add(&number.to_string());
        Ok(())
    }

    fn visit_u64<E>(self, number: u64) -> Result<(), E> {
        self.0.add(&number.to_string());
        Ok(())
    }

    fn visit_f64<E>(self, number: f64) -> Result<(), E> {
        self.0.add(&number.to_string());
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(Values(self.0))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while fields.next_key::<serde::de::IgnoredAny>()?.is_some() {
            fields.next_value_seed(Values(self.0))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn an_event_is_found_by_its_fields_and_by_every_value_of_its_body() {
        let mut event = sample::event("id-1", "Prod.daily_USERS");
        event.source_application = Some("Spark/3.5".to_owned());
        event.body =
            br#"{"key":"V\u00c9lo","n":8734628364872364872,"deep":[{"x":["s3://a-b"]},true,null,-7]}"#
                .as_slice()
                .into();
        assert_eq!(
            of_event(&event),
            "prod daily users spark 3 5 append id 1 vélo 8734628364872364872 s3 a b 7 "
        );
    }

    #[test]
    fn a_huge_body_is_cut_and_a_broken_one_gives_what_it_has() {
        let mut event = sample::event("e", "t");
        event.body = format!(r#"["first", "{}", "last"]"#, "x ".repeat(MAX_WORDS_BYTES)).into();
        let words = of_event(&event);
        assert!(words.contains("first"));
        assert!(!words.contains("last"));
        assert!(words.len() <= MAX_WORDS_BYTES + 1);

        event.body = br#"["first", "#.as_slice().into();
        assert_eq!(of_event(&event), "t append e first ");
    }

    #[test]
    fn what_looks_like_an_operator_is_text() {
        assert_eq!(query("prod.Orders"), Ok(Some(r#""prod" AND "orders"*"#.to_owned())));
        assert_eq!(
            query("a OR (b* NEAR \"c"),
            Ok(Some(r#""a" AND "or" AND "b" AND "near" AND "c""#.to_owned()))
        );
        assert_eq!(query("  -*\"' "), Ok(None));
    }

    #[test]
    fn a_short_last_word_does_not_go_on() {
        for (typed, expected) in [
            ("a", r#""a""#),
            ("user 7", r#""user" AND "7""#),
            ("é1", r#""é1""#),
            ("é12", r#""é12"*"#),
            ("a pro", r#""a" AND "pro"*"#),
        ] {
            assert_eq!(query(typed), Ok(Some(expected.to_owned())), "{typed}");
        }
    }

    #[test]
    fn a_long_query_is_refused() {
        assert!(query(&"x".repeat(MAX_TEXT_BYTES + 1)).is_err());
        assert!(query(&"x ".repeat(MAX_TEXT_WORDS + 1)).is_err());
        assert!(query(&"x ".repeat(MAX_TEXT_WORDS)).is_ok());
    }
}
