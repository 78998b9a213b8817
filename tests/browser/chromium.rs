//! A headless Chromium, driven by its DevTools protocol: JSON messages that end with a NUL, over a pair of pipes.
//!
//! A story opens pages, runs a script of this folder in each, and reads what the scripts report. Nothing but
//! Chromium itself is needed for it; `CHROMIUM` names its program where it is not called `chromium`.

use std::collections::{HashMap, VecDeque};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::support::PATIENCE;

/// Chromium takes its pipes as the files 3 and 4; its own output is of no interest.
const WITH_PIPES: &str = r#"exec "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1"#;
const ARGUMENTS: [&str; 12] = [
    "--headless",
    "--remote-debugging-pipe",
    // The tests may run as root, where Chromium's sandbox does not start; they visit this machine only.
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--no-proxy-server",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    // Containers have little shared memory.
    "--disable-dev-shm-usage",
    "about:blank",
];
/// Messages of Chromium that may wait for the story; then Chromium waits.
const MESSAGES: usize = 1024;
/// How long Chromium may take to end when it is told to.
const FAREWELL: Duration = Duration::from_secs(5);

/// A running browser with a profile of its own. Dropping it ends it.
pub struct Chromium {
    child: Child,
    commands: ChildStdin,
    messages: mpsc::Receiver<Value>,
    /// What pages reported while something else was awaited, by session.
    reported: HashMap<String, VecDeque<Value>>,
    sent: u64,
    _profile: tempfile::TempDir,
}

/// A page of the browser.
pub struct Page {
    session: String,
}

impl Chromium {
    /// Starts a browser that has never been anywhere.
    pub fn start() -> Self {
        let profile = tempfile::tempdir().expect("a temporary directory");
        let program = std::env::var("CHROMIUM").unwrap_or_else(|_| "chromium".to_owned());
        let mut child = Command::new("sh")
            .args(["-c", WITH_PIPES, "sh", &program])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .args(ARGUMENTS)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell starts");
        let commands = child.stdin.take().expect("its input is piped");
        let output = BufReader::new(child.stdout.take().expect("its output is piped"));
        let (arrived, messages) = mpsc::channel(MESSAGES);
        std::thread::Builder::new()
            .name("chromium".to_owned())
            .spawn(move || {
                for message in output.split(0).map_while(Result::ok) {
                    let message = serde_json::from_slice(&message).expect("Chromium speaks JSON");
                    if arrived.blocking_send(message).is_err() {
                        return;
                    }
                }
            })
            .expect("a thread reads its messages");
        Self { child, commands, messages, reported: HashMap::new(), sent: 0, _profile: profile }
    }

    /// Opens a page and waits until it has loaded.
    pub async fn open(&mut self, url: &str) -> Page {
        let target = self.call(None, "Target.createTarget", json!({"url": "about:blank"})).await;
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let attached = self.call(None, "Target.attachToTarget", attach).await;
        let session = attached["sessionId"].as_str().expect("a session").to_owned();
        let page = Page { session };
        self.call(Some(&page), "Runtime.enable", json!({})).await;
        self.call(Some(&page), "Runtime.addBinding", json!({"name": "report"})).await;
        let answer = self.call(Some(&page), "Page.navigate", json!({"url": url})).await;
        assert_eq!(answer["errorText"], Value::Null, "{url}");
        let origin = reqwest::Url::parse(url).expect("a URL").origin().ascii_serialization();
        let loaded = format!(
            "new Promise((done) => {{
                const look = () => document.readyState === 'complete' && location.origin === {}
                    ? done() : setTimeout(look, 10);
                look();
            }})",
            json!(origin)
        );
        self.evaluate(&page, &loaded).await;
        page
    }

    /// Calls a script, which is a function, with its arguments. What it passes to `report` is JSON for the story.
    pub async fn run(&mut self, page: &Page, script: &str, arguments: &Value) {
        self.evaluate(page, &format!("void (\n{script}\n)({arguments})")).await;
    }

    /// The next report of the page.
    pub async fn report(&mut self, page: &Page) -> Value {
        let awaited = async {
            loop {
                if let Some(report) = self.reported.get_mut(&page.session).and_then(VecDeque::pop_front) {
                    return report;
                }
                self.receive().await;
            }
        };
        tokio::time::timeout(PATIENCE, awaited).await.expect("the page reports in time")
    }

    async fn evaluate(&mut self, page: &Page, expression: &str) {
        let parameters = json!({"expression": expression, "awaitPromise": true});
        let answer = self.call(Some(page), "Runtime.evaluate", parameters).await;
        assert_eq!(answer["exceptionDetails"], Value::Null, "{expression}");
    }

    /// Sends a command, to a page or to the browser, and waits for its result.
    async fn call(&mut self, page: Option<&Page>, method: &str, parameters: Value) -> Value {
        self.sent += 1;
        let number = self.sent;
        let mut command = json!({"id": number, "method": method, "params": parameters});
        if let Some(page) = page {
            command["sessionId"] = page.session.as_str().into();
        }
        let mut bytes = command.to_string().into_bytes();
        bytes.push(0);
        self.commands.write_all(&bytes).expect("Chromium is there; tests/install installs it");
        let answered = async {
            loop {
                if let Some(answer) = self.receive().await
                    && answer["id"] == number
                {
                    return answer;
                }
            }
        };
        let mut answer = tokio::time::timeout(PATIENCE, answered).await.expect("Chromium answers in time");
        assert_eq!(answer["error"], Value::Null, "{method}");
        answer["result"].take()
    }

    /// Takes one message: a report is kept for its page, an answer is given back.
    async fn receive(&mut self) -> Option<Value> {
        let message = self.messages.recv().await.expect("Chromium runs; tests/install installs it");
        if message["method"] != "Runtime.bindingCalled" {
            return Some(message);
        }
        let session = message["sessionId"].as_str().expect("a session").to_owned();
        let report = message["params"]["payload"].as_str().expect("a text");
        let report = serde_json::from_str(report).expect("reports are JSON");
        self.reported.entry(session).or_default().push_back(report);
        None
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        let _ = self.commands.write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        // The reading thread must not wait for a story that is over.
        self.messages.close();
        let deadline = Instant::now() + FAREWELL;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        // Its children share its group, which is ended as a whole lest one of them stays.
        if let Ok(group) = i32::try_from(self.child.id()) {
            let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
        }
        let _ = self.child.wait();
    }
}
