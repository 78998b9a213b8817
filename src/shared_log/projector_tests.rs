use freshet_event_log::{DirectoryLock, Retention};
use freshet_feed::port::Announce;
use freshet_kernel::{SupervisorSpec, Tree};
use serde_json::Value;

use super::*;
use memory_log::{EPOCH, Failure, MemoryLog, event, logged};

#[path = "../../actors/broadcaster/tests/support/memory_log.rs"]
mod memory_log;

const PATIENCE: Duration = Duration::from_secs(30);

/// One life of an instance, with the copy in a directory that outlives it.
struct Instance {
    live: Arc<Live>,
    copy: SqliteEventLog,
    tree: Tree,
    _lock: DirectoryLock,
}

impl Instance {
    /// Without a stream yet, as long as the log was not read.
    fn start(directory: &tempfile::TempDir, shared: &Arc<MemoryLog>) -> Self {
        let lock = DirectoryLock::acquire(directory.path()).unwrap();
        // The events of these stories are years old.
        let config = freshet_event_log::Config { retention_days: 36_500, ..Default::default() };
        let (writer, copy) = freshet_event_log::open(&config, &Retention::default(), &lock).unwrap();
        let live = Live::new(&freshet_broadcaster::Config::default());
        let projector = child(Arc::clone(&live), shared.clone(), copy.clone());
        let tree = freshet_kernel::start(SupervisorSpec::new("root").child(writer).child(projector));
        Self { live, copy, tree, _lock: lock }
    }

    /// The stream begins at the newest of so many events.
    fn stands_at(&self, offset: u64) {
        self.live.stands_at(Position { epoch: EPOCH, offset });
    }

    /// A follower tells of the numbered events.
    fn announce(&self, numbers: std::ops::RangeInclusive<u64>) {
        self.live.announce(EPOCH, numbers.map(|number| logged(number, "db.t")).collect());
    }

    async fn told(&self) -> (Value, Value) {
        let tree = self.tree.fresh_snapshot(PATIENCE).await;
        let projector = serde_json::to_value(&tree.children[1]).unwrap();
        (projector["state"].clone(), projector["observed"]["value"].clone())
    }

