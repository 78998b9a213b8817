//! A real Chromium watches the feed while the daemon is stopped, killed and started again.

mod support;

#[path = "browser/chromium.rs"]
mod chromium;

use chromium::{Chromium, Page};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use support::daemon::{Daemon, Home, freshet};
use support::service::free_port;

const PAGES: usize = 3;
/// How many events a daemon gets before it ends, and the next one at once.
const EVENTS: usize = 40;

/// Browsers are back before the daemon has ended, while others are still being closed.
const DRAIN: &str = "[sessions]\nretry_min_millis = 100\nretry_max_millis = 500\ndrain_window_secs = 2\n";

/// The same daemon each time: its port, its data.
fn start(home: &Home, port: u16) -> Daemon {
    let mut command = freshet();
    command.arg("run").arg("--config").arg(home.path().join("freshet.toml"));
    command.arg("--listen").arg(format!("127.0.0.1:{port}")).arg("--data").arg(home.data());
    Daemon::start(command)
}

/// Publishes the numbered events one by one, as commits come.
async fn publish(daemon: &Daemon, numbers: std::ops::Range<usize>) {
    for number in numbers {
        let (status, answer) = daemon.post("application/json", support::event(number).1).await;
        assert_eq!((status, &answer["accepted"]), (200, &1.into()), "{answer}");
    }
}

/// The page sees exactly these events next, each once and in their order; how often it opened its stream meanwhile.
async fn sees(browser: &mut Chromium, page: &Page, numbers: std::ops::Range<usize>) -> usize {
    let mut opened = 0;
    let mut expected = numbers.clone();
    while !expected.is_empty() {
        let report = browser.report(page).await;
        if report["opened"].is_u64() {
            opened += 1;
        } else if !report["closed"].is_u64() {
            let number = expected.next().expect("it is not empty");
            assert_eq!(report["event"], support::event(number).0, "event {number} of {numbers:?}: {report}");
        }
    }
    opened
}

/// Pages run the script while the daemon is stopped and then killed, each time with events on their way.
async fn recovers(script: &str, arguments: Value) {
    let home = Home::new(DRAIN);
    let port = free_port();
    let mut daemon = start(&home, port);
    let mut browser = Chromium::start();
    let mut pages = Vec::new();
    for _ in 0..PAGES {
        // Any page of the daemon will do: the script needs its origin.
        let page = browser.open(&format!("{}/livez", daemon.url)).await;
        browser.run(&page, script, &arguments).await;
        assert_eq!(browser.report(&page).await["opened"], 1);
        pages.push(page);
    }

    let mut seen = 0;
    let mut published = 0;
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        publish(&daemon, published..published + EVENTS).await;
        published += EVENTS;
        for page in &pages {
            let half = seen..published - EVENTS / 2;
            assert_eq!(sees(&mut browser, page, half).await, 0, "nothing is opened anew without a reason");
        }
        seen = published - EVENTS / 2;
        match signal {
            Signal::SIGTERM => assert_eq!(daemon.terminate().await.code(), Some(0)),
            _ => daemon.kill(),
        }
        daemon = start(&home, port);
        // Whether these are stored before a page is back or after: they come all the same.
        publish(&daemon, published..published + EVENTS).await;
        published += EVENTS;
        for page in &pages {
            assert!(sees(&mut browser, page, seen..published).await >= 1, "it came back by itself");
        }
        seen = published;
    }
    publish(&daemon, published..published + 1).await;
    for page in &pages {
        assert_eq!(sees(&mut browser, page, published..published + 1).await, 0, "nothing came twice");
    }
}

#[tokio::test]
async fn event_source_of_a_browser_recovers_through_a_stop_and_a_kill() {
    recovers(include_str!("browser/event_source.js"), json!({"path": "/events"})).await;
}

#[tokio::test]
async fn web_socket_of_a_browser_recovers_through_a_stop_and_a_kill() {
    let arguments = json!({
        "path": "/ws", "channel": "iceberg", "shortestWaitMillis": 100, "longestWaitMillis": 500,
    });
    recovers(include_str!("browser/web_socket.js"), arguments).await;
}
