//! Where log lines go and what they look like.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::time::SystemTime;

use crate::config::{LogConfig, LogFormat};

/// Sends the log to standard error: for people on a terminal, as JSON lines otherwise, unless the
/// configuration names one of the two.
///
/// # Errors
/// When the level is no filter that `tracing` understands.
pub fn start(config: &LogConfig) -> Result<(), tracing_subscriber::filter::ParseError> {
    let filter = EnvFilter::try_new(&config.level)?;
    let human = match config.format {
        LogFormat::Auto => io::stderr().is_terminal(),
        LogFormat::Human => true,
        LogFormat::Json => false,
    };
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_timer(SystemTime)
        .with_ansi(human && io::stderr().is_terminal());
    // A second start in one process, as tests do, keeps the first one's subscriber.
    let _already_started =
        if human { builder.try_init() } else { builder.json().flatten_event(true).try_init() };
    Ok(())
}
