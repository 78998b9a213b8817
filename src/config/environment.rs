//! Environment variables that override the file: `FRESHET__SERVER__LISTEN` is `server.listen`, and
//! `FRESHET__STOMP__0__LOGIN` is `login` of the first `[[stomp]]`.

use super::check::Report;
use super::problem::nearest;
use super::shape::Shape;
use super::tree::{self, Content, Node, Origin};

/// What the name of an overriding variable begins with.
pub const PREFIX: &str = "FRESHET__";
const SEPARATOR: &str = "__";

/// Sets what the variables say in the document. Variables without the prefix are left alone.
pub(super) fn apply(root: &mut Node, shape: &Shape, variables: &[(String, String)], report: &mut Report<'_>) {
    let mut overrides: Vec<(Vec<Segment>, &str, &str)> = variables
        .iter()
        .filter_map(|(name, value)| {
            let path = name.strip_prefix(PREFIX)?.split(SEPARATOR).map(Segment::new).collect();
            Some((path, name.as_str(), value.as_str()))
        })
        .collect();
    // By number, so that item 2 of a list exists before item 10 is appended; whole values before their parts.
    overrides.sort();
    for (path, name, value) in overrides {
        set(root, shape, &path, &Variable { name, value }, report);
    }
}

/// One part of a variable's name.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Segment {
    Index(usize),
    Key(String),
}

impl Segment {
    fn new(text: &str) -> Self {
        match text.parse() {
            Ok(index) => Self::Index(index),
            Err(_) => Self::Key(text.to_lowercase()),
        }
    }

    fn key(&self) -> String {
        match self {
            Self::Index(index) => index.to_string(),
            Self::Key(key) => key.clone(),
        }
    }
}

struct Variable<'a> {
    name: &'a str,
    value: &'a str,
}

impl Variable<'_> {
    fn origin(&self) -> Origin {
        Origin::Variable(self.name.to_owned())
    }

    /// The name with the part at `depth` (from 0) replaced, for a suggestion.
    fn renamed(&self, depth: usize, part: &str) -> String {
        let parts: Vec<String> = self.name[PREFIX.len()..]
            .split(SEPARATOR)
            .enumerate()
            .map(|(index, old)| if index == depth { part.to_uppercase() } else { old.to_owned() })
            .collect();
        format!("{PREFIX}{}", parts.join(SEPARATOR))
    }
}

fn set(root: &mut Node, shape: &Shape, path: &[Segment], variable: &Variable<'_>, report: &mut Report<'_>) {
    let mut refuse = |depth: usize, message: String, suggestion: Option<String>| {
        let key = path[..=depth].iter().map(Segment::key).collect::<Vec<_>>();
        report.add(&variable.origin(), &key, message, suggestion);
    };
    let shapes = match shapes_along(shape, path) {
        Ok(shapes) => shapes,
        Err(unknown) => {
            let suggestion = unknown.meant.map(|name| variable.renamed(unknown.depth, name));
            refuse(unknown.depth, unknown.message, suggestion);
            return;
        }
    };
    let mut node = root;
    for (depth, (segment, shape)) in path.iter().zip(&shapes).enumerate() {
        let made = blank(shape);
        let child = match segment {
            Segment::Index(index) if matches!(node.content, Content::List(_)) => {
                match node.item(&variable.origin(), *index, made) {
                    Ok(item) => item,
                    Err(length) => {
                        refuse(depth, format!("there is no item {index}: the list has {length}"), None);
                        return;
                    }
                }
            }
            _ => node.child(&variable.origin(), &segment.key(), made),
        };
        // The file has a value of another type here, which is an error there.
        let Some(child) = child else { return };
        node = child;
    }
    *node = read(variable, shapes.last().unwrap_or(&shape));
}

/// A path that leads nowhere.
struct Unknown<'a> {
    depth: usize,
    message: String,
    /// The key that was probably meant at that depth.
    meant: Option<&'a str>,
}

/// The shape behind each part of a path.
fn shapes_along<'a>(shape: &'a Shape, path: &[Segment]) -> Result<Vec<&'a Shape>, Unknown<'a>> {
    let mut shapes = Vec::with_capacity(path.len());
    let mut shape = shape;
    for (depth, segment) in path.iter().enumerate() {
        let key = segment.key();
        let unknown = |message, meant| Err(Unknown { depth, message, meant });
        shape = match (shape, segment) {
            (Shape::Table(fields), _) => match fields.iter().find(|field| field.name == key) {
                Some(field) => &field.shape,
                None => {
                    let names = fields.iter().map(|field| field.name.as_str());
                    return unknown(format!("unknown key \"{key}\""), nearest(&key, names));
                }
            },
            (Shape::Map(item), _) | (Shape::List(item), Segment::Index(_)) => item,
            (Shape::List(_), Segment::Key(_)) => {
                return unknown(format!("expected the number of an item, found \"{key}\""), None);
            }
            (leaf, _) => {
                let noun = leaf.noun();
                return unknown(format!("unknown key \"{key}\": what stands before it is {noun}"), None);
            }
        };
        shapes.push(shape);
    }
    Ok(shapes)
}

/// What stands at a place before its parts are set.
fn blank(shape: &Shape) -> Content {
    match shape {
        Shape::List(_) => Content::List(Vec::new()),
        _ => Content::Table(Vec::new()),
    }
}

/// The variable's text as a value. Where a string is wanted the text is the string, so that a password of
/// digits stays one; elsewhere it is read as TOML, and a text that is none stays a string for the check.
fn read(variable: &Variable<'_>, shape: &Shape) -> Node {
    let origin = variable.origin();
    let text = || Node { origin: origin.clone(), content: Content::Text(variable.value.to_owned()) };
    let quoted = variable.value.starts_with(['"', '\'']);
    match shape {
        Shape::Secret => return text(),
        Shape::Text(_) | Shape::Word(_) if !quoted => return text(),
        _ => {}
    }
    let Ok(document) = tree::parse(&format!("value = {}", variable.value), &|_| origin.clone()) else {
        return text();
    };
    match document.content {
        // More than one key: the text held a line break and another assignment.
        Content::Table(mut entries) if entries.len() == 1 => {
            entries.pop().map_or_else(text, |entry| entry.node)
        }
        _ => text(),
    }
}

/// The name of the variable that overrides a key.
pub(super) fn variable_name(path: &[&str]) -> String {
    format!("{PREFIX}{}", path.join(SEPARATOR).to_uppercase())
}
