//! A newcomer reads the documentation and follows its links; an operator looks a code up and finds it.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use freshet::exit_code::ExitCode;
use freshet_feed::rejection::RejectionCode;
use freshet_session::CloseCode;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Every page of the repository, build artefacts and hidden folders left out.
fn pages() -> Vec<PathBuf> {
    let mut pages = Vec::new();
    let mut folders = vec![PathBuf::from(ROOT)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            if path.is_dir()
                && !name.starts_with('.')
                && !["target", "node_modules", "data"].contains(&&*name)
            {
                folders.push(path);
            } else if name.ends_with(".md") {
                pages.push(path);
            }
        }
    }
    pages
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The text without its code blocks.
fn prose(text: &str) -> String {
    let mut in_code = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        } else if !in_code {
            lines.push(line);
        }
    }
    lines.join("\n")
}

/// The targets of `[text](target)`.
fn links(text: &str) -> Vec<String> {
    prose(text)
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target.split(' ').next().unwrap_or_default().to_owned())
        .collect()
}

/// The anchors of the headings, as repository hosts make them: lower case, spaces to hyphens, and of the other
/// characters only letters, digits, hyphens and underscores.
fn anchors(text: &str) -> HashSet<String> {
    let headings = prose(text);
    let headings = headings.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|line| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            let kept =
                title.chars().filter(|character| character.is_alphanumeric() || " -_".contains(*character));
            kept.map(|character| if character == ' ' { '-' } else { character }).collect()
        })
        .collect()
}

#[test]
fn links_and_anchors_are_found() {
    let text = "# A b: `c`\n[x](y.md#a-b-c)\n```\n# no\n[no](no)\n```\n![i](z.png)";
    assert_eq!(links(text), ["y.md#a-b-c", "z.png"]);
    assert_eq!(anchors(text), HashSet::from(["a-b-c".to_owned()]));
}

#[test]
fn every_relative_link_leads_somewhere() {
    let pages = pages();
    assert!(pages.iter().any(|page| page.ends_with("README.md")), "the pages are found");
    for page in pages {
        for link in links(&read(&page)) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (path, anchor) =
                link.split_once('#').map_or((&*link, None), |(path, anchor)| (path, Some(anchor)));
            let target =
                if path.is_empty() { page.clone() } else { page.parent().expect("a folder").join(path) };
            assert!(target.exists(), "{}: {link}", page.display());
            if let Some(anchor) = anchor {
                assert!(anchors(&read(&target)).contains(anchor), "{}: {link}", page.display());
            }
        }
    }
}

#[test]
fn the_readme_starts_with_two_commands() {
    let readme = read(&Path::new(ROOT).join("README.md"));
    let block = readme.split("```").nth(1).expect("a code block");
    let commands: Vec<_> =
        block.lines().skip(1).filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    assert_eq!(commands, ["cargo run --release -- demo", "tests/run"]);
}

#[test]
fn every_reason_to_refuse_an_event_is_documented() {
    let page = read(&Path::new(ROOT).join("docs/wire-contracts.md"));
    for code in RejectionCode::ALL {
        assert!(page.contains(&format!("| `{code}` |")), "docs/wire-contracts.md has no line for {code}");
    }
}

#[test]
fn every_exit_code_is_documented_as_it_is() {
    let page = read(&Path::new(ROOT).join("docs/operations.md"));
    for code in ExitCode::ALL {
        let line = format!("| {} | `{}` | {} |", code.number(), code.name(), code.docs());
        assert!(page.contains(&line), "docs/operations.md has no line: {line}");
    }
}

#[test]
fn every_close_code_is_documented_for_clients_and_for_operators() {
    for page in ["docs/wire-contracts.md", "docs/operations.md"] {
        let text = read(&Path::new(ROOT).join(page));
        for code in CloseCode::ALL {
            let line = format!("| {} | `{}` |", code.number(), code.reason());
            assert!(text.contains(&line), "{page} has no line for {line}");
        }
    }
}
