//! The daemon as a process of its own.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, mpsc};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::PATIENCE;

/// A running daemon. Dropping it kills it.
pub struct Daemon {
    child: Child,
    /// `http://127.0.0.1:PORT`
    pub url: String,
    log: Arc<Mutex<Vec<String>>>,
}

/// Where a daemon keeps its data between its lives, and what it is told.
pub struct Home {
    directory: tempfile::TempDir,
    configuration: PathBuf,
}

impl Home {
    /// A fresh home with the given configuration.
    pub fn new(configuration: &str) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("freshet.toml");
        std::fs::write(&path, configuration).expect("the configuration is written");
        Self { directory, configuration: path }
    }

    /// The data directory.
    pub fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// The directory of the home.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The command that runs a daemon here.
    pub fn command(&self) -> Command {
        let mut command = freshet();
        command.arg("run").arg("--config").arg(&self.configuration);
        command.arg("--listen").arg("127.0.0.1:0").arg("--data").arg(self.data());
        command
    }

    /// Starts a daemon and waits until it listens.
    pub fn start(&self) -> Daemon {
        Daemon::start(self.command())
    }
}

/// The binary under test.
pub fn freshet() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_freshet"));
    // Nothing of the caller's environment configures the daemon under test.
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("FRESHET__")) {
        command.env_remove(name);
    }
    command
}

impl Daemon {
    /// Starts the command and waits until it says where it listens.
    pub fn start(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the daemon starts");
        let lines = BufReader::new(child.stderr.take().expect("its log is piped")).lines();
        let log = Arc::new(Mutex::new(Vec::new()));
        let (listening, address) = mpsc::sync_channel(1);
        let kept = Arc::clone(&log);
        std::thread::Builder::new()
            .name("daemon-log".to_owned())
            .spawn(move || {
                for line in lines.map_while(Result::ok) {
                    if let Ok(entry) = serde_json::from_str::<serde_json::Value>(&line)
                        && entry["message"] == "listening"
                        && let Some(address) = entry["address"].as_str()
                    {
                        let _ = listening.try_send(address.to_owned());
                    }
                    kept.lock().expect("the log is whole").push(line);
                }
            })
            .expect("a thread reads its log");
        match address.recv_timeout(PATIENCE) {
            Ok(address) => Self { child, url: format!("http://{address}"), log },
            Err(_) => {
                let _ = child.kill();
                panic!("the daemon did not listen:\n{}", log.lock().expect("the log is whole").join("\n"));
            }
        }
    }

    /// The lines of its log so far.
    pub fn log(&self) -> Vec<String> {
        self.log.lock().expect("the log is whole").clone()
    }

    /// Its process id.
    pub fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.child.id()).expect("a process id");
        kill(Pid::from_raw(id), signal).expect("the signal is sent");
    }

    /// `kill -9`, and waits until it is gone.
    pub fn kill(mut self) {
        self.signal(Signal::SIGKILL);
        self.child.wait().expect("it ends");
    }

    /// SIGTERM, and waits until it has ended.
    pub async fn terminate(mut self) -> ExitStatus {
        self.signal(Signal::SIGTERM);
        self.ended().await
    }

    /// Waits until it has ended.
    pub async fn ended(&mut self) -> ExitStatus {
        let child = &mut self.child;
        super::eventually("the daemon ends", || {
            let status = child.try_wait().expect("its status can be asked");
            async move { status }
        })
        .await
    }

    /// GET, as JSON.
    pub async fn json(&self, path: &str) -> serde_json::Value {
        let (status, text) = self.get(path).await;
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {status} {error}: {text}"))
    }

    /// GET: status and text.
    pub async fn get(&self, path: &str) -> (u16, String) {
        let response = reqwest::get(format!("{}{path}", self.url)).await.expect("it answers");
        (response.status().as_u16(), response.text().await.expect("the answer arrives"))
    }

    /// POST of events: status and answer.
    pub async fn post(&self, content_type: &str, body: impl Into<reqwest::Body>) -> (u16, serde_json::Value) {
        let response = reqwest::Client::new()
            .post(format!("{}/api/v2/events", self.url))
            .header("Content-Type", content_type)
            .body(body)
            .send()
            .await
            .expect("it answers");
        let status = response.status().as_u16();
        let text = response.text().await.expect("the answer arrives");
        (status, serde_json::from_str(&text).unwrap_or_else(|error| panic!("{status} {error}: {text}")))
    }

    /// Every event of the history, oldest first, as (event id, exact text of the event).
    pub async fn history(&self) -> Vec<(String, String)> {
        #[derive(serde::Deserialize)]
        struct Entry<'a> {
            #[serde(borrow)]
            event: &'a serde_json::value::RawValue,
        }
        #[derive(serde::Deserialize)]
        struct Page<'a> {
            #[serde(borrow)]
            events: Vec<Entry<'a>>,
            next: Option<String>,
        }
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Id {
            event_id: String,
        }
        let mut events = Vec::new();
        let mut cursor = None::<String>;
        loop {
            let after = cursor.map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
            let (status, text) = self.get(&format!("/api/v2/events?limit=1000{after}")).await;
            assert_eq!(status, 200, "{text}");
            let page: Page<'_> = serde_json::from_str(&text).expect("a page");
            for entry in page.events {
                let id: Id = serde_json::from_str(entry.event.get()).expect("an event");
                events.push((id.event_id, entry.event.get().to_owned()));
            }
            match page.next {
                Some(next) => cursor = Some(next),
                None => break,
            }
        }
        events.reverse();
        events
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
