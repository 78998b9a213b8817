//! The check of a document against its shape, and the report that gathers all problems.

use std::net::SocketAddr;
use std::path::Path;

use super::problem::{Place, Problem, nearest};
use super::shape::{Field, Shape, TextKind, Word};
use super::tree::{Content, Entry, Node, Origin, line_and_column};

/// Gathers problems, knows where an origin is, and hides what must not be printed.
pub(super) struct Report<'a> {
    file: Option<(&'a Path, &'a str)>,
    hidden: Vec<(String, String)>,
    problems: Vec<Problem>,
}

impl<'a> Report<'a> {
    /// A report on a file with this text, if there is one.
    pub(super) fn new(file: Option<(&'a Path, &'a str)>) -> Self {
        Self { file, hidden: Vec::new(), problems: Vec::new() }
    }

    /// From now on `text` is printed as `replacement`, wherever it appears in a message.
    pub(super) fn hide(&mut self, text: &str, replacement: &str) {
        if !text.is_empty() {
            self.hidden.push((text.to_owned(), replacement.to_owned()));
        }
    }

    /// Whether the text holds anything that must not be printed.
    fn hides(&self, text: &str) -> bool {
        self.hidden.iter().any(|(hidden, _)| text.contains(hidden.as_str()))
    }

    /// Adds a problem. The message must not hold values of texts that may be hidden.
    pub(super) fn add(
        &mut self,
        origin: &Origin,
        path: &[String],
        message: impl Into<String>,
        suggestion: Option<String>,
    ) {
        let (place, key) = (self.place(origin), path.join("."));
        self.problems.push(Problem { place, key, message: message.into(), suggestion });
    }

    /// Adds a problem, in words that came from elsewhere and may hold any value, about the value at a path or
    /// about the nearest that is written.
    pub(super) fn add_foreign(&mut self, root: &Node, path: &[String], words: &str) {
        let place = match (root.nearest_origin(path), self.file) {
            (Some(origin), _) => self.place(origin),
            (None, Some((file, _))) => Place::File { path: file.to_owned(), position: None },
            (None, None) => Place::Defaults,
        };
        let words = self.masked(words);
        let message = if path.is_empty() { words } else { format!("{}: {words}", name(path)) };
        self.problems.push(Problem { place, key: path.join("."), message, suggestion: None });
    }

    fn masked(&self, words: &str) -> String {
        let mut hidden: Vec<&(String, String)> = self.hidden.iter().collect();
        // Longest first, so that a text inside another does not break it up.
        hidden.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        hidden.iter().fold(words.to_owned(), |words, (text, replacement)| words.replace(text, replacement))
    }

    fn place(&self, origin: &Origin) -> Place {
        match (origin, self.file) {
            (Origin::File(offset), Some((path, text))) => {
                Place::File { path: path.to_owned(), position: Some(line_and_column(text, *offset)) }
            }
            (Origin::File(_), None) => Place::Defaults,
            (Origin::Variable(name), _) => Place::Variable(name.clone()),
            (Origin::Option(name), _) => Place::Option(name),
        }
    }

    /// Whether nothing was found so far.
    pub(super) fn is_empty(&self) -> bool {
        self.problems.is_empty()
    }

    /// What was found.
    pub(super) fn into_problems(self) -> Vec<Problem> {
        self.problems
    }
}

/// Checks a document against the shape of the whole configuration.
pub(super) fn check(root: &Node, shape: &Shape, report: &mut Report<'_>) {
    Checker { whole: shape, report }.value(root, shape, &mut Vec::new());
}

struct Checker<'a, 'b> {
    whole: &'a Shape,
    report: &'a mut Report<'b>,
}

