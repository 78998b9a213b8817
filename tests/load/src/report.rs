//! The report as sections of a document.

use std::collections::BTreeSet;
use std::fmt::Write;

use anyhow::{Context, Result};

use crate::bench::{Options, Results};
use crate::laggards_tables::laggards_tables;
use crate::scenario::Scenario;
use crate::tables::{fan_out_tables, hour_tables, idle_tables, slow_tables, stalled_tables, targets_table};

/// A part of the document between two marks. A run replaces those that it has measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Section {
    /// What the daemon is to reach.
    Targets,
    /// Events to clients that read at once.
    FanOut,
    /// Clients and no events.
    Idle,
    /// One slow client in a hundred.
    Slow,
    /// Memory over an hour's worth of events.
    Hour,
    /// A third of the clients stops reading.
    Stalled,
    /// Clients beside the others that do not keep up.
    Laggards,
}

impl Section {
    /// What stands before the section.
    #[must_use]
    pub fn begin(self) -> String {
        format!("<!-- {}: begin -->", self.name())
    }

    /// What stands behind it.
    #[must_use]
    pub fn end(self) -> String {
        format!("<!-- {}: end -->", self.name())
    }

    fn name(self) -> &'static str {
        match self {
            Self::Targets => "targets",
            Self::FanOut => "fan-out",
            Self::Idle => "idle connections",
            Self::Slow => "slow clients",
            Self::Hour => "an hour of events",
            Self::Stalled => "stalled clients",
            Self::Laggards => "laggards",
        }
    }

    /// The sections that rows like these fill.
    #[must_use]
    pub fn of(rows: &[Scenario]) -> BTreeSet<Self> {
        rows.iter()
            .flat_map(|row| match row {
                Scenario::FanOut(_) => vec![Self::Targets, Self::FanOut],
                Scenario::Idle { .. } => vec![Self::Idle],
                Scenario::Slow(_) => vec![Self::Slow],
                Scenario::Hour { .. } => vec![Self::Hour],
                Scenario::Stalled { .. } => vec![Self::Stalled],
                Scenario::Laggards(_) => vec![Self::Laggards],
            })
            .collect()
    }
}

/// How the figures came about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Circumstances {
    /// The command line.
    pub command: String,
    /// The machine and the date.
    pub machine: String,
    /// Name and version of each server that was measured.
    pub versions: Vec<String>,
}

/// The sections that a run has filled, in Markdown.
#[must_use]
pub fn sections(
    circumstances: &Circumstances,
    options: &Options,
    results: &Results,
) -> Vec<(Section, String)> {
    Section::of(&options.rows)
        .into_iter()
        .map(|section| {
            let mut text = introduction(circumstances);
            text.push_str(&match section {
                Section::Targets => targets_table(results),
                Section::FanOut => fan_out_tables(results, options.event_bytes, options.repeat),
                Section::Idle => idle_tables(results, options.repeat),
                Section::Slow => slow_tables(results, options.repeat),
                Section::Hour => hour_tables(results),
                Section::Stalled => stalled_tables(results),
                Section::Laggards => laggards_tables(results),
            });
            (section, text)
        })
        .collect()
}

fn introduction(circumstances: &Circumstances) -> String {
    let Circumstances { command, machine, versions } = circumstances;
    let mut text = String::new();
    // Writing to a text cannot fail.
    let _ = writeln!(text, "Machine: {machine}. Servers: {}.\n\n    {command}\n", versions.join("; "));
    text
}

/// The document with new texts in these sections; all else stays as it is.
///
/// # Errors
/// When the document has not both marks of a section in their order.
pub fn replace_sections<'a>(
    document: &str,
    sections: impl IntoIterator<Item = (Section, &'a str)>,
) -> Result<String> {
    sections.into_iter().try_fold(document.to_owned(), |document, (section, text)| {
        let (begin, end) = (section.begin(), section.end());
        let (before, rest) =
            document.split_once(&begin).with_context(|| format!("the document has no {begin}"))?;
        let (_, after) = rest.split_once(&end).with_context(|| format!("no {end} follows its beginning"))?;
        Ok(format!("{before}{begin}\n\n{}\n\n{end}{after}", text.trim()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_sections_between_their_marks_change() {
        let [idle, slow] = [Section::Idle, Section::Slow];
        let document = format!(
            "# Title\n{}\nold\n{}\nwords\n{}\nold\n{}\nmore\n",
            slow.begin(),
            slow.end(),
            idle.begin(),
            idle.end()
        );
        let replaced = replace_sections(&document, [(idle, "new\n")]).unwrap();
        assert!(
            replaced.ends_with(&format!("{}\n\nnew\n\n{}\nmore\n", idle.begin(), idle.end())),
            "{replaced}"
        );
        assert!(replaced.starts_with(&format!("# Title\n{}\nold\n{}\nwords\n", slow.begin(), slow.end())));
        assert_eq!(replace_sections(&replaced, [(idle, "new")]).unwrap(), replaced);
        let both = replace_sections(&document, [(idle, "1"), (slow, "2")]).unwrap();
        assert!(!both.contains("old"), "{both}");
    }

    #[test]
    fn a_document_without_the_marks_in_their_order_is_refused() {
        let idle = Section::Idle;
        for document in [String::new(), idle.begin(), format!("{}{}", idle.end(), idle.begin())] {
            assert!(replace_sections(&document, [(idle, "new")]).is_err(), "{document}");
        }
    }

    #[test]
    fn rows_fill_the_sections_of_their_kinds() {
        let of = |rows: &[&str]| {
            let rows: Vec<Scenario> = rows.iter().map(|row| row.parse().unwrap()).collect();
            Section::of(&rows).into_iter().collect::<Vec<_>>()
        };
        assert_eq!(of(&["10@1", "10@2"]), [Section::Targets, Section::FanOut]);
        assert_eq!(
            of(&["9@1+laggards", "9@stalled", "9@hour", "100@1+slow", "9@idle"]),
            [Section::Idle, Section::Slow, Section::Hour, Section::Stalled, Section::Laggards]
        );
    }
}
