use std::future::Future;

use bytes::Bytes;
use freshet_feed::port::DeadLetterStore as _;
use freshet_kernel::{Address, NodeState, SupervisorSpec, Tree, start};
use tempfile::TempDir;

use super::*;
use crate::DeadLetters;

/// A tree with the room alone in it.
struct House {
    directory: TempDir,
    tree: Tree,
    address: Address<DeadLetterRoom>,
    letters: DeadLetters,
}

impl House {
    fn build(directory: TempDir, placement: Placement) -> Self {
        let path = directory.path().join("dead-letters.db");
        let room = child("dead-letters", path, Config::default()).on(placement);
        let address = room.address();
        let tree = start(SupervisorSpec::new("root").child(room));
        Self { directory, tree, letters: DeadLetters::new(address.clone()), address }
    }

    fn state(&self) -> NodeState {
        self.tree.snapshot().find(&["dead-letters"]).expect("in the tree").state.clone()
    }

    fn restarts(&self) -> u64 {
        self.tree.snapshot().find(&["dead-letters"]).expect("in the tree").restarts
    }

    fn outage(&self) -> Option<String> {
        match self.state() {
            NodeState::Degraded { code, reason, .. } => Some(format!("{code}: {reason}")),
            _ => None,
        }
    }

    async fn bodies(&self) -> Vec<Bytes> {
        let mut bodies = Vec::new();
        for heading in self.letters.list(None, 100).await.expect("readable") {
            bodies.push(self.letters.get(heading.id).await.expect("readable").expect("held").body);
        }
        bodies
    }
}

fn letter(body: &'static [u8]) -> DeadLetter {
    DeadLetter {
        source: "http".to_owned(),
        source_position: "127.0.0.1".to_owned(),
        code: "event_not_json".to_owned(),
        reason: "not one JSON value".to_owned(),
        headers: Vec::new(),
        body: Bytes::from_static(body),
    }
}

fn directory() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn on_real_time(story: impl Future<Output = ()>) {
    actix_rt::System::new().block_on(story);
}

fn on_simulated_time(story: impl Future<Output = ()>) {
    let paused =
        || tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    actix_rt::System::with_tokio_rt(paused).block_on(story);
}

/// The clock stands still but for this: it jumps, and what is due on the way happens.
async fn simulated_time_passes(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[test]
fn letters_outlive_the_daemon() {
    on_real_time(async {
        let house = House::build(directory(), Placement::OwnThread);
        house.letters.bury(vec![letter(b"1"), letter(b"2")]).await.unwrap();
        assert_eq!(house.letters.count_by_code().await.unwrap()[0].letters, 2);
        house.tree.shutdown().await;
        assert_eq!(house.letters.bury(vec![letter(b"3")]).await, Err(StoreError::Stopping));

        let house = House::build(house.directory, Placement::OwnThread);
        assert_eq!(house.bodies().await, ["1", "2"]);
        assert_eq!(house.outage(), None);
        house.tree.shutdown().await;
    });
}

#[test]
fn a_full_disk_is_an_outage_that_ends_by_itself() {
    on_simulated_time(async {
        let house = House::build(directory(), Placement::Shared);
        house.letters.bury(vec![letter(b"before")]).await.unwrap();
        house.address.send(Squeeze(Some(0))).await.unwrap();

        let refused = house.letters.bury(vec![letter(&[7; 100_000])]).await.unwrap_err();
        assert_eq!(refused.code(), "store_unavailable");
        assert!(house.outage().unwrap().starts_with("store_unavailable: "), "{:?}", house.state());
        // Reading works, and is no sign that writing does.
        assert_eq!(house.bodies().await, ["before"]);
        simulated_time_passes(60).await;
        assert!(house.outage().unwrap().contains("no room left"), "{:?}", house.state());

        house.address.send(Squeeze(None)).await.unwrap();
        simulated_time_passes(6).await;
        assert_eq!(house.outage(), None);
        house.letters.bury(vec![letter(b"after")]).await.unwrap();
        assert_eq!(house.bodies().await, ["before", "after"]);
        assert_eq!(house.restarts(), 0);
        house.tree.shutdown().await;
    });
}

#[test]
fn a_letter_that_goes_through_ends_the_outage_at_once() {
    on_simulated_time(async {
        let house = House::build(directory(), Placement::Shared);
        house.letters.bury(vec![letter(b"before")]).await.unwrap();
        house.address.send(Squeeze(Some(0))).await.unwrap();
        house.letters.bury(vec![letter(&[7; 100_000])]).await.unwrap_err();
        house.letters.bury(vec![]).await.unwrap();
        assert!(house.outage().is_some(), "nothing was written");
        house.address.send(Squeeze(None)).await.unwrap();
        house.letters.bury(vec![letter(b"after")]).await.unwrap();
        assert_eq!(house.outage(), None);
        house.tree.shutdown().await;
    });
}

#[test]
fn a_file_that_cannot_be_read_is_an_outage_until_somebody_moves_it() {
    on_simulated_time(async {
        let directory = directory();
        let path = directory.path().join("dead-letters.db");
        std::fs::write(&path, "no database ".repeat(200)).unwrap();
        let house = House::build(directory, Placement::Shared);
        house.letters.bury(vec![letter(b"1")]).await.unwrap_err();
        house.letters.list(None, 10).await.unwrap_err();
        assert!(house.outage().unwrap().contains("damaged"), "{:?}", house.state());

        std::fs::rename(&path, path.with_extension("damaged")).unwrap();
        simulated_time_passes(6).await;
        assert_eq!(house.outage(), None);
        house.letters.bury(vec![letter(b"2")]).await.unwrap();
        assert_eq!(house.bodies().await, ["2"]);
        assert_eq!(house.restarts(), 0);
        house.tree.shutdown().await;
    });
}

#[test]
fn operators_see_what_is_held() {
    on_real_time(async {
        let house = House::build(directory(), Placement::OwnThread);
        house.letters.bury(vec![letter(b"12345")]).await.unwrap();
        let snapshot = house.tree.fresh_snapshot(Duration::from_secs(5)).await;
        let observed = &snapshot.find(&["dead-letters"]).unwrap().observed.as_ref().unwrap().value;
        // Five bytes of body, and two of headers: an empty JSON array.
        let expected = json!({"letters": 1, "bytes": 7, "buried": 1, "removed": 0, "outage": null});
        assert_eq!(*observed, expected);
        house.tree.shutdown().await;
    });
}
