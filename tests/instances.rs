//! Three instances share a log in Redis, and clients come to them through a load balancer.

mod support;

#[path = "instances/crowd.rs"]
mod crowd;

use std::sync::Arc;
use std::time::Duration;

use crowd::{CLIENTS, Crowd, publish};
use freshet_kernel::task;
use futures_util::future::{join, join_all};
use support::daemon::{Daemon, Home, freshet};
use support::eventually;
use support::service::{Service, free_port};
use support::sse::Client;

/// How long an instance may take to stop: its drain takes five seconds, and requests that hang would get ten more.
const ENDS_WITHIN: Duration = Duration::from_secs(10);

/// One of the instances: its data, and the port that it has in each of its lives.
struct Instance {
    home: Home,
    port: u16,
}

impl Instance {
    fn of(redis: &Service) -> Self {
        let configuration = format!(
            "[server]\ndrain_delay_secs = 3\n\
             [sessions]\ndrain_window_secs = 2\nretry_min_millis = 100\nretry_max_millis = 500\n\
             [redis]\nurl = \"redis://127.0.0.1:{}\"\n",
            redis.port
        );
        Self { home: Home::new(&configuration), port: free_port() }
    }

    fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Starts it and waits until it listens; clients and publisher go on meanwhile.
    async fn start(&self) -> Daemon {
        let mut command = freshet();
        command.arg("run").arg("--config").arg(self.home.path().join("freshet.toml"));
        command.arg("--listen").arg(self.address()).arg("--data").arg(self.home.data());
        task::blocking("start", move || Daemon::start(command)).await.expect("it starts")
    }
}

/// A verb of a service's script; clients and publisher go on meanwhile.
async fn control(service: &Arc<Service>, verb: &'static str) {
    let service = Arc::clone(service);
    task::blocking("service", move || service.control(verb)).await.expect("the service obeys");
}

async fn ready(daemon: &Daemon) {
    eventually("the instance is ready", || async { (daemon.get("/readyz").await.0 == 200).then_some(()) })
        .await;
}

/// Why the instance is not ready, once the outage is one of the reasons.
async fn unready(daemon: &Daemon) -> String {
    eventually("the instance is not ready", || async {
        let (status, text) = daemon.get("/readyz").await;
        (status == 503 && text.contains("follower")).then_some(text)
    })
    .await
}

/// Waits until the history holds as many events, and gives it.
async fn history_of(daemon: &Daemon, events: usize) -> Vec<(String, String)> {
    eventually("the history is complete", || async {
        let history = daemon.history().await;
        (history.len() >= events).then_some(history)
    })
    .await
}

/// Stops and starts each instance while the others serve.
async fn rolling_restart(instances: &[Instance], daemons: &mut [Daemon]) {
    for (instance, daemon) in instances.iter().zip(daemons) {
        daemon.signal(nix::sys::signal::Signal::SIGTERM);
        let stopping_since = tokio::time::Instant::now();
        assert_eq!(daemon.ended().await.code(), Some(0));
        let took = stopping_since.elapsed();
        assert!(took < ENDS_WITHIN, "idle connections of the balancer do not hold it up: {took:?}");
        *daemon = instance.start().await;
        ready(daemon).await;
    }
}

/// Redis ends and starts again; every instance notices both.
async fn redis_restart(redis: &Arc<Service>, end: &'static str, daemons: &[Daemon], crowd: &Crowd) {
    let (opened, refused) = (crowd.opened(), crowd.refused());
    control(redis, end).await;
    join_all(daemons.iter().map(unready)).await;
    eventually("events are refused", || async { (crowd.refused() > refused + 10).then_some(()) }).await;
    assert_eq!(crowd.open(), 2 * CLIENTS, "sessions outlive the outage");
    control(redis, "start").await;
    join_all(daemons.iter().map(ready)).await;
    let published = crowd.published();
    eventually("events come again", || async { (crowd.published() > published + 40).then_some(()) }).await;
    assert_eq!(crowd.opened(), opened, "nobody had to come back because of Redis");
}

