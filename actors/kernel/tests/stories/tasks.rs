//! Tasks and blocking work.

use std::sync::{
    Arc, Barrier,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use freshet_kernel::task::{self, TaskLost};
use futures_util::future::join_all;

use crate::stage::*;

#[test]
fn a_task_gives_its_result_or_its_panic() {
    play(async {
        assert_eq!(task::spawn("tasks-sum", async { 1 + 1 }).await, Ok(2));
        let lost = task::spawn("tasks-broken", async { panic!("task broke") }).await;
        assert_eq!(lost, Err::<(), _>(TaskLost::Panicked("task broke".into())));
        assert_eq!(task::panics()["tasks-broken"], 1);
    });
}

#[test]
fn a_task_ends_with_its_handle_unless_it_is_detached() {
    play(async {
        let witness = Arc::new(());
        let endless = |witness: Arc<()>| async move {
            std::future::pending::<()>().await;
            drop(witness);
        };
        let dropped = task::spawn("tasks-owned", endless(Arc::clone(&witness)));
        let aborted = task::spawn("tasks-owned", endless(Arc::clone(&witness)));
        task::spawn("tasks-detached", endless(Arc::clone(&witness))).detach();
        settle().await;
        assert_eq!(Arc::strong_count(&witness), 4);
        drop(dropped);
        aborted.abort();
        assert_eq!(aborted.await, Err(TaskLost::Aborted));
        settle().await;
        assert_eq!(Arc::strong_count(&witness), 2);
    });
}

#[test]
fn blocking_work_is_bounded_and_its_panics_are_caught() {
    play(async {
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        // The first full house waits until every place is taken: a lower bound would hang here.
        let house = Arc::new(Barrier::new(task::BLOCKING_LIMIT));
        let work = (0..2 * task::BLOCKING_LIMIT).map(|_| {
            let (now, most, house) = (Arc::clone(&now), Arc::clone(&most), Arc::clone(&house));
            task::blocking("tasks-blocking", move || {
                most.fetch_max(now.fetch_add(1, SeqCst) + 1, SeqCst);
                house.wait();
                now.fetch_sub(1, SeqCst);
            })
        });
        assert!(join_all(work).await.iter().all(Result::is_ok));
        assert_eq!(most.load(SeqCst), task::BLOCKING_LIMIT);

        let lost = task::blocking("tasks-blocking-broken", || panic!("disk broke")).await;
        assert_eq!(lost, Err::<(), _>(TaskLost::Panicked("disk broke".into())));
        assert_eq!(task::panics()["tasks-blocking-broken"], 1);
    });
}
