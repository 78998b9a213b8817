//! A dashboard behind nginx as Debian ships it: default buffering, and compression for everything.

mod support;

use std::collections::HashMap;

use support::daemon::Home;
use support::service::Service;
use support::sse::Client;

#[tokio::test]
async fn events_pass_nginx_at_once_compressed_or_not() {
    let home = Home::new("");
    let daemon = home.start();
    let upstream = daemon.url.strip_prefix("http://").expect("an address");
    let proxy = Service::nginx(upstream);
    let url = format!("http://127.0.0.1:{}/events", proxy.port);
    for (visit, accepted) in ["gzip, br", "identity"].into_iter().enumerate() {
        let headers = HashMap::from([("Accept-Encoding", accepted)]);
        let mut dashboard = Client::connect_with(&url, &headers).await;
        assert_eq!(dashboard.next().await.expect("the first byte comes at once").kind, "connected");
        for number in 0..3 {
            let (event_id, body) = support::event(visit * 10 + number);
            let (status, answer) = daemon.post("application/json", body.clone()).await;
            assert_eq!((status, &answer["accepted"]), (200, &1.into()), "{answer}");
            let shown = dashboard.next_commit().await;
            assert_eq!((shown.last_event_id, shown.data), (event_id, body));
        }
    }
}

#[tokio::test]
async fn the_feed_asks_proxies_to_pass_it_on() {
    let home = Home::new("");
    let daemon = home.start();
    let headers = HashMap::from([("Accept-Encoding", "gzip, br")]);
    let dashboard = Client::connect_with(&format!("{}/events", daemon.url), &headers).await;
    let header =
        |name: &str| dashboard.headers.get(name).map(|value| value.to_str().expect("text").to_owned());
    assert_eq!(header("content-type").as_deref(), Some("text/event-stream"));
    assert_eq!(header("cache-control").as_deref(), Some("no-cache, no-transform"));
    assert_eq!(header("x-accel-buffering").as_deref(), Some("no"));
    assert_eq!(header("content-encoding"), None);
}
