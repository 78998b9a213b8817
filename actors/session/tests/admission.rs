//! Limits, and the end of the daemon.

#![allow(dead_code, reason = "each test uses its part of the support")]
#![allow(clippy::unwrap_used, reason = "the support of tests fails as tests do")]

#[path = "support/daemon.rs"]
mod daemon;
#[path = "../../broadcaster/tests/support/memory_log.rs"]
mod memory_log;
#[path = "support/sse.rs"]
mod sse;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use daemon::Daemon;
use freshet_broadcaster::{Backlog, Live};
use freshet_feed::Channels;
use freshet_kernel::{Nursery, task};
use freshet_session::{CloseCode, Config, Sessions};
use memory_log::MemoryLog;
use sse::Client;

#[actix_rt::test]
async fn one_client_too_many_is_told_when_to_come_back() {
    let daemon = Daemon::start(Config { max_sessions: 2, ..Config::default() }).await;
    let mut first = Client::get(daemon.address, "/events", "").await;
    let mut second = Client::get(daemon.address, "/events", "").await;
    first.connected().await;
    second.connected().await;
    let refused = Client::get(daemon.address, "/events", "").await;
    assert_eq!(refused.status(), "503");
    let retry_after: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=5).contains(&retry_after));
    assert_eq!(refused.body().await["code"], "too_many_sessions");
    assert_eq!(daemon.sessions.counters().refused.load(Relaxed), 1);
    assert_eq!(daemon.sessions.counters().closed(CloseCode::InternalError), 0, "it never was open");

    drop(first);
    daemon.until(|daemon| daemon.open_sessions() == 1).await;
    sse::within(async {
        loop {
            let mut third = Client::get(daemon.address, "/events", "").await;
            if third.status() == "200" {
                third.connected().await;
                break;
            }
        }
    })
    .await;
    daemon.publish([1]).await;
    assert_eq!(second.ids(1).await, ["e1"], "the others were not disturbed");
}

#[actix_rt::test]
async fn a_drain_tells_each_client_and_refuses_new_ones() {
    let daemon = Daemon::start(Config { drain_window_secs: 1, ..Config::default() }).await;
    let mut clients = Vec::new();
    for _ in 0..10 {
        let mut client = Client::get(daemon.address, "/events", "").await;
        client.connected().await;
        clients.push(client);
    }
    let sessions = daemon.sessions.clone();
    let drain = task::spawn("drain", async move { sessions.drain().await });
    tokio::task::yield_now().await;
    let refused = Client::get(daemon.address, "/events", "").await;
    assert_eq!(refused.status(), "503");
    assert!(refused.header("retry-after").is_some());
    assert_eq!(refused.body().await["code"], "draining");
    for client in &mut clients {
        let close = client.next().await.unwrap();
        assert_eq!(close.name, "close");
        assert_eq!(close.data, "{\"code\":1012,\"reason\":\"shutting_down\",\"reconnect\":true}");
        assert!(client.parser.retry_millis.is_some());
        assert_eq!(client.next().await, None);
    }
    assert_eq!(drain.await.unwrap(), 0);
    assert_eq!(daemon.sessions.counters().closed(CloseCode::ShuttingDown), 10);
}

#[actix_rt::test]
async fn a_drain_without_clients_ends_at_once() {
    let daemon = Daemon::start(Config { drain_window_secs: 3600, ..Config::default() }).await;
    assert_eq!(sse::within(daemon.sessions.drain()).await, 0);
}

#[actix_rt::test]
async fn before_the_log_could_be_read_nobody_is_served() {
    use actix_web::dev::Service as _;
    use actix_web::{App, HttpMessage, test, web};
    let config = freshet_broadcaster::Config::default();
    let live = Live::new(&config);
    let backlog = Arc::new(Backlog::new(&config, Arc::clone(&live), MemoryLog::new()));
    let sessions =
        Sessions::new(Config::default(), Channels::new(&[]), live, backlog, Nursery::new("session", 1));
    let app = App::new()
        .wrap_fn(|request, next| {
            request.extensions_mut().insert(freshet_feed::Principal::everything());
            next.call(request)
        })
        .app_data(web::Data::new(sessions))
        .service(web::resource("/events").route(web::to(freshet_session::events)));
    let app = test::init_service(app).await;
    let answer = test::call_service(&app, test::TestRequest::get().uri("/events").to_request()).await;
    assert_eq!(answer.status(), 503);
    let body: serde_json::Value = test::read_body_json(answer).await;
    assert_eq!(body["code"], "store_unavailable");
}