    async fn until(&self, what: impl Fn(&Value, &Value) -> bool) -> Value {
        let asked = async {
            loop {
                let (state, observed) = self.told().await;
                if what(&state, &observed) {
                    return observed;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        match tokio::time::timeout(PATIENCE, asked).await {
            Ok(observed) => observed,
            Err(_) => panic!("in vain: {:?}", self.told().await),
        }
    }

    /// What the projector tells when the copy is complete up to this offset.
    async fn complete(&self, offset: u64) -> Value {
        let position = Position { epoch: EPOCH, offset }.to_string();
        self.until(|state, observed| *state == "running" && observed["position"] == *position).await
    }

    async fn history(&self) -> Vec<(u64, String)> {
        let held = self.copy.read_after(0, PageLimit { events: 10_000, bytes: usize::MAX }).await.unwrap();
        held.into_iter().map(|logged| (logged.offset, logged.event.event_id)).collect()
    }
}

fn story(tell: impl AsyncFnOnce(&tempfile::TempDir, &Arc<MemoryLog>)) {
    let directory = tempfile::tempdir().unwrap();
    actix_rt::System::new().block_on(tell(&directory, &MemoryLog::new()));
}

fn numbered(numbers: std::ops::RangeInclusive<u64>) -> Vec<(u64, String)> {
    numbers.map(|number| (number, format!("e{number}"))).collect()
}

#[test]
fn what_came_while_an_instance_was_away_is_in_its_history_too() {
    story(async |directory, shared| {
        shared.append_now((1..=3000).map(event).collect());
        let instance = Instance::start(directory, shared);
        instance.until(|state, _| state == "degraded").await;
        instance.stands_at(3000);
        assert_eq!(instance.complete(3000).await["taken"], 3000);
        shared.append_now((3001..=3010).map(event).collect());
        let reads = shared.reads.load(std::sync::atomic::Ordering::SeqCst);
        instance.announce(3001..=3005);
        instance.announce(3006..=3010);
        instance.complete(3010).await;
        let reads_of_news = shared.reads.load(std::sync::atomic::Ordering::SeqCst) - reads;
        assert_eq!(reads_of_news, 0, "what is in memory is not read from the log again");
        instance.tree.shutdown().await;
        drop(instance);

        shared.append_now((3011..=3500).map(event).collect());
        let instance = Instance::start(directory, shared);
        instance.stands_at(3500);
        let told = instance.complete(3500).await;
        assert_eq!((&told["taken"], &told["missed"]), (&490.into(), &0.into()));
        assert_eq!(instance.history().await, numbered(1..=3500));
    });
}

#[test]
fn events_that_the_log_no_longer_holds_are_counted_and_the_copy_goes_on() {
    story(async |directory, shared| {
        shared.append_now((1..=10).map(event).collect());
        shared.drop_before(4);
        let instance = Instance::start(directory, shared);
        instance.stands_at(10);
        assert_eq!(instance.complete(10).await["missed"], 0, "a new copy begins with what there is");
        instance.tree.shutdown().await;
        drop(instance);

        shared.append_now((11..=20).map(event).collect());
        shared.drop_before(16);
        let instance = Instance::start(directory, shared);
        instance.stands_at(20);
        assert_eq!(instance.complete(20).await["missed"], 5);
        // And when nothing is left at all.
        shared.append_now((21..=30).map(event).collect());
        shared.drop_before(31);
        instance.stands_at(30);
        assert_eq!(instance.complete(30).await["missed"], 15);
        shared.append_now(vec![event(31)]);
        instance.announce(31..=31);
        instance.complete(31).await;
        let expected = [numbered(4..=10), numbered(16..=20), numbered(31..=31)].concat();
        assert_eq!(instance.history().await, expected);
    });
}

#[test]
fn an_outage_of_the_log_delays_the_copy_and_takes_nothing_from_it() {
    story(async |directory, shared| {
        shared.append_now((1..=5).map(event).collect());
        shared.fail(Some(Failure::Before));
        let instance = Instance::start(directory, shared);
        instance.stands_at(5);
        instance.until(|state, observed| state == "degraded" && observed["outages"] == 1).await;
        shared.fail(None);
        assert_eq!(instance.complete(5).await["outages"], 1);
        assert_eq!(instance.history().await, numbered(1..=5));
    });
}

#[test]
fn the_history_of_another_log_gives_way() {
    story(async |directory, shared| {
        let instance = Instance::start(directory, shared);
        instance.copy.append(vec![event(7)]).await.unwrap();
        instance.tree.shutdown().await;
        drop(instance);
        let instance = Instance::start(directory, shared);
        instance.stands_at(0);
        instance.complete(0).await;
        assert_eq!(instance.history().await, []);
        assert_eq!(instance.copy.bounds().await.unwrap().epoch, EPOCH);
    });
}

#[test]
fn a_log_that_lost_its_newest_events_while_nobody_ran_is_copied_anew() {
    story(async |directory, shared| {
        shared.append_now((1..=5).map(event).collect());
        let instance = Instance::start(directory, shared);
        instance.stands_at(5);
        instance.complete(5).await;
        instance.tree.shutdown().await;
        drop(instance);

        // It lost 4 and 5, and gave their offsets to others.
        let shared = MemoryLog::new();
        shared.append_now([1, 2, 3, 14, 15, 16].map(event).to_vec());
        let instance = Instance::start(directory, &shared);
        instance.stands_at(6);
        instance.complete(6).await;
        let ids: Vec<_> = instance.history().await.into_iter().map(|(_, id)| id).collect();
        assert_eq!(ids, ["e1", "e2", "e3", "e14", "e15", "e16"]);
        instance.tree.shutdown().await;
        drop(instance);

        // It lost more than came since.
        let shared = MemoryLog::new();
        shared.append_now((1..=3).map(event).collect());
        let instance = Instance::start(directory, &shared);
        instance.stands_at(3);
        instance.complete(3).await;
        assert_eq!(instance.history().await, numbered(1..=3));
    });
}

#[test]
fn a_page_moves_the_cursor_and_tells_what_was_gone() {
    let at = |offset| Position { epoch: EPOCH, offset };
    let page = |numbers: std::ops::RangeInclusive<u64>| {
        numbers.map(|number| logged(number, "t")).collect::<Vec<_>>()
    };
    let begun = |offset| Cursor { position: at(offset), has_begun: true };
    let new = Cursor { position: at(0), has_begun: false };
    assert_eq!(begun(4).after(&page(5..=6), at(9)), (begun(6), 0));
    assert_eq!(begun(4).after(&page(7..=8), at(9)), (begun(8), 2));
    assert_eq!(begun(4).after(&[], at(9)), (begun(9), 5));
    assert_eq!(new.after(&page(7..=8), at(9)), (begun(8), 0));
    assert_eq!(new.after(&[], at(9)), (begun(9), 0));
    assert_eq!(
        begun(4).in_epoch(Epoch(1)),
        Cursor { position: Position { epoch: Epoch(1), offset: 0 }, has_begun: false }
    );
    assert!(begun(4).is_behind(at(5)) && !begun(4).is_behind(at(4)) && !begun(4).is_behind(at(3)));
    assert!(begun(4).is_behind(Position { epoch: Epoch(1), offset: 0 }));
}
