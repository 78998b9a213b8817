//! The exit codes of the daemon, in one catalogue. The numbers are those of BSD's `sysexits.h`, which service managers
//! know by name, and that of shells for a process that a signal interrupted.

use std::process;

/// Why the process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitCode {
    /// Stopped as asked, everything flushed; or the command did what it should.
    Ok = 0,
    /// The command line was wrong.
    Usage = 64,
    /// The address cannot be listened on.
    CannotListen = 69,
    /// The supervision tree gave up.
    GaveUp = 70,
    /// The data directory cannot be created.
    CannotCreate = 73,
    /// The store cannot be read or written.
    Store = 74,
    /// Another instance uses the data directory.
    InUse = 75,
    /// The configuration is wrong.
    Configuration = 78,
    /// A second signal ended it at once.
    Interrupted = 130,
}

impl ExitCode {
    /// The whole catalogue.
    pub const ALL: [Self; 9] = [
        Self::Ok,
        Self::Usage,
        Self::CannotListen,
        Self::GaveUp,
        Self::CannotCreate,
        Self::Store,
        Self::InUse,
        Self::Configuration,
        Self::Interrupted,
    ];

    /// The number.
    #[must_use]
    pub fn number(self) -> u8 {
        self as u8
    }

    /// The name of the number in `sysexits.h`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "EX_OK",
            Self::Usage => "EX_USAGE",
            Self::CannotListen => "EX_UNAVAILABLE",
            Self::GaveUp => "EX_SOFTWARE",
            Self::CannotCreate => "EX_CANTCREAT",
            Self::Store => "EX_IOERR",
            Self::InUse => "EX_TEMPFAIL",
            Self::Configuration => "EX_CONFIG",
            Self::Interrupted => "SIGINT",
        }
    }

    /// What it means and what to do, as the operator's documentation says it.
    #[must_use]
    pub fn docs(self) -> &'static str {
        match self {
            Self::Ok => "Stopped as asked with everything flushed, or the command did what it should.",
            Self::Usage => "The command line is wrong; standard error says how.",
            Self::CannotListen => {
                "The address cannot be listened on, most often because another process uses the port. Stop it, or \
                 choose another address with `--listen`."
            }
            Self::GaveUp => {
                "The supervision tree gave up: a part failed more often than its restart intensity allows. The log \
                 names it; start again, and report it when it returns."
            }
            Self::CannotCreate => {
                "The data directory cannot be created. Check the path and who may write there, or choose another \
                 with `--data`."
            }
            Self::Store => {
                "The files in the data directory cannot be read or written, or are damaged. The log names the file; \
                 check the disk, or restore the directory."
            }
            Self::InUse => {
                "Another instance uses the data directory. Stop it, or give this one a directory of its own with \
                 `--data`. Trying again later is right when the other one is about to stop."
            }
            Self::Configuration => {
                "The configuration is wrong. Standard error names every problem with its place; `freshet check FILE` \
                 does the same without starting."
            }
            Self::Interrupted => {
                "A second signal ended it at once, without waiting for clients. What was acknowledged is on disk."
            }
        }
    }
}

impl From<ExitCode> for process::ExitCode {
    fn from(code: ExitCode) -> Self {
        Self::from(code.number())
    }
}

/// The catalogue as a table in Markdown, for the operator's documentation.
#[must_use]
pub fn table() -> String {
    let mut table = String::from("| code | name | meaning |\n|---|---|---|\n");
    for code in ExitCode::ALL {
        table.push_str(&format!("| {} | `{}` | {} |\n", code.number(), code.name(), code.docs()));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers as `sysexits.h` has them.
    #[test]
    fn numbers_are_those_that_service_managers_know() {
        let numbers = ExitCode::ALL.map(|code| (code.name(), code.number()));
        assert_eq!(
            numbers,
            [
                ("EX_OK", 0),
                ("EX_USAGE", 64),
                ("EX_UNAVAILABLE", 69),
                ("EX_SOFTWARE", 70),
                ("EX_CANTCREAT", 73),
                ("EX_IOERR", 74),
                ("EX_TEMPFAIL", 75),
                ("EX_CONFIG", 78),
                ("SIGINT", 130),
            ]
        );
    }

    #[test]
    fn the_table_has_a_line_for_each_code() {
        let table = table();
        for code in ExitCode::ALL {
            assert_eq!(table.matches(&format!("\n| {} | `{}` | ", code.number(), code.name())).count(), 1);
        }
    }
}
