//! The life of the daemon: configuration, stores, port, tree, signals, and the order of its end.

use std::io;
use std::path::Path;
use std::time::Duration;

use freshet_event_log::{DirectoryLock, OpenError};
use freshet_kernel::{ExitReason, Tree};
use freshet_session::Sessions;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::cli::Answer;
use crate::config::{self, Configuration, Overrides};
use crate::exit_code::ExitCode;
use crate::lifecycle::Lifecycle;
use crate::listen::{self, ListenError};
use crate::open_files;
use crate::telemetry;
use crate::tree::{self, BuildError, Plan};

/// What may end the daemon before it serves.
#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error("the data directory {0} cannot be created: {1}")]
    DataDirectory(String, #[source] io::Error),
    #[error(transparent)]
    Lock(OpenError),
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error(transparent)]
    Store(#[from] BuildError),
    #[error("signals cannot be received: {0}")]
    Signals(#[source] io::Error),
}

impl StartError {
    fn exit_code(&self) -> ExitCode {
        match self {
            Self::DataDirectory(..) => ExitCode::CannotCreate,
            Self::Lock(OpenError::InUse { .. }) => ExitCode::InUse,
            Self::Store(BuildError::SharedLog(_) | BuildError::Identity(_)) => ExitCode::Configuration,
            Self::Lock(_) | Self::Store(_) => ExitCode::Store,
            Self::Listen(_) => ExitCode::CannotListen,
            Self::Signals(_) => ExitCode::GaveUp,
        }
    }
}

/// Which feed the daemon runs with besides its sources.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Feed {
    /// The sources of the configuration only.
    Configured,
    /// The demo's too.
    Demo,
}

/// Runs the daemon until it ends, and gives the code to exit with.
pub fn run(
    file: Option<&Path>,
    overrides: &Overrides,
    variables: &[(String, String)],
    feed: Feed,
) -> ExitCode {
    let configuration = match config::load(file, variables, overrides) {
        Ok(configuration) => configuration,
        Err(problems) => return Answer::bad_configuration(&problems).print(),
    };
    if let Err(error) = telemetry::start(&configuration.log) {
        return refuse(ExitCode::Configuration, &error);
    }
    freshet_kernel::install_panic_hook();
    open_files::prepare(configuration.sessions.max_sessions);
    let system = actix_rt::System::new();
    let code = system.block_on(async move {
        match serve(&configuration, feed).await {
            Ok(code) => code,
            Err(error) => refuse(error.exit_code(), &error),
        }
    });
    // Dropping it would wait without limit for a name that is being resolved or a disk that hangs. Everything that
    // had to end has ended, and the process is next.
    std::mem::forget(system);
    code
}

/// Says why the daemon does not start, in plain words and not as a log line: a person reads it then.
fn refuse(code: ExitCode, error: &dyn std::error::Error) -> ExitCode {
    let text = format!("freshet: {error}\n");
    Answer { code, output: String::new(), error: text }.print()
}

async fn serve(configuration: &Configuration, feed: Feed) -> Result<ExitCode, StartError> {
    let directory = &configuration.data_directory;
    std::fs::create_dir_all(directory)
        .map_err(|error| StartError::DataDirectory(directory.display().to_string(), error))?;
    let lock = DirectoryLock::acquire(directory).map_err(StartError::Lock)?;
    let socket = listen::listen(configuration.server.listen)?;
    let address = socket.local_addr().unwrap_or(configuration.server.listen);

    let lifecycle = Lifecycle::default();
    let Plan { root, sessions } = tree::build(configuration, feed, &lock, socket, &lifecycle)?;
    // Until here a signal does what it does to every process: nothing is at stake yet, and a long check of a large
    // log must not make the daemon deaf.
    let mut signals = Signals::new().map_err(StartError::Signals)?;
    let tree = freshet_kernel::start(root);
    lifecycle.started(&tree);
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        %address,
        data = %directory.display(),
        "listening"
    );

    tokio::select! {
        reason = tree.wait() => {
            tracing::error!(?reason, "the tree gave up");
            Ok(ExitCode::GaveUp)
        }
        name = signals.next() => {
            tracing::info!(signal = name, "stopping");
            Ok(stop(configuration, &lifecycle, &sessions, &tree, &mut signals).await)
        }
    }
}

/// Stops in the order that loses nothing: no new clients, the present ones are sent elsewhere over a window, then the
/// tree from its sources to its stores. A second signal ends the process at once.
async fn stop(
    configuration: &Configuration,
    lifecycle: &Lifecycle,
    sessions: &Sessions,
    tree: &Tree,
    signals: &mut Signals,
) -> ExitCode {
    lifecycle.drain();
    sessions.refuse_new();
    let gently = async {
        tokio::time::sleep(Duration::from_secs(configuration.server.drain_delay_secs)).await;
        let remaining = sessions.drain().await;
        if remaining > 0 {
            tracing::info!(remaining, "clients that do not read are cut off");
        }
        tree.shutdown().await
    };
    tokio::select! {
        report = gently => {
            for actor in &report.hung {
                tracing::error!(%actor, "an actor did not stop in time and was killed");
            }
            match report.reason {
                ExitReason::Shutdown | ExitReason::Normal => ExitCode::Ok,
                _ => ExitCode::GaveUp,
            }
        }
        name = signals.next() => {
            tracing::warn!(signal = name, "a second signal, stopping at once");
            ExitCode::Interrupted
        }
    }
}

/// The signals that ask the daemon to stop.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// The next one. Cancel safe: a signal that is not taken stays for the next call.
    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
