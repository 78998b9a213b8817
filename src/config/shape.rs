//! What a configuration may look like: the JSON schema of [`Configuration`](super::Configuration), read into a
//! form that is easy to walk. The schema itself comes from the structs and their doc comments.

use schemars::Schema;
use serde_json::{Map, Value};

/// What a value may be.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Shape {
    /// A table with known keys.
    Table(Vec<Field>),
    /// A table whose keys are free.
    Map(Box<Shape>),
    /// A list of values of one shape.
    List(Box<Shape>),
    /// A text that must not be printed.
    Secret,
    /// A text of the given kind.
    Text(TextKind),
    /// One of some words.
    Word(Vec<Word>),
    /// A whole number, with its bounds, both included.
    Integer {
        minimum: i64,
        maximum: i64,
    },
    Number,
    Boolean,
    /// A part of the schema that this module does not know. A test keeps the configuration free of it.
    Unknown(String),
}

/// Texts that must have a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextKind {
    Any,
    /// An IP address and a port: `127.0.0.1:8080`.
    SocketAddress,
}

/// A key of a table.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Field {
    pub name: String,
    /// The doc comment, lines as written.
    pub description: String,
    pub required: bool,
    pub shape: Shape,
}

/// One of the words of an enum.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Word {
    pub name: String,
    pub description: String,
}

impl Shape {
    /// The shape of a whole schema.
    pub(super) fn of(schema: &Schema) -> Self {
        let root = schema.as_value();
        let definitions = root.get("$defs").and_then(Value::as_object);
        Reader { definitions }.shape(root)
    }

    /// The shape at a path of keys and list indices.
    pub(super) fn at<'a>(&'a self, path: &[&str]) -> Option<&'a Shape> {
        let Some((first, rest)) = path.split_first() else { return Some(self) };
        match self {
            Self::Table(fields) => fields.iter().find(|field| field.name == *first)?.shape.at(rest),
            Self::Map(item) => item.at(rest),
            Self::List(item) => item.at(rest),
            _ => None,
        }
    }

    /// What a person calls it, with its article.
    pub(super) fn noun(&self) -> String {
        match self {
            Self::Table(_) | Self::Map(_) => "a table".into(),
            Self::List(item) if matches!(**item, Self::Table(_)) => "a list of tables".into(),
            Self::List(_) => "a list".into(),
            Self::Secret => "a string".into(),
            Self::Text(_) => "a string".into(),
            Self::Word(words) => {
                let names: Vec<String> = words.iter().map(|word| format!("\"{}\"", word.name)).collect();
                format!("one of {}", names.join(", "))
            }
            Self::Integer { .. } => "an integer".into(),
            Self::Number => "a number".into(),
            Self::Boolean => "true or false".into(),
            Self::Unknown(_) => "a value".into(),
        }
    }
}

struct Reader<'a> {
    definitions: Option<&'a Map<String, Value>>,
}

impl Reader<'_> {
    fn shape(&self, schema: &Value) -> Shape {
        if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
            let name = target.trim_start_matches("#/$defs/");
            return match self.definitions.and_then(|definitions| definitions.get(name)) {
                Some(definition) => self.shape(definition),
                None => Shape::Unknown(target.to_owned()),
            };
        }
        if let Some(alternatives) = schema.get("anyOf").or(schema.get("oneOf")).and_then(Value::as_array) {
            return self.alternatives(alternatives);
        }
        if let Some(words) = schema.get("enum").and_then(Value::as_array) {
            return Shape::Word(words.iter().filter_map(|name| word(name, "")).collect());
        }
        match kind(schema) {
            Some("object") => self.object(schema),
            Some("array") => match schema.get("items") {
                Some(items) => Shape::List(Box::new(self.shape(items))),
                None => Shape::Unknown(schema.to_string()),
            },
            Some("string") => match schema.get("format").and_then(Value::as_str) {
                Some("secret") => Shape::Secret,
                Some("socket-address") => Shape::Text(TextKind::SocketAddress),
                _ => Shape::Text(TextKind::Any),
            },
            Some("integer") => integer(schema),
            Some("number") => Shape::Number,
            Some("boolean") => Shape::Boolean,
            _ => Shape::Unknown(schema.to_string()),
        }
    }

    /// An `Option` is `anyOf [shape, null]`; an enum with doc comments is `oneOf` constants and plain enums.
    fn alternatives(&self, alternatives: &[Value]) -> Shape {
        let present: Vec<&Value> =
            alternatives.iter().filter(|alternative| kind(alternative) != Some("null")).collect();
        if let [only] = present.as_slice() {
            return self.shape(only);
        }
        let mut words = Vec::new();
        for alternative in &present {
            if let Some(constant) = alternative.get("const") {
                let description = alternative.get("description").and_then(Value::as_str).unwrap_or_default();
                words.extend(word(constant, description));
            } else if let Some(names) = alternative.get("enum").and_then(Value::as_array) {
                words.extend(names.iter().filter_map(|name| word(name, "")));
            } else {
                return Shape::Unknown(Value::from(alternatives.to_vec()).to_string());
            }
        }
        Shape::Word(words)
    }

    fn object(&self, schema: &Value) -> Shape {
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
            return match schema.get("additionalProperties") {
                Some(values @ Value::Object(_)) => Shape::Map(Box::new(self.shape(values))),
                _ => Shape::Table(Vec::new()),
            };
        };
        let required = schema.get("required").and_then(Value::as_array);
        let fields = properties.iter().map(|(name, property)| Field {
            name: name.clone(),
            description: self.description(property),
            required: required.is_some_and(|required| required.iter().any(|known| known == name)),
            shape: self.shape(property),
        });
        Shape::Table(fields.collect())
    }

    /// The field's own doc comment, else the one of its type.
    fn description(&self, property: &Value) -> String {
        let own = property.get("description").and_then(Value::as_str);
        let of_type = || {
            let target = property.get("$ref").or_else(|| property.get("items")?.get("$ref"))?.as_str()?;
            let definition = self.definitions?.get(target.trim_start_matches("#/$defs/"))?;
            definition.get("description")?.as_str()
        };
        own.or_else(of_type).unwrap_or_default().to_owned()
    }
}

