//! The actor under a supervisor, with a real broker.

use std::sync::Arc;
use std::time::Duration;

use freshet_kernel::{ChildSpec, ExitReason, SupervisorSpec, Tree};
use freshet_stomp_subscriber::StompSubscriber;
use freshet_stomp_subscriber::config::Flavour;
use serde_json::Value;

use crate::producer::Producer;
use crate::service::{Service, topic};
use crate::support::Store;

/// The child's state as operators see it, once it satisfies the condition.
async fn child_that(tree: &Tree, condition: impl Fn(&Value) -> bool) -> Value {
    let looking = async {
        loop {
            let snapshot = tree.fresh_snapshot(Duration::from_secs(1)).await;
            let child = serde_json::to_value(&snapshot.children[0]).unwrap();
            if condition(&child) {
                return child;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), looking).await.expect("the state is not reached")
}

#[test]
fn an_outage_restarts_nothing_and_a_shutdown_loses_nothing() {
    let service = Service::start(Flavour::ActivemqClassic);
    let test = "supervised";
    let store = Store::new();
    let config = Arc::new(service.config(test));
    let ports = store.ports();
    actix::System::new().block_on(async {
        let child = ChildSpec::new("commits", "stomp_subscriber", move |link| {
            StompSubscriber::new(Arc::clone(&config), ports.clone(), link)
        });
        let tree = freshet_kernel::start(SupervisorSpec::new("root").child(child));
        let first = tree.snapshot();
        assert_ne!(serde_json::to_value(&first.children[0]).unwrap()["state"], "running");
        let child = child_that(&tree, |child| child["observed"]["value"]["state"] == "subscribed").await;
        assert_eq!(child["state"], "running");

        service.run_aside("stop").await;
        let child = child_that(&tree, |child| child["code"] == "connection_refused").await;
        assert_eq!(child["state"], "degraded");
        service.run_aside("start").await;
        let child = child_that(&tree, |child| child["state"] == "running").await;
        assert_eq!(child["restarts"], 0, "an outage is a state");

        // A shutdown in the middle of a batch: it is stored and acknowledged first.
        store.delay(Duration::from_millis(300));
        let calls = store.calls();
        let mut producer = Producer::connect(service.port).await.unwrap();
        producer.send(&topic(test), [&b"last"[..]]).await.unwrap();
        store.called(calls + 1).await;
        let report = tree.shutdown().await;
        assert_eq!(report.reason, ExitReason::Shutdown);
        let child = &tree.snapshot().children[0];
        assert_eq!(child.last_exit.as_ref().unwrap().reason, ExitReason::Shutdown);
        assert_eq!(store.ids(), ["last"]);

        // Nothing waits for the next start of the daemon, so it was acknowledged.
        let next = crate::stories::Subscriber::new(service.config(test));
        next.until(async {
            next.subscribed().await;
            producer.send(&topic(test), [&b"marker"[..]]).await.unwrap();
            next.store.stored(1).await;
        })
        .await;
        assert_eq!(next.store.ids(), ["marker"]);
    });
}
