//! What operators see.

use freshet_kernel::{Backoff, Nursery, SendError, SupervisorSpec, start};
use serde_json::json;

use crate::stage::*;

#[test]
fn the_snapshot_is_json_with_a_stable_shape() {
    play(async {
        let diary = Diary::default();
        let nursery = Nursery::new("views-session", 100);
        let clerk = Player::spec("clerk", "views-clerk", &diary, Nature::QUIET)
            .mailbox(8)
            .backoff(Backoff { min: seconds(2), max: seconds(2) });
        let porter = Player::spec("porter", "views-porter", &diary, Nature::QUIET);
        let (clerk_address, porter_address) = (clerk.address(), porter.address());
        let live = SupervisorSpec::new("live").child(porter).nursery(&nursery);
        let tree = start(SupervisorSpec::new("root").child(clerk).supervisor(live));
        let _guest = nursery.start(Guest::polite(&diary)).unwrap();
        porter_address.send(Add(4)).await.unwrap();
        porter_address.send(Outage(true)).await.unwrap();
        assert_eq!(clerk_address.send(Break).await, Err(SendError::Restarting));
        pass(seconds(1) - std::time::Duration::from_millis(1)).await;

        let snapshot = tree.fresh_snapshot(seconds(1)).await;

        let mut json = serde_json::to_value(&snapshot).unwrap();
        let restarts_in_millis = json["children"][0]["restarts_in_millis"].take();
        assert!(restarts_in_millis.as_u64().is_some_and(|millis| millis <= 1_001), "{restarts_in_millis}");
        let clerk = json!({
            "id": "clerk", "class": "views-clerk",
            "state": "backoff", "attempt": 1, "restarts_in_millis": null,
            "last_exit": {"reason": {"kind": "panic", "message": "handler broke"}, "ago_millis": 999},
            "restarts": 0, "lost_threads": 0, "uptime_millis": null,
            "mailbox": {"capacity": 8, "depth": 0, "waits": 0, "wait_nanos": 0},
            "handled": 1, "failed": 0,
            "observed": {"value": {"sum": 0}, "age_millis": 999}
        });
        let porter = json!({
            "id": "porter", "class": "views-porter",
            "state": "degraded", "code": "broker_down", "reason": "connection refused", "degraded_millis": 999,
            "last_exit": null, "restarts": 0, "lost_threads": 0, "uptime_millis": 999,
            "mailbox": {"capacity": 64, "depth": 0, "waits": 0, "wait_nanos": 0},
            "handled": 2, "failed": 0,
            "observed": {"value": {"sum": 4}, "age_millis": 0}
        });
        let live = json!({
            "id": "live", "class": "supervisor", "state": "running",
            "last_exit": null, "restarts": 0, "lost_threads": 0, "uptime_millis": 999, "handled": 0, "failed": 0,
            "nurseries": [{"class": "views-session", "count": 1, "limit": 100}],
            "children": [porter]
        });
        let root = json!({
            "id": "root", "class": "supervisor", "state": "running",
            "last_exit": null, "restarts": 0, "lost_threads": 0, "uptime_millis": 999, "handled": 0, "failed": 0,
            "children": [clerk, live]
        });
        assert_eq!(json, root);
    });
}

#[test]
fn a_child_that_hangs_shows_its_last_state_with_its_age() {
    play(async {
        let diary = Diary::default();
        let child = Player::spec("clerk", "views-hang", &diary, Nature::QUIET);
        let clerk = child.address();
        let tree = start(SupervisorSpec::new("root").child(child));
        clerk.send(Add(4)).await.unwrap();
        assert_eq!(
            tree.fresh_snapshot(seconds(1)).await.children[0].observed.clone().unwrap().value,
            json!({"sum": 4})
        );
        clerk.send(Add(4)).await.unwrap();
        clerk.send(Pause(seconds(3600))).await.unwrap();
        pass(seconds(30)).await;
        let begun = tokio::time::Instant::now();
        let observed = tree.fresh_snapshot(seconds(1)).await.children[0].observed.clone().unwrap();
        assert_eq!(begun.elapsed(), seconds(1), "the limit, and no more");
        assert_eq!((observed.value, observed.age_millis), (json!({"sum": 4}), 31_000));
    });
}

#[test]
fn failures_are_counted_by_the_child_itself() {
    play(async {
        let diary = Diary::default();
        let child = Player::spec("clerk", "views-failed", &diary, Nature::QUIET);
        let clerk = child.address();
        let tree = start(SupervisorSpec::new("root").child(child));
        clerk.send(Fail).await.unwrap();
        clerk.send(Add(1)).await.unwrap();
        let seen = node(&tree, &["clerk"]);
        assert_eq!((seen.handled, seen.failed), (2, 1));
        assert_eq!(freshet_kernel::stats::classes()["views-failed"].failed, 1);
    });
}
