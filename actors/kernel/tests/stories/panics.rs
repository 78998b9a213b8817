//! A panic is an exit reason, wherever it happens.

use freshet_kernel::{Backoff, ExitReason, NodeState, Restart, SendError, SupervisorSpec, start, stats};

use crate::stage::*;

const PANICS_AT_START: Nature = Nature { panics_in_started: true, ..Nature::QUIET };

fn panic(message: &str) -> ExitReason {
    ExitReason::Panic(message.into())
}

#[test]
fn a_panic_in_a_handler_restarts_the_child_from_its_factory() {
    play(async {
        let diary = Diary::default();
        let child = Player::spec("clerk", "panics-handler", &diary, Nature::QUIET).backoff(Backoff::NONE);
        let clerk = child.address();
        let tree = start(SupervisorSpec::new("root").child(child));
        assert_eq!(clerk.send(Add(5)).await, Ok(5));

        assert_eq!(clerk.send(Break).await, Err(SendError::Restarting));

        assert_eq!(clerk.send(Add(1)).await, Ok(1), "a fresh value, not the old sum");
        let clerk_node = node(&tree, &["clerk"]);
        assert_eq!(clerk_node.restarts, 1);
        assert_eq!(clerk_node.last_exit.unwrap().reason, panic("handler broke"));
        assert_eq!((diary.made(), diary.alive()), (2, 1));
        assert_eq!(stats::classes()["panics-handler"].panics, 1);
        assert_eq!(
            diary.read(),
            ["clerk started", "clerk started"],
            "no stopping or stopped on half-changed state"
        );
    });
}

#[test]
fn a_panic_in_a_spawned_future_or_a_stream_is_caught_too() {
    play(async {
        let diary = Diary::default();
        let child = Player::spec("clerk", "panics-futures", &diary, Nature::QUIET).backoff(Backoff::NONE);
        let clerk = child.address();
        let tree = start(SupervisorSpec::new("root").intensity(5, seconds(5)).child(child));

        clerk.send(BreakLater(seconds(3))).await.unwrap();
        pass(seconds(4)).await;
        assert_eq!(node(&tree, &["clerk"]).last_exit.unwrap().reason, panic("future broke"));

        clerk.send(BreakInStream).await.unwrap();
        settle().await;
        assert_eq!(node(&tree, &["clerk"]).last_exit.unwrap().reason, panic("stream broke"));
        assert_eq!(clerk.send(Add(2)).await, Ok(2));
    });
}

#[test]
fn a_panic_in_started_is_retried_after_a_backoff() {
    play(async {
        let diary = Diary::default();
        let child = Player::spec("clerk", "panics-started", &diary, PANICS_AT_START);
        let tree = start(SupervisorSpec::new("root").child(child));
        settle().await;
        let clerk = node(&tree, &["clerk"]);
        assert_eq!(clerk.last_exit.unwrap().reason, panic("started broke"));
        let NodeState::Backoff { attempt, restarts_in_millis } = clerk.state else {
            panic!("{:?}", clerk.state);
        };
        assert_eq!(attempt, 1);
        assert!((249..=500).contains(&restarts_in_millis), "upper half of 500 ms, got {restarts_in_millis}");
        assert_eq!((diary.made(), diary.alive()), (1, 0));
    });
}

#[test]
fn a_panic_in_the_factory_counts_like_any_other() {
    play(async {
        let diary = Diary::default();
        let nature = Nature { panics_in_factory: true, ..Nature::QUIET };
        let child = Player::spec("clerk", "panics-factory", &diary, nature).backoff(Backoff::NONE);
        let clerk = child.address();
        let tree = start(SupervisorSpec::new("root").intensity(3, seconds(5)).child(child));
        let ExitReason::Error(reason) = tree.wait().await else { panic!() };
        assert!(reason.contains("panic: factory broke"), "{reason}");
        assert_eq!(diary.made(), 4, "the first start and three restarts");
        assert_eq!(clerk.send(Add(1)).await, Err(SendError::Stopped));
    });
}

#[test]
fn a_panic_while_stopping_or_stopped_ends_the_child_and_not_the_shutdown() {
    for nature in [
        Nature { panics_while_stopping: true, ..Nature::QUIET },
        Nature { panics_in_stopped: true, ..Nature::QUIET },
        Nature { panics_in_drop: true, ..Nature::QUIET },
    ] {
        play(async {
            let diary = Diary::default();
            let tree = start(
                SupervisorSpec::new("root")
                    .child(Player::spec("first", "panics-stopping", &diary, Nature::QUIET))
                    .child(Player::spec("second", "panics-stopping", &diary, nature)),
            );
            settle().await;
            let report = tree.shutdown().await;
            assert_eq!(report.reason, ExitReason::Shutdown);
            assert!(report.hung.is_empty());
            let second = node(&tree, &["second"]).last_exit.unwrap();
            assert!(matches!(second.reason, ExitReason::Panic(_)), "{second:?}");
            assert_eq!(node(&tree, &["first"]).last_exit.unwrap().reason, ExitReason::Shutdown);
            assert_eq!(diary.alive(), 0);
        });
    }
}

#[test]
fn a_panic_while_the_actor_is_dropped_after_a_panic_does_not_abort_the_process() {
    play(async {
        let diary = Diary::default();
        let nature = Nature { panics_in_drop: true, ..Nature::QUIET };
        let child = Player::spec("clerk", "panics-twice", &diary, nature).backoff(Backoff::NONE);
        let clerk = child.address();
        let tree = start(SupervisorSpec::new("root").child(child));
        assert_eq!(clerk.send(Break).await, Err(SendError::Restarting));
        assert_eq!(clerk.send(Add(1)).await, Ok(1));
        assert_eq!(
            node(&tree, &["clerk"]).last_exit.unwrap().reason,
            panic("handler broke"),
            "the first panic is the reason"
        );
    });
}

#[test]
fn siblings_of_a_failing_child_are_undisturbed() {
    play(async {
        let diary = Diary::default();
        let shaky = Player::spec("shaky", "panics-siblings", &diary, Nature::QUIET).backoff(Backoff::NONE);
        let calm = Player::spec("calm", "panics-siblings", &diary, Nature::QUIET);
        let (shaky_address, calm_address) = (shaky.address(), calm.address());
        let tree = start(SupervisorSpec::new("root").intensity(100, seconds(5)).child(calm).child(shaky));
        for round in 1..=20 {
            assert_eq!(shaky_address.send(Break).await, Err(SendError::Restarting));
            assert_eq!(calm_address.send(Add(1)).await, Ok(round), "its state goes on");
        }
        assert_eq!(node(&tree, &["calm"]).restarts, 0);
        assert_eq!(node(&tree, &["shaky"]).restarts, 20);
    });
}

#[test]
fn a_temporary_child_that_panics_is_gone_at_once_for_its_caller() {
    play(async {
        let diary = Diary::default();
        let child =
            Player::spec("guest", "panics-temporary", &diary, Nature::QUIET).restart(Restart::Temporary);
        let guest = child.address();
        let _tree = start(SupervisorSpec::new("root").child(child));
        assert_eq!(guest.send(Break).await, Err(SendError::Stopped));
        assert_eq!(guest.send(Add(1)).await, Err(SendError::Stopped));
        assert!(guest.is_stopped());
    });
}
