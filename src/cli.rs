//! The command line.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand};

use crate::config::{self, Overrides, Problems};
use crate::exit_code::ExitCode;

/// Live feeds and searchable history of what happens in data systems.
#[derive(Clone, Debug, PartialEq, Eq, Parser)]
#[command(name = "freshet", version, arg_required_else_help = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum Command {
    /// Run the daemon
    Run {
        /// The configuration file; without it every option has its default
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// What the command line sets.
        #[command(flatten)]
        common: CommonOptions,
    },
    /// Run the daemon with its defaults and a live demo feed; needs no service and no network
    Demo {
        /// What the command line sets.
        #[command(flatten)]
        common: CommonOptions,
    },
    /// Check a configuration file and name everything that is wrong with it
    Check {
        /// The configuration file
        file: PathBuf,
    },
    /// Print every option with its documentation and default
    #[command(hide = true)]
    Reference {
        /// Print it as Markdown instead of TOML
        #[arg(long)]
        markdown: bool,
    },
}

/// Options that override the file and the environment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub struct CommonOptions {
    /// The IP address and port to listen on, such as 127.0.0.1:8080
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<SocketAddr>,
    /// The directory that holds everything that lasts
    #[arg(long, value_name = "DIR", value_parser = text_path)]
    pub data: Option<PathBuf>,
}

/// A path that is text, as every option of the configuration is: another one would silently become a different path.
fn text_path(text: &str) -> Result<PathBuf, std::convert::Infallible> {
    Ok(PathBuf::from(text))
}

impl From<CommonOptions> for Overrides {
    fn from(options: CommonOptions) -> Self {
        Self { listen: options.listen, data_directory: options.data }
    }
}

/// What a command says at its end: a code, and texts for the two standard streams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The exit code.
    pub code: ExitCode,
    /// For standard output.
    pub output: String,
    /// For standard error.
    pub error: String,
}

impl Answer {
    fn ok(output: String) -> Self {
        Self { code: ExitCode::Ok, output, error: String::new() }
    }

    /// What is said about a bad configuration: a line for each problem.
    #[must_use]
    pub fn bad_configuration(problems: &Problems) -> Self {
        Self { code: ExitCode::Configuration, output: String::new(), error: format!("{problems}\n") }
    }

    /// Prints the texts and gives the code. A stream that is closed is no reason to fail.
    #[must_use]
    pub fn print(&self) -> ExitCode {
        use std::io::Write;
        let _closed = std::io::stdout().write_all(self.output.as_bytes());
        let _closed = std::io::stderr().write_all(self.error.as_bytes());
        self.code
    }
}

/// Reads the command line, its first argument being the name of the program.
///
/// # Errors
/// With the answer to give: help and version with code 0, or what is wrong with code 64.
pub fn parse(arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> Result<Cli, Answer> {
    Cli::try_parse_from(arguments).map_err(|error| {
        let text = error.render().to_string();
        match error.use_stderr() {
            true => Answer { code: ExitCode::Usage, output: String::new(), error: text },
            false => Answer::ok(text),
        }
    })
}

/// The environment by name and value. Bytes that are not Unicode become replacement characters, so that a variable
/// is never left out in silence.
#[must_use]
pub fn environment() -> Vec<(String, String)> {
    let text = |text: OsString| text.to_string_lossy().into_owned();
    std::env::vars_os().map(|(name, value)| (text(name), text(value))).collect()
}

/// `freshet check FILE`: everything that is wrong with the file in this environment.
#[must_use]
pub fn check(file: &Path, variables: &[(String, String)]) -> Answer {
    match config::load(Some(file), variables, &Overrides::default()) {
        Ok(_) => Answer::ok("ok\n".to_owned()),
        Err(problems) => Answer::bad_configuration(&problems),
    }
}

/// `freshet reference`: every option, as a TOML file or as Markdown.
#[must_use]
pub fn reference(markdown: bool) -> Answer {
    Answer::ok(if markdown { config::reference_markdown() } else { config::reference() })
}
