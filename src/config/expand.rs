//! `${VARIABLE}` in any string, and `file:/path` in secrets.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::check::Report;
use super::shape::Shape;
use super::tree::{Content, Node};

/// The largest file that a secret is read from, in bytes.
pub const MAX_SECRET_FILE_BYTES: u64 = 64 * 1024;
const FILE_PREFIX: &str = "file:";

/// Replaces what is to be replaced in every string of the document. Texts that came from elsewhere are told to
/// the report, which hides them in whatever is printed later.
pub(super) fn expand(
    node: &mut Node,
    shape: Option<&Shape>,
    path: &mut Vec<String>,
    variables: &[(String, String)],
    report: &mut Report<'_>,
) {
    match &mut node.content {
        Content::Text(text) => {
            let secret = matches!(shape, Some(Shape::Secret));
            if secret {
                report.hide(text, "[redacted]");
            }
            // Asked of the text as written: a variable whose value begins so is a password of that form.
            let names_a_file = secret && text.starts_with(FILE_PREFIX);
            let result = substitute(text, variables, report).and_then(|value| match names_a_file {
                true => read_secret(Path::new(&value[FILE_PREFIX.len()..])),
                false => Ok(value),
            });
            match result {
                Ok(value) => {
                    if secret {
                        report.hide(&value, "[redacted]");
                    }
                    *text = value;
                }
                Err(message) => {
                    report.add(&node.origin, path, message, None);
                    node.content = Content::Broken;
                }
            }
        }
        Content::List(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                let index = index.to_string();
                let item_shape = shape.and_then(|shape| shape.at(&[&index]));
                path.push(index);
                expand(item, item_shape, path, variables, report);
                path.pop();
            }
        }
        Content::Table(entries) => {
            for entry in entries {
                let item_shape = shape.and_then(|shape| shape.at(&[&entry.name]));
                path.push(entry.name.clone());
                expand(&mut entry.node, item_shape, path, variables, report);
                path.pop();
            }
        }
        Content::Integer(_)
        | Content::Float(_)
        | Content::Boolean(_)
        | Content::DateTime
        | Content::Broken => {}
    }
}

/// The text with each `${NAME}` replaced by the variable's value, and `$${` by `${`. What was put in is not
/// looked at again.
fn substitute(text: &str, variables: &[(String, String)], report: &mut Report<'_>) -> Result<String, String> {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        if rest[..start].ends_with('$') {
            result.push_str(&rest[..start]);
            result.push('{');
            rest = &rest[start + 2..];
            continue;
        }
        result.push_str(&rest[..start]);
        let after = &rest[start + 2..];
        let (name, remainder) = after
            .split_once('}')
            .filter(|(name, _)| is_variable_name(name))
            .ok_or("\"${\" begins no variable: write ${NAME}, or $${ for the two characters themselves")?;
        let value = variables
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value)
            .ok_or_else(|| format!("environment variable {name} is not set"))?;
        report.hide(value, &format!("${{{name}}}"));
        result.push_str(value);
        rest = remainder;
    }
    result.push_str(rest);
    Ok(result)
}

fn is_variable_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

/// The text of the file without the line break at its end. The path is not part of the message: it may itself
/// hold the value of a variable.
fn read_secret(path: &Path) -> Result<String, String> {
    let unreadable = |error: io::Error| format!("the file of the secret cannot be read: {}", error.kind());
    let mut text = String::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(MAX_SECRET_FILE_BYTES + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > MAX_SECRET_FILE_BYTES {
        return Err(format!("the file of the secret is larger than {MAX_SECRET_FILE_BYTES} bytes"));
    }
    let without_line_break =
        text.strip_suffix('\n').map_or(text.as_str(), |line| line.strip_suffix('\r').unwrap_or(line));
    Ok(without_line_break.to_owned())
}