/// Through a rolling restart and two restarts of Redis, under load, every client has each event once and in order.
async fn restarts_behind(balancer: impl Fn(&[&str]) -> Service) {
    let began = std::time::Instant::now();
    let redis = Arc::new(Service::redis("single"));
    let instances: Vec<_> = (0..3).map(|_| Instance::of(&redis)).collect();
    let mut daemons = join_all(instances.iter().map(Instance::start)).await;
    join_all(daemons.iter().map(ready)).await;
    let addresses: Vec<_> = instances.iter().map(Instance::address).collect();
    let addresses: Vec<_> = addresses.iter().map(String::as_str).collect();
    let balancer = balancer(&addresses);

    let crowd = Crowd::default();
    let connected = |what| eventually(what, || async { (crowd.open() == 2 * CLIENTS).then_some(()) });
    let story = async {
        connected("every client is connected").await;
        let load = publish(balancer.port, &crowd);
        let restarts = async {
            rolling_restart(&instances, &mut daemons).await;
            connected("every client came back").await;
            assert!(crowd.opened() > 2 * CLIENTS, "the restarts moved clients");
            let after_rolling = crowd.published();
            for end in ["stop", "crash"] {
                redis_restart(&redis, end, &daemons, &crowd).await;
            }
            crowd.finish();
            after_rolling
        };
        join(load, restarts).await
    };
    let streams = join_all((0..CLIENTS).map(|_| crowd.follow_stream(balancer.port)));
    let sockets = join_all((0..CLIENTS).map(|_| crowd.follow_socket(balancer.port)));
    let ((published, after_rolling), (streams, sockets)) = join(story, join(streams, sockets)).await;

    let expected: Vec<_> = (0..published.len()).map(support::event).collect();
    for seen in &streams {
        let seen: Vec<_> = seen.iter().map(|event| (event.id.clone(), event.data.clone())).collect();
        crowd::same(&seen, &expected);
    }
    for seen in &sockets {
        crowd::dense(seen);
        for (event, position) in seen.iter().zip(&published) {
            assert!(position.is_none() || event.position == *position, "{event:?} stands at {position:?}");
        }
        let seen: Vec<_> = seen.iter().map(|event| (event.id.clone(), event.data.clone())).collect();
        crowd::same(&seen, &expected);
    }
    for daemon in &daemons {
        crowd::same(&history_of(daemon, expected.len()).await, &expected);
    }
    println!(
        "{} clients of each kind, {} events ({after_rolling} before Redis stopped), {} posts repeated, \
         {} connections, codes {:?}, {:?}",
        CLIENTS,
        published.len(),
        crowd.refused(),
        crowd.opened(),
        crowd.codes(),
        began.elapsed()
    );
}

#[tokio::test]
async fn every_client_behind_haproxy_has_each_event_once_through_restarts() {
    restarts_behind(Service::haproxy).await;
}

#[tokio::test]
async fn every_client_behind_nginx_has_each_event_once_through_restarts() {
    restarts_behind(Service::nginx_balancer).await;
}

async fn publish_at(daemon: &Daemon, numbers: std::ops::Range<usize>) {
    for number in numbers {
        let (status, answer) = daemon.post("application/json", support::event(number).1).await;
        assert_eq!((status, &answer["accepted"]), (200, &1.into()), "{answer}");
    }
}

#[tokio::test]
async fn instance_that_was_down_has_what_it_missed() {
    let redis = Service::redis("single");
    let (one, other) = (Instance::of(&redis), Instance::of(&redis));
    let (first, second) = (one.start().await, other.start().await);
    ready(&first).await;
    ready(&second).await;
    publish_at(&first, 0..20).await;
    assert_eq!(history_of(&second, 20).await.len(), 20, "while it is up");
    assert_eq!(second.terminate().await.code(), Some(0));
    publish_at(&first, 20..60).await;

    let second = other.start().await;
    ready(&second).await;
    let expected: Vec<_> = (0..60).map(support::event).collect();
    crowd::same(&history_of(&second, 60).await, &expected);
    // A client that left the other instance in the middle goes on here.
    let mut client = Client::connect(&format!("{}/events", second.url), Some(&expected[30].0)).await;
    for (id, body) in &expected[31..] {
        let message = client.next_commit().await;
        assert_eq!((&message.last_event_id, &message.data), (id, body));
    }
    // What it gets itself comes after that, here and there.
    publish_at(&second, 60..61).await;
    assert_eq!(client.next_commit().await.last_event_id, support::event(60).0);
    assert_eq!(history_of(&first, 61).await, history_of(&second, 61).await);
}

#[tokio::test]
async fn instance_that_starts_without_redis_waits_for_it() {
    let redis = Service::redis("single");
    redis.stop();
    let instance = Instance::of(&redis);
    let daemon = instance.start().await;
    unready(&daemon).await;
    assert_eq!(daemon.get("/livez").await.0, 200, "a restart would cure nothing");
    let (id, body) = support::event(0);
    let (status, answer) = daemon.post("application/json", body.clone()).await;
    assert_eq!((status, answer["code"].as_str()), (503, Some("store_unavailable")), "{answer}");

    redis.start_again();
    ready(&daemon).await;
    publish_at(&daemon, 0..1).await;
    crowd::same(&history_of(&daemon, 1).await, &[(id, body)]);
    assert_eq!(daemon.terminate().await.code(), Some(0));
}
