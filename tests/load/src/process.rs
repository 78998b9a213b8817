//! The servers that are measured, as processes of their own.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::server::{Product, Server, Transport};
use crate::system::{Memory, group_cpu_seconds, group_memory};

/// Configurations of the servers, and the code of those in Node.js.
const FRESHET_CONFIGURATION: &str = include_str!("../freshet.toml");
const NGINX_CONFIGURATION: &str = include_str!("../peers/nginx.conf");
const CENTRIFUGO_CONFIGURATION: &str = include_str!("../peers/centrifugo.json");
const NODE_SSE: &str = include_str!("../peers/sse.js");
const NODE_WEBSOCKET: &str = include_str!("../peers/websocket.js");

const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Longer than the daemon's own shutdown takes.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// How much of a log is shown when its server fails.
const SHOWN_LOG_BYTES: usize = 2000;

/// Where the servers' programs are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Programs {
    /// The daemon's executable file, when it is to be measured.
    pub freshet: Option<PathBuf>,
    /// The daemon's configuration file, when not the one for benchmarks.
    pub freshet_configuration: Option<PathBuf>,
    /// Where `tests/load/peers/install` has put the other servers.
    pub peers: PathBuf,
}

impl Programs {
    /// Why a server cannot be measured here, with what is to be done about it; `None` when it is there.
    #[must_use]
    pub fn absence(&self, product: Product) -> Option<String> {
        match product {
            Product::Floor => None,
            Product::Freshet if self.freshet.is_some() => None,
            Product::Freshet => Some("absent: give its executable file with `--freshet`".to_owned()),
            Product::Nchan | Product::Centrifugo | Product::Node => {
                let name = peer_name(product);
                let is_there = self.peers.join(format!("{name}.version")).exists();
                (!is_there).then(|| format!("absent: run `tests/load/peers/install {name}`"))
            }
        }
    }

    /// Name and version of what is measured; of the floor, what it is.
    ///
    /// # Errors
    /// When it is absent, or does not say.
    pub fn version(&self, product: Product) -> Result<String> {
        let text = match (product, &self.freshet) {
            (Product::Floor, _) => "floor: a loop of `send()`".to_owned(),
            (Product::Freshet, Some(binary)) => {
                let output = Command::new(binary).arg("--version").output()?;
                String::from_utf8(output.stdout)?
            }
            (Product::Freshet, None) => bail!("no executable file is given"),
            (Product::Nchan | Product::Centrifugo | Product::Node, _) => {
                let path = self.peers.join(format!("{}.version", peer_name(product)));
                fs::read_to_string(&path).with_context(|| path.display().to_string())?
            }
        };
        Ok(text.trim().to_owned())
    }

    fn command(&self, server: Server, address: SocketAddr, directory: &Path) -> Result<Command> {
        let write = |name: &str, text: &str| {
            let path = directory.join(name);
            fs::write(&path, text).with_context(|| path.display().to_string())?;
            Ok::<_, anyhow::Error>(path)
        };
        Ok(match server.product {
            Product::Floor => {
                let mut command = Command::new(std::env::current_exe()?);
                command.arg("floor").arg("--listen").arg(address.to_string());
                command
            }
            Product::Freshet => {
                let binary = self.freshet.as_ref().context("no executable file is given")?;
                let configuration = match &self.freshet_configuration {
                    Some(path) => path.clone(),
                    None => write("freshet.toml", FRESHET_CONFIGURATION)?,
                };
                let mut command = Command::new(binary);
                command.arg("run").arg("--config").arg(configuration);
                command.arg("--data").arg(directory.join("data"));
                command.arg("--listen").arg(address.to_string());
                // Nothing of the caller's environment configures what is measured.
                for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("FRESHET__")) {
                    command.env_remove(name);
                }
                command
            }
            Product::Nchan => {
                let configuration = NGINX_CONFIGURATION
                    .replace("@PEERS@", &self.peers.display().to_string())
                    .replace("@DIRECTORY@", &directory.display().to_string())
                    .replace("@ADDRESS@", &address.to_string());
                let mut command = Command::new(self.peers.join("nchan/usr/sbin/nginx"));
                command.arg("-p").arg(directory).arg("-e").arg(directory.join("log"));
                command.arg("-c").arg(write("nginx.conf", &configuration)?);
                command
            }
            Product::Centrifugo => {
                let configuration = CENTRIFUGO_CONFIGURATION
                    .replace("@HOST@", &address.ip().to_string())
                    .replace("@PORT@", &address.port().to_string());
                let mut command = Command::new(self.peers.join("bin/centrifugo"));
                command.arg("--config").arg(write("centrifugo.json", &configuration)?);
                command
            }
            Product::Node => {
                let code = match server.transport {
                    Transport::Sse => NODE_SSE,
                    Transport::WebSocket => NODE_WEBSOCKET,
                };
                let mut command = Command::new("node");
                command.env("NODE_PATH", self.peers.join("node/node_modules")).env("NODE_ENV", "production");
                command.arg(write("server.js", code)?).arg(address.to_string());
                command
            }
        })
    }
}

