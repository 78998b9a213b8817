//! Every option with its default, in the order of the structs: what the two references print.

use schemars::schema_for;

use super::Configuration;
use super::shape::{Field, Shape};
use super::tree::{self, Content, Node, Origin};

/// A section: the keys before the first header, a table, or a list of tables.
pub(super) struct Section {
    /// The keys that lead to it; empty for the top of the file.
    pub path: Vec<String>,
    /// Whether it stands in a list of tables, so that it is an example and not a default.
    pub in_list: bool,
    /// Whether it is itself the list of tables, and begins with `[[path]]`.
    pub is_list: bool,
    /// The doc comment.
    pub description: String,
    /// Its options, without nested sections.
    pub options: Vec<DocumentedOption>,
}

/// An option as a person reads about it.
pub(super) struct DocumentedOption {
    pub name: String,
    pub description: String,
    pub shape: Shape,
    /// The default as TOML; `None` when it is not set by default.
    pub default: Option<String>,
}

/// All sections.
pub(super) fn sections() -> Vec<Section> {
    let shape = Shape::of(&schema_for!(Configuration));
    // Serde gives the keys in the order of the structs, which the schema does not keep. That the defaults can be
    // written as TOML is tested: the reference would be empty.
    let text = toml_edit::ser::to_string(&Configuration::example()).unwrap_or_default();
    let mut sections = Vec::new();
    if let (Ok(root), Shape::Table(fields)) = (tree::parse(&text, &Origin::File), &shape) {
        let top = Section {
            path: Vec::new(),
            in_list: false,
            is_list: false,
            description: String::new(),
            options: Vec::new(),
        };
        collect(top, fields, Some(&root), &mut sections);
    }
    sections
}

fn collect(mut section: Section, fields: &[Field], node: Option<&Node>, sections: &mut Vec<Section>) {
    let mut nested = Vec::new();
    for (field, value) in in_order(fields, node) {
        let child = |is_list: bool| Section {
            path: section.path.iter().cloned().chain([field.name.clone()]).collect(),
            in_list: section.in_list || is_list,
            is_list,
            description: field.description.clone(),
            options: Vec::new(),
        };
        let item_of_list = match (&field.shape, value.map(|value| &value.content)) {
            (Shape::List(item), Some(Content::List(items))) => Some((&**item, items.first())),
            _ => None,
        };
        match (&field.shape, item_of_list) {
            (Shape::Table(inner), _) => nested.push((child(false), inner, value)),
            (Shape::List(_), Some((Shape::Table(inner), item))) => nested.push((child(true), inner, item)),
            _ => section.options.push(DocumentedOption {
                name: field.name.clone(),
                description: field.description.clone(),
                shape: field.shape.clone(),
                default: value.map(|value| match field.shape {
                    // Printing hides even an empty secret.
                    Shape::Secret => "\"\"".to_owned(),
                    _ => toml(value),
                }),
            }),
        }
    }
    sections.push(section);
    for (section, fields, node) in nested {
        collect(section, fields, node, sections);
    }
}

/// The fields with their values, in the order of the values; fields that are not set come last.
fn in_order<'a>(fields: &'a [Field], node: Option<&'a Node>) -> Vec<(&'a Field, Option<&'a Node>)> {
    let entries = match node.map(|node| &node.content) {
        Some(Content::Table(entries)) => entries.as_slice(),
        _ => &[],
    };
    let mut ordered: Vec<(usize, &Field, Option<&Node>)> = fields
        .iter()
        .map(|field| match entries.iter().position(|entry| entry.name == field.name) {
            Some(index) => (index, field, Some(&entries[index].node)),
            None => (usize::MAX, field, None),
        })
        .collect();
    ordered.sort_by_key(|(index, ..)| *index);
    ordered.into_iter().map(|(_, field, value)| (field, value)).collect()
}

/// A value as TOML.
fn toml(node: &Node) -> String {
    match &node.content {
        Content::Text(text) => toml_edit::Value::from(text.as_str()).to_string(),
        Content::Integer(integer) => integer.to_string(),
        Content::Float(float) => toml_edit::Value::from(*float).to_string(),
        Content::Boolean(boolean) => boolean.to_string(),
        // No default is one of these.
        Content::DateTime | Content::Broken => String::new(),
        Content::List(items) => format!("[{}]", items.iter().map(toml).collect::<Vec<_>>().join(", ")),
        Content::Table(entries) => {
            let pairs = entries.iter().map(|entry| format!("{} = {}", entry.name, toml(&entry.node)));
            let pairs = pairs.collect::<Vec<_>>().join(", ");
            if pairs.is_empty() { "{}".to_owned() } else { format!("{{ {pairs} }}") }
        }
    }
}

/// Doc comments as paragraphs: lines that belong together are joined.
pub(super) fn paragraphs(text: &str) -> Vec<String> {
    text.split("\n\n")
        .map(|paragraph| paragraph.split_whitespace().collect::<Vec<_>>().join(" "))
        .filter(|paragraph| !paragraph.is_empty())
        .collect()
}
