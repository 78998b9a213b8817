//! From texts to a [`Configuration`], or to everything that is wrong with them.

use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use schemars::schema_for;

use super::Configuration;
use super::check::{self, Report};
use super::environment;
use super::expand;
use super::problem::{Place, Problem, Problems};
use super::shape::Shape;
use super::tree::{self, Content, Node, Origin};

/// The largest configuration file, in bytes.
pub const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// What the command line sets; it wins over the file and the environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// `--listen`.
    pub listen: Option<SocketAddr>,
    /// `--data`.
    pub data_directory: Option<PathBuf>,
}

/// Reads a configuration file, or the defaults when none is named, with what the environment and the command
/// line set. `variables` are all variables of the environment, by name and value.
///
/// # Errors
/// Everything that is wrong.
pub fn load(
    file: Option<&Path>,
    variables: &[(String, String)],
    overrides: &Overrides,
) -> Result<Configuration, Problems> {
    let Some(path) = file else { return parse(None, variables, overrides) };
    let whole_file = |message: String, position| {
        let place = Place::File { path: path.to_owned(), position };
        Problems::new(vec![Problem { place, key: String::new(), message, suggestion: None }])
    };
    let bytes = read(path).map_err(|message| whole_file(message, None))?;
    match std::str::from_utf8(&bytes) {
        Ok(text) => parse(Some((path, text)), variables, overrides),
        Err(error) => {
            let valid = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
            let position = tree::line_and_column(&valid, valid.len());
            Err(whole_file("the text is not UTF-8 from here on".to_owned(), Some(position)))
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|error| format!("cannot be read: {}", error.kind()))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(format!("is larger than {MAX_FILE_BYTES} bytes"));
    }
    Ok(bytes)
}

/// The same on a text that is at hand, with the path to name in messages. Only files that the text names for
/// secrets are read.
///
/// # Errors
/// Everything that is wrong.
pub fn parse(
    file: Option<(&Path, &str)>,
    variables: &[(String, String)],
    overrides: &Overrides,
) -> Result<Configuration, Problems> {
    let shape = Shape::of(&schema_for!(Configuration));
    let mut report = Report::new(file);
    let text = file.map_or("", |(_, text)| text);
    let mut root = match tree::parse(text, &Origin::File) {
        Ok(root) => root,
        Err(error) => {
            report.add(&Origin::File(error.offset), &[], error.message, None);
            return Err(Problems::new(report.into_problems()));
        }
    };
    environment::apply(&mut root, &shape, variables, &mut report);
    expand::expand(&mut root, Some(&shape), &mut Vec::new(), variables, &mut report);
    apply_overrides(&mut root, overrides);
    check::check(&root, &shape, &mut report);
    if !report.is_empty() {
        return Err(Problems::new(report.into_problems()));
    }
    let configuration = fill(&root, &mut report);
    for (path, message) in configuration.iter().flat_map(Configuration::problems) {
        report.add_foreign(&root, &path, &message);
    }
    match configuration {
        Some(configuration) if report.is_empty() => Ok(configuration),
        _ => Err(Problems::new(report.into_problems())),
    }
}

/// Fills the structs. What the shape cannot say, a type of its own may still refuse: then the section that does
/// not fit is named.
fn fill(root: &Node, report: &mut Report<'_>) -> Option<Configuration> {
    let error = match serde_json::from_value::<Configuration>(root.to_json()) {
        Ok(configuration) => return Some(configuration),
        Err(error) => error,
    };
    let Content::Table(sections) = &root.content else { return None };
    for section in sections {
        let alone = serde_json::json!({ &section.name: section.node.to_json() });
        if let Err(error) = serde_json::from_value::<Configuration>(alone) {
            report.add_foreign(root, std::slice::from_ref(&section.name), &error.to_string());
        }
    }
    if report.is_empty() {
        report.add_foreign(root, &[], &error.to_string());
    }
    None
}

fn apply_overrides(root: &mut Node, overrides: &Overrides) {
    if let Some(listen) = overrides.listen {
        let origin = Origin::Option("--listen");
        if let Some(server) = root.child(&origin, "server", Content::Table(Vec::new())) {
            set_text(server, "listen", origin, listen.to_string());
        }
    }
    if let Some(directory) = &overrides.data_directory {
        set_text(root, "data_directory", Origin::Option("--data"), directory.to_string_lossy().into_owned());
    }
}

fn set_text(table: &mut Node, name: &str, origin: Origin, text: String) {
    if let Some(node) = table.child(&origin, name, Content::Text(String::new())) {
        *node = Node { origin, content: Content::Text(text) };
    }
}