fn word(name: &Value, description: &str) -> Option<Word> {
    Some(Word { name: name.as_str()?.to_owned(), description: description.to_owned() })
}

/// The type that is not null.
fn kind(schema: &Value) -> Option<&str> {
    match schema.get("type")? {
        Value::String(name) => Some(name),
        Value::Array(names) => names.iter().filter_map(Value::as_str).find(|name| *name != "null"),
        _ => None,
    }
}

/// The bounds that the schema names, within those of the Rust type and of TOML's 64-bit integers.
fn integer(schema: &Value) -> Shape {
    let of_type = match schema.get("format").and_then(Value::as_str) {
        Some("uint8") => (0, i64::from(u8::MAX)),
        Some("uint16") => (0, i64::from(u16::MAX)),
        Some("uint32") => (0, i64::from(u32::MAX)),
        Some("uint" | "uint64" | "uint128") => (0, i64::MAX),
        Some("int8") => (i64::from(i8::MIN), i64::from(i8::MAX)),
        Some("int16") => (i64::from(i16::MIN), i64::from(i16::MAX)),
        Some("int32") => (i64::from(i32::MIN), i64::from(i32::MAX)),
        _ => (i64::MIN, i64::MAX),
    };
    let bound = |name: &str| schema.get(name).and_then(Value::as_i64);
    Shape::Integer {
        minimum: bound("minimum").map_or(of_type.0, |minimum| minimum.max(of_type.0)),
        maximum: bound("maximum").map_or(of_type.1, |maximum| maximum.min(of_type.1)),
    }
}

#[cfg(test)]
mod tests {
    use schemars::schema_for;

    use super::*;
    use crate::config::Configuration;

    fn unknown(shape: &Shape, path: &str, found: &mut Vec<String>) {
        match shape {
            Shape::Table(fields) => {
                for field in fields {
                    unknown(&field.shape, &format!("{path}.{}", field.name), found);
                }
            }
            Shape::Map(item) | Shape::List(item) => unknown(item, path, found),
            Shape::Unknown(schema) => found.push(format!("{path}: {schema}")),
            _ => {}
        }
    }

    #[test]
    fn every_part_of_the_configuration_is_understood() {
        let shape = Shape::of(&schema_for!(Configuration));
        let mut found = Vec::new();
        unknown(&shape, "", &mut found);
        assert_eq!(found, Vec::<String>::new());
        assert_eq!(shape.at(&["stomp", "0", "passcode"]), Some(&Shape::Secret));
        assert_eq!(shape.at(&["server", "listen"]), Some(&Shape::Text(TextKind::SocketAddress)));
        assert_eq!(shape.at(&["server", "listen", "port"]), None);
    }

    #[test]
    fn optional_values_maps_and_plain_enums_have_the_shape_of_what_they_hold() {
        #[derive(schemars::JsonSchema)]
        #[expect(dead_code, reason = "only its schema is looked at")]
        struct Example {
            required: u8,
            optional: Option<i32>,
            tuned: Option<Tuned>,
            labels: std::collections::BTreeMap<String, bool>,
            plain: Option<Plain>,
        }
        #[derive(schemars::JsonSchema)]
        #[expect(dead_code, reason = "only its schema is looked at")]
        struct Tuned {
            ratio: f64,
        }
        #[derive(schemars::JsonSchema)]
        #[expect(dead_code, reason = "only its schema is looked at")]
        enum Plain {
            One,
            Two,
        }
        let shape = Shape::of(&schema_for!(Example));
        let Shape::Table(fields) = &shape else { panic!("no table") };
        let required: Vec<&str> =
            fields.iter().filter(|field| field.required).map(|field| field.name.as_str()).collect();
        assert_eq!(required, ["labels", "required"]);
        assert_eq!(shape.at(&["required"]), Some(&Shape::Integer { minimum: 0, maximum: 255 }));
        let optional = Shape::Integer { minimum: i64::from(i32::MIN), maximum: i64::from(i32::MAX) };
        assert_eq!(shape.at(&["optional"]), Some(&optional));
        assert_eq!(shape.at(&["tuned", "ratio"]), Some(&Shape::Number));
        assert_eq!(shape.at(&["labels", "any"]), Some(&Shape::Boolean));
        assert!(matches!(shape.at(&["plain"]), Some(Shape::Word(words)) if words.len() == 2));
    }
}
