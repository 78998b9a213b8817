//! The servers that are measured, as processes of their own.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

/// The daemon's configuration when none is given.
const CONFIGURATION: &str = include_str!("../freshet.toml");
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Longer than the daemon's own shutdown takes.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// How much of a log is shown when its server fails.
const SHOWN_LOG_BYTES: usize = 2000;

/// What can be measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Server {
    /// The plain loop of `send()`.
    Floor,
    /// The daemon.
    Freshet {
        /// Its executable file.
        binary: PathBuf,
        /// Its configuration file, when not the one for benchmarks.
        configuration: Option<PathBuf>,
    },
}

impl Server {
    /// Its name in the tables.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Floor => "floor",
            Self::Freshet { .. } => "freshet",
        }
    }

    fn command(&self, address: SocketAddr, directory: &Path) -> Result<Command> {
        let mut command = match self {
            Self::Floor => {
                let mut command = Command::new(std::env::current_exe()?);
                command.arg("floor");
                command
            }
            Self::Freshet { binary, configuration } => {
                let configuration = match configuration {
                    Some(path) => path.clone(),
                    None => {
                        let path = directory.join("freshet.toml");
                        std::fs::write(&path, CONFIGURATION)?;
                        path
                    }
                };
                let mut command = Command::new(binary);
                command.arg("run").arg("--config").arg(configuration);
                command.arg("--data").arg(directory.join("data"));
                // Nothing of the caller's environment configures what is measured.
                for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("FRESHET__")) {
                    command.env_remove(name);
                }
                command
            }
        };
        command.arg("--listen").arg(address.to_string());
        Ok(command)
    }
}

/// A server that this process has started. Dropping it kills it, and nothing else.
#[derive(Debug)]
pub struct ServerProcess {
    child: Child,
    address: SocketAddr,
    directory: TempDir,
}

impl ServerProcess {
    /// Starts a server with an empty data directory on a free port of the loopback interface, and returns when
    /// it accepts connections.
    ///
    /// # Errors
    /// When it does not start; the end of its log is in the error.
    pub fn start(server: &Server) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let log = File::create(directory.path().join("log"))?;
        let child = server
            .command(address, directory.path())?
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("{} cannot be started", server.name()))?;
        let mut process = Self { child, address, directory };
        let started = Instant::now();
        while TcpStream::connect_timeout(&address, LOOK_AGAIN).is_err() {
            if let Some(status) = process.child.try_wait()? {
                bail!("{} ended with {status}:\n{}", server.name(), process.end_of_log());
            }
            if started.elapsed() > START_TIMEOUT {
                bail!("{} does not listen:\n{}", server.name(), process.end_of_log());
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        Ok(process)
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its process id.
    #[must_use]
    pub fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// The end of what it has written.
    #[must_use]
    pub fn end_of_log(&self) -> String {
        let log = std::fs::read(self.directory.path().join("log")).unwrap_or_default();
        String::from_utf8_lossy(&log[log.len().saturating_sub(SHOWN_LOG_BYTES)..]).into_owned()
    }

    /// Asks it to end (SIGTERM) and waits until it has.
    ///
    /// # Errors
    /// When it does not end within a minute; it is killed then.
    pub fn terminate(mut self) -> Result<()> {
        kill(Pid::from_raw(i32::try_from(self.child.id())?), Signal::SIGTERM)?;
        let asked = Instant::now();
        while self.child.try_wait()?.is_none() {
            if asked.elapsed() > STOP_TIMEOUT {
                bail!("the server does not end:\n{}", self.end_of_log());
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        Ok(())
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_ends_at_once_is_reported_and_not_waited_for() {
        let server = Server::Freshet { binary: "/bin/false".into(), configuration: None };
        let error = ServerProcess::start(&server).unwrap_err();
        assert!(error.to_string().starts_with("freshet ended with exit status: 1"), "{error}");
    }
}
