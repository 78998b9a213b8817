//! A configuration as written: values that remember where they stand.

use toml_edit::{Document, Item, Key, TableLike, Value};

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The byte offset in the file.
    File(usize),
    /// An environment variable.
    Variable(String),
    /// A command line option.
    Option(&'static str),
}

/// A value with its origin. It has no `Debug`: it holds secrets.
pub(super) struct Node {
    pub origin: Origin,
    pub content: Content,
}

/// What a value is.
pub(super) enum Content {
    Text(String),
    Integer(i64),
    Float(f64),
    Boolean(bool),
    DateTime,
    /// A text with a part that cannot be replaced. That has been reported.
    Broken,
    List(Vec<Node>),
    Table(Vec<Entry>),
}

/// A key of a table with its value.
pub(super) struct Entry {
    pub name: String,
    /// Where the key stands.
    pub origin: Origin,
    pub node: Node,
}

impl Node {
    /// The value of a key, made from `blank` when it is not there; `None` when this is no table.
    pub(super) fn child(&mut self, origin: &Origin, name: &str, blank: Content) -> Option<&mut Self> {
        let Content::Table(entries) = &mut self.content else { return None };
        let index = match entries.iter().position(|entry| entry.name == name) {
            Some(index) => index,
            None => {
                let node = Self { origin: origin.clone(), content: blank };
                entries.push(Entry { name: name.to_owned(), origin: origin.clone(), node });
                entries.len() - 1
            }
        };
        Some(&mut entries[index].node)
    }

    /// The item of a list, made from `blank` when it is the next one; `None` when this is no list.
    ///
    /// # Errors
    /// With the length of the list when there is no such item.
    pub(super) fn item(
        &mut self,
        origin: &Origin,
        index: usize,
        blank: Content,
    ) -> Result<Option<&mut Self>, usize> {
        let Content::List(items) = &mut self.content else { return Ok(None) };
        let length = items.len();
        if index == length {
            items.push(Self { origin: origin.clone(), content: blank });
        }
        items.get_mut(index).map(Some).ok_or(length)
    }

    /// What a person calls it, with its article. It does not show the value.
    pub(super) fn noun(&self) -> &'static str {
        match self.content {
            Content::Text(_) => "a string",
            Content::Integer(_) => "an integer",
            Content::Float(_) => "a number with a fraction",
            Content::Boolean(_) => "true or false",
            Content::DateTime => "a date or time",
            Content::Broken => "an incomplete string",
            Content::List(_) => "a list",
            Content::Table(_) => "a table",
        }
    }

    /// The origin of the value at this path or, when it is not written, of the nearest table around it. `None`
    /// when not even the first key is written.
    pub(super) fn nearest_origin(&self, path: &[String]) -> Option<&Origin> {
        let (first, rest) = path.split_first()?;
        let child = match &self.content {
            Content::Table(entries) => &entries.iter().find(|entry| entry.name == *first)?.node,
            Content::List(items) => items.get(first.parse::<usize>().ok()?)?,
            _ => return None,
        };
        Some(child.nearest_origin(rest).unwrap_or(&child.origin))
    }

    /// The same values for serde. Numbers keep all their digits; what JSON cannot hold becomes null; the check has
    /// refused it before.
    pub(super) fn to_json(&self) -> serde_json::Value {
        match &self.content {
            Content::Text(text) => text.as_str().into(),
            Content::Integer(integer) => (*integer).into(),
            Content::Float(float) => (*float).into(),
            Content::Boolean(boolean) => (*boolean).into(),
            Content::DateTime | Content::Broken => serde_json::Value::Null,
            Content::List(items) => items.iter().map(Self::to_json).collect(),
            Content::Table(entries) => {
                let pairs = entries.iter().map(|entry| (entry.name.clone(), entry.node.to_json()));
                serde_json::Value::Object(pairs.collect())
            }
        }
    }
}

/// A text that is no TOML.
pub(super) struct SyntaxError {
    /// The byte offset.
    pub offset: usize,
    /// What is wrong, without any of the text: it may be a secret.
    pub message: String,
}

/// Reads a TOML document. `origin` says where the value at a byte offset comes from.
pub(super) fn parse(text: &str, origin: &dyn Fn(usize) -> Origin) -> Result<Node, SyntaxError> {
    let document = Document::parse(text).map_err(|error| SyntaxError {
        offset: error.span().map_or(0, |span| span.start),
        message: format!("not TOML: {}", error.message().trim()).replace('\n', ", "),
    })?;
    Ok(Node { origin: origin(0), content: table(document.as_table(), 0, origin) })
}

/// `around` is the byte offset to fall back to where the parser kept none.
fn table(table: &dyn TableLike, around: usize, origin: &dyn Fn(usize) -> Origin) -> Content {
    let mut entries = Vec::new();
    for (name, item) in table.iter() {
        let key = table.key(name).and_then(Key::span).map_or(around, |span| span.start);
        if let Some(node) = from_item(item, key, origin) {
            entries.push(Entry { name: name.to_owned(), origin: origin(key), node });
        }
    }
    Content::Table(entries)
}

fn from_item(item: &Item, key: usize, origin: &dyn Fn(usize) -> Origin) -> Option<Node> {
    let node = match item {
        Item::None => return None,
        Item::Value(value) => from_value(value, key, origin),
        // The key is a better place to point to than the span of the header.
        Item::Table(inner) => Node { origin: origin(key), content: table(inner, key, origin) },
        Item::ArrayOfTables(tables) => {
            let items = tables.iter().map(|inner| {
                let start = inner.span().map_or(key, |span| span.start);
                Node { origin: origin(start), content: table(inner, start, origin) }
            });
            Node { origin: origin(key), content: Content::List(items.collect()) }
        }
    };
    Some(node)
}

fn from_value(value: &Value, around: usize, origin: &dyn Fn(usize) -> Origin) -> Node {
    let start = value.span().map_or(around, |span| span.start);
    let content = match value {
        Value::String(text) => Content::Text(text.value().clone()),
        Value::Integer(integer) => Content::Integer(*integer.value()),
        Value::Float(float) => Content::Float(*float.value()),
        Value::Boolean(boolean) => Content::Boolean(*boolean.value()),
        Value::Datetime(_) => Content::DateTime,
        Value::Array(items) => {
            Content::List(items.iter().map(|item| from_value(item, start, origin)).collect())
        }
        Value::InlineTable(inner) => table(inner, start, origin),
    };
    Node { origin: origin(start), content }
}

/// Line and column of a byte offset, both from 1, the column in characters.
pub(super) fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let mut end = offset.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let before = &text[..end];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters_and_lines_count_from_one() {
        let text = "a\r\nüb = 1\nlast";
        assert_eq!(line_and_column(text, 0), (1, 1));
        assert_eq!(line_and_column(text, text.find('b').unwrap_or(0)), (2, 2));
        assert_eq!(line_and_column(text, text.find("last").unwrap_or(0)), (3, 1));
        assert_eq!(line_and_column(text, 10_000), (3, 5));
        assert_eq!(line_and_column("", 0), (1, 1));
    }
}
