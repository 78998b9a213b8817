//! What is wrong with a configuration, and where.

use std::fmt;
use std::path::PathBuf;

/// Where a value of the configuration was written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// In a file.
    File {
        /// The file's path, as it was named.
        path: PathBuf,
        /// Line and column, both from 1, the column in characters; `None` when the whole file is meant.
        position: Option<(usize, usize)>,
    },
    /// In an environment variable of this name.
    Variable(String),
    /// In a command line option of this name.
    Option(&'static str),
    /// Nowhere: the value is a default.
    Defaults,
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, position: Some((line, column)) } => {
                write!(formatter, "{}:{line}:{column}", path.display())
            }
            Self::File { path, position: None } => write!(formatter, "{}", path.display()),
            Self::Variable(name) => formatter.write_str(name),
            Self::Option(name) => formatter.write_str(name),
            Self::Defaults => formatter.write_str("defaults"),
        }
    }
}

/// One thing that is wrong. Its text never shows a secret.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Where it is.
    pub place: Place,
    /// The path of the key, joined by dots: `stomp.0.login`; empty when no key is meant.
    pub key: String,
    /// What is wrong, in a sentence without a full stop.
    pub message: String,
    /// What may have been meant.
    pub suggestion: Option<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.place, self.message)?;
        if let Some(suggestion) = &self.suggestion {
            write!(formatter, ", did you mean \"{suggestion}\"?")?;
        }
        Ok(())
    }
}

/// Everything that is wrong, at least one thing, in the order of the file. It prints one line for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// Takes what was found, sorts it by place, and drops what was found twice.
    #[must_use]
    pub(super) fn new(mut found: Vec<Problem>) -> Self {
        found.sort();
        found.dedup();
        Self(found)
    }

    /// Each problem.
    #[must_use]
    pub fn as_slice(&self) -> &[Problem] {
        &self.0
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            if index > 0 {
                formatter.write_str("\n")?;
            }
            write!(formatter, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// The candidate that `word` most likely means, if one is near enough: at most a third of the letters differ.
pub(super) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word_length = word.chars().count();
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(word, candidate), candidate))
        .filter(|(distance, candidate)| {
            let longer = word_length.max(candidate.chars().count());
            *distance <= longer.div_ceil(3)
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_error_finds_its_word_and_another_word_finds_none() {
        let words = ["listen", "workers", "max_connections"];
        assert_eq!(nearest("lisen", words), Some("listen"));
        assert_eq!(nearest("max_conections", words), Some("max_connections"));
        assert_eq!(nearest("wrokers", words), Some("workers"));
        assert_eq!(nearest("colour", words), None);
        assert_eq!(nearest("", words), None);
    }

    #[test]
    fn problems_stand_in_the_order_of_the_file() {
        let at = |line, column| Problem {
            place: Place::File { path: "x.toml".into(), position: Some((line, column)) },
            key: String::new(),
            message: "wrong".into(),
            suggestion: None,
        };
        let problems = Problems::new(vec![at(10, 1), at(9, 2), at(9, 11), at(9, 2)]);
        assert_eq!(problems.to_string(), "x.toml:9:2: wrong\nx.toml:9:11: wrong\nx.toml:10:1: wrong");
    }
}