impl Checker<'_, '_> {
    fn value(&mut self, node: &Node, shape: &Shape, path: &mut Vec<String>) {
        match (shape, &node.content) {
            (Shape::Table(fields), Content::Table(entries)) => self.table(node, fields, entries, path),
            (Shape::Map(item), Content::Table(entries)) => {
                for entry in entries {
                    path.push(entry.name.clone());
                    self.value(&entry.node, item, path);
                    path.pop();
                }
            }
            (Shape::List(item), Content::List(items)) => {
                for (index, node) in items.iter().enumerate() {
                    path.push(index.to_string());
                    self.value(node, item, path);
                    path.pop();
                }
            }
            (Shape::Text(TextKind::SocketAddress), Content::Text(text)) => {
                if text.parse::<SocketAddr>().is_err() {
                    let message =
                        format!("{} must be an IP address and a port, such as 127.0.0.1:8080", name(path));
                    self.report.add(&node.origin, path, message, None);
                }
            }
            (Shape::Text(TextKind::Any) | Shape::Secret, Content::Text(_)) => {}
            (Shape::Word(words), Content::Text(text)) => self.word(node, words, text, path),
            (Shape::Integer { minimum, maximum }, Content::Integer(integer)) => {
                if integer < minimum || integer > maximum {
                    let bounds = bounds(*minimum, *maximum);
                    let message = format!("{} must be {bounds}, not {integer}", name(path));
                    self.report.add(&node.origin, path, message, None);
                }
            }
            (Shape::Number, Content::Float(float)) if float.is_finite() => {}
            (Shape::Number, Content::Integer(_)) | (Shape::Boolean, Content::Boolean(_)) => {}
            (Shape::Unknown(_), _) | (_, Content::Broken) => {}
            _ => {
                let message = format!("{} must be {}, not {}", name(path), shape.noun(), node.noun());
                self.report.add(&node.origin, path, message, None);
            }
        }
    }

    fn table(&mut self, node: &Node, fields: &[Field], entries: &[Entry], path: &mut Vec<String>) {
        for entry in entries {
            path.push(entry.name.clone());
            match fields.iter().find(|field| field.name == entry.name) {
                Some(field) => self.value(&entry.node, &field.shape, path),
                None => {
                    let names = fields.iter().map(|field| field.name.as_str());
                    let suggestion = nearest(&entry.name, names)
                        .map(str::to_owned)
                        .or_else(|| elsewhere(&entry.name, self.whole, &mut Vec::new()));
                    let message = format!("unknown key \"{}\"", entry.name.escape_debug());
                    self.report.add(&entry.origin, path, message, suggestion);
                }
            }
            path.pop();
        }
        for field in fields.iter().filter(|field| field.required) {
            if !entries.iter().any(|entry| entry.name == field.name) {
                path.push(field.name.clone());
                let message = format!("{} is missing", name(path));
                self.report.add(&node.origin, path, message, None);
                path.pop();
            }
        }
    }

    fn word(&mut self, node: &Node, words: &[Word], text: &str, path: &[String]) {
        if words.iter().any(|word| word.name == *text) {
            return;
        }
        let shown = match self.report.hides(text) || text.chars().count() > 40 {
            true => String::new(),
            false => format!(", not \"{}\"", text.escape_debug()),
        };
        let noun = Shape::Word(words.to_vec()).noun();
        let suggestion = nearest(&text.to_lowercase(), words.iter().map(|word| word.name.as_str()));
        let message = format!("{} must be {noun}{shown}", name(path));
        self.report.add(&node.origin, path, message, suggestion.map(str::to_owned));
    }
}

/// A key as people write it: `stomp[0].login`.
fn name(path: &[String]) -> String {
    let mut name = String::new();
    for part in path {
        if part.parse::<usize>().is_ok() {
            name.push_str(&format!("[{part}]"));
        } else {
            let dot = if name.is_empty() { "" } else { "." };
            name.push_str(&format!("{dot}{part}"));
        }
    }
    name
}

fn bounds(minimum: i64, maximum: i64) -> String {
    match (minimum, maximum) {
        (minimum, i64::MAX) => format!("at least {minimum}"),
        (i64::MIN, maximum) => format!("at most {maximum}"),
        _ => format!("from {minimum} to {maximum}"),
    }
}

/// The path of a key with this very name in another table, for one who wrote it in the wrong section.
fn elsewhere(wanted: &str, shape: &Shape, path: &mut Vec<String>) -> Option<String> {
    let Shape::Table(fields) = shape else { return None };
    for field in fields {
        path.push(field.name.clone());
        if field.name == wanted && path.len() > 1 {
            return Some(path.join("."));
        }
        if let Some(found) = elsewhere(wanted, &field.shape, path) {
            return Some(found);
        }
        path.pop();
    }
    None
}
