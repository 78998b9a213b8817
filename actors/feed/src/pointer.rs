//! Reads one value of a JSON text by an RFC 6901 pointer, without taking the whole apart.

use crate::members::{Members, string_of};

/// The deepest place that a pointer may name.
pub(crate) const MAX_LEVELS: usize = 8;

/// A pointer to a member of an object in objects: `/payload/tenant`. Arrays are not entered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pointer(Vec<String>);

impl Pointer {
    /// Nothing when the text is no pointer: it begins with a slash, and `~` is written `~0`, `/` is written `~1`.
    pub(crate) fn new(text: &str) -> Option<Self> {
        let names = text.strip_prefix('/')?.split('/').map(unescape).collect::<Option<Vec<_>>>()?;
        (names.len() <= MAX_LEVELS).then_some(Self(names))
    }

    /// The scalar at the place, as text: a text itself, a number in its own digits, `true` or `false`. Nothing when
    /// there is none, or null, an object or an array.
    pub(crate) fn scalar(&self, json: &str) -> Option<String> {
        let mut raw = json;
        for name in &self.0 {
            raw = Members::read(raw).ok()?.get(name)?;
        }
        match raw.as_bytes().first()? {
            b'{' | b'[' | b'n' => None,
            b'"' => Some(string_of(raw)?.ok()?.into_owned()),
            _ => Some(raw.to_owned()),
        }
    }
}

fn unescape(name: &str) -> Option<String> {
    let mut parts = name.split('~');
    let mut text = parts.next()?.to_owned();
    for part in parts {
        let rest = match part.as_bytes().first()? {
            b'0' => '~',
            b'1' => '/',
            _ => return None,
        };
        text.push(rest);
        text.push_str(&part[1..]);
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unescaped_as_rfc_6901_says() {
        let json = r#"{"a/b":1,"m~n":8,"":0,"~1":5}"#;
        for (pointer, value) in [("/a~1b", "1"), ("/m~0n", "8"), ("/", "0"), ("/~01", "5")] {
            assert_eq!(Pointer::new(pointer).unwrap().scalar(json).as_deref(), Some(value), "{pointer}");
        }
        for wrong in ["", "a", "/~", "/~2"] {
            assert_eq!(Pointer::new(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn scalars_keep_their_digits_and_nothing_else_is_one() {
        let json = r#"{"a":{"b":18446744073709551616,"c":null,"d":[1],"e":{},"f":true,"g":"\u00e9"}}"#;
        let at = |pointer| Pointer::new(pointer).unwrap().scalar(json);
        assert_eq!(at("/a/b").as_deref(), Some("18446744073709551616"));
        assert_eq!(at("/a/f").as_deref(), Some("true"));
        assert_eq!(at("/a/g").as_deref(), Some("é"));
        for none in ["/a/c", "/a/d", "/a/e", "/a/x", "/a/b/c", "/x"] {
            assert_eq!(at(none), None, "{none}");
        }
    }
}