fn peer_name(product: Product) -> &'static str {
    match product {
        Product::Freshet => "freshet",
        Product::Floor => "floor",
        Product::Nchan => "nchan",
        Product::Centrifugo => "centrifugo",
        Product::Node => "node",
    }
}

/// A server that this process has started, with its workers. Dropping it kills them, and nothing else.
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
    pub fn start(server: Server, programs: &Programs) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let log = File::options().create(true).append(true).open(directory.path().join("log"))?;
        let child = programs
            .command(server, address, directory.path())?
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            // A group of its own, so that its workers are known and end with it.
            .process_group(0)
            .spawn()
            .with_context(|| format!("{server} cannot be started"))?;
        let mut process = Self { child, address, directory };
        let started = Instant::now();
        while TcpStream::connect_timeout(&address, LOOK_AGAIN).is_err() {
            if let Some(status) = process.child.try_wait()? {
                bail!("{server} ended with {status}:\n{}", process.end_of_log());
            }
            ensure!(started.elapsed() < START_TIMEOUT, "{server} does not listen:\n{}", process.end_of_log());
            std::thread::sleep(LOOK_AGAIN);
        }
        Ok(process)
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// CPU seconds that it and its workers have used so far.
    ///
    /// # Errors
    /// When it has ended.
    pub fn cpu_seconds(&self) -> Result<f64> {
        group_cpu_seconds(self.child.id())
    }

    /// Memory of it and its workers.
    ///
    /// # Errors
    /// When it has ended.
    pub fn memory(&self) -> Result<Memory> {
        group_memory(self.child.id())
    }

    /// The end of what it has written.
    #[must_use]
    pub fn end_of_log(&self) -> String {
        let log = fs::read(self.directory.path().join("log")).unwrap_or_default();
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
            ensure!(asked.elapsed() < STOP_TIMEOUT, "the server does not end:\n{}", self.end_of_log());
            std::thread::sleep(LOOK_AGAIN);
        }
        Ok(())
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // All of these fail only when it has ended already, and no number is used again before the wait.
        if let (Ok(None), Ok(group)) = (self.child.try_wait(), i32::try_from(self.child.id())) {
            let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
            let _ = self.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn programs(peers: &Path) -> Programs {
        Programs { freshet: Some("/bin/false".into()), freshet_configuration: None, peers: peers.to_owned() }
    }

    #[test]
    fn a_server_that_ends_at_once_is_reported_and_not_waited_for() {
        let server = Server { product: Product::Freshet, transport: Transport::Sse };
        let error = ServerProcess::start(server, &programs(Path::new("/nowhere"))).unwrap_err();
        assert!(error.to_string().starts_with("freshet-sse ended with exit status: 1"), "{error}");
    }

    #[test]
    fn what_is_absent_is_told_with_the_way_to_install_it() {
        let peers = tempfile::tempdir().unwrap();
        fs::write(peers.path().join("node.version"), "Node.js v20, ws 8\n").unwrap();
        let programs = programs(peers.path());
        assert_eq!(programs.absence(Product::Node), None);
        assert_eq!(programs.version(Product::Node).unwrap(), "Node.js v20, ws 8");
        assert_eq!(programs.absence(Product::Freshet), None);
        assert_eq!(programs.absence(Product::Nchan).unwrap(), "absent: run `tests/load/peers/install nchan`");
        let without_daemon = Programs { freshet: None, ..programs };
        assert!(without_daemon.absence(Product::Freshet).unwrap().contains("--freshet"));
    }

    #[test]
    fn a_killed_server_takes_its_workers_with_it() {
        let mut child = Command::new("sh").args(["-c", "sleep 600 & wait"]).process_group(0).spawn().unwrap();
        let group = child.id();
        while group_cpu_seconds(group).is_err() {
            assert_eq!(child.try_wait().unwrap(), None);
        }
        let process = ServerProcess {
            child,
            address: (Ipv4Addr::LOCALHOST, 0).into(),
            directory: tempfile::tempdir().unwrap(),
        };
        drop(process);
        // Whoever adopts the worker takes its exit code soon.
        let dropped = Instant::now();
        while group_memory(group).is_ok() {
            assert!(dropped.elapsed() < START_TIMEOUT);
            std::thread::yield_now();
        }
    }
}
