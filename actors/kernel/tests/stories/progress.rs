//! Stuck detection and its excuses.

use freshet_kernel::{Backoff, ExitReason, SupervisorSpec, start, stats};

use crate::stage::*;

#[test]
fn a_child_that_makes_no_progress_is_killed_and_restarted() {
    play(async {
        let diary = Diary::default();
        let child = Player::spec("clerk", "progress-stuck", &diary, Nature::QUIET)
            .backoff(Backoff::NONE)
            .stuck_after(seconds(10));
        let clerk = child.address();
        let tree = start(SupervisorSpec::new("root").child(child));
        clerk.send(Pause(seconds(3600))).await.unwrap();
        let begun = tokio::time::Instant::now();
        assert_eq!(clerk.send(Add(2)).await, Ok(2), "the queued message is kept for the next run");
        let taken = begun.elapsed();
        assert!(taken >= seconds(10) && taken <= seconds(13), "{taken:?}");
        assert_eq!(node(&tree, &["clerk"]).last_exit.unwrap().reason, ExitReason::Stuck);
        assert_eq!(stats::classes()["progress-stuck"].stuck, 1);
        assert_eq!(diary.read(), ["clerk started", "clerk started"], "killed without its hooks");
        assert_eq!(diary.alive(), 1);
    });
}

#[test]
fn idle_children_and_short_pauses_are_not_stuck() {
    play(async {
        let diary = Diary::default();
        let child = Player::spec("clerk", "progress-idle", &diary, Nature::QUIET).stuck_after(seconds(10));
        let clerk = child.address();
        let tree = start(SupervisorSpec::new("root").child(child));
        pass(seconds(3600)).await;
        for _ in 0..50 {
            clerk.send(Pause(seconds(7))).await.unwrap();
        }
        assert_eq!(node(&tree, &["clerk"]).restarts, 0);
        assert_eq!(diary.made(), 1);
    });
}

#[test]
fn waiting_on_a_full_mailbox_downstream_is_excused() {
    play(async {
        let diary = Diary::default();
        let sink = Player::spec("sink", "progress-sink", &diary, Nature::QUIET).mailbox(1);
        let sink_address = sink.address();
        let source =
            Player::spec("source", "progress-source", &diary, Nature::QUIET).stuck_after(seconds(10));
        let source_address = source.address();
        let tree = start(SupervisorSpec::new("root").child(sink).child(source));
        sink_address.send(Pause(seconds(600))).await.unwrap();
        sink_address.tell(Add(1)).await.unwrap();

        source_address.send(PassOn(sink_address.clone(), Add(1))).await.unwrap();
        assert_eq!(source_address.send(Add(5)).await, Ok(5), "after ten minutes, in the same run");
        assert_eq!(node(&tree, &["source"]).restarts, 0);
        let sink_mailbox = node(&tree, &["sink"]).mailbox.unwrap();
        assert_eq!(sink_mailbox.wait_nanos / 1_000_000_000, 600, "what the source waited");
    });
}

#[test]
fn a_declared_wait_and_an_outage_are_excused() {
    play(async {
        let diary = Diary::default();
        let child = Player::spec("clerk", "progress-excused", &diary, Nature::QUIET).stuck_after(seconds(10));
        let clerk = child.address();
        let tree = start(SupervisorSpec::new("root").child(child));
        clerk.send(PauseExcused(seconds(600))).await.unwrap();
        clerk.send(Outage(true)).await.unwrap();
        clerk.send(Pause(seconds(600))).await.unwrap();
        clerk.send(Outage(false)).await.unwrap();
        assert_eq!(node(&tree, &["clerk"]).restarts, 0);
        clerk.send(Pause(seconds(600))).await.unwrap();
        pass(seconds(20)).await;
        assert_eq!(
            node(&tree, &["clerk"]).last_exit.unwrap().reason,
            ExitReason::Stuck,
            "the excuses ended with the outage"
        );
    });
}
