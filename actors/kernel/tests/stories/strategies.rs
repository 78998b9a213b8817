//! Which siblings are restarted together.

use freshet_kernel::{Backoff, NodeState, Restart, SendError, Strategy, SupervisorSpec, start};

use crate::stage::*;

#[test]
fn rest_for_one_restarts_the_child_and_those_after_it() {
    play(async {
        let diary = Diary::default();
        let a = Player::spec("a", "strategies-rest", &diary, Nature::QUIET);
        let b = Player::spec("b", "strategies-rest", &diary, Nature::QUIET)
            .backoff(Backoff { min: seconds(2), max: seconds(2) });
        let c = Player::spec("c", "strategies-rest", &diary, Nature::QUIET);
        let d = Player::spec("d", "strategies-rest", &diary, Nature::QUIET);
        let (b_address, c_address) = (b.address(), c.address());
        let tree = start(
            SupervisorSpec::new("root").strategy(Strategy::RestForOne).child(a).child(b).child(c).child(d),
        );
        settle().await;
        assert_eq!(diary.read(), ["a started", "b started", "c started", "d started"]);

        assert_eq!(b_address.send(Break).await, Err(SendError::Restarting));
        settle().await;
        assert_eq!(
            diary.read(),
            ["d stopping", "d stopped", "c stopping", "c stopped"],
            "at once, in reverse order"
        );
        assert_eq!(node(&tree, &["c"]).state, NodeState::Starting, "it waits for b");

        let kept = c_address.send(Add(4));
        assert_eq!(kept.await, Ok(4), "what is sent meanwhile waits in the mailbox");
        assert_eq!(
            diary.read(),
            ["b started", "c started", "d started"],
            "in start order, after b's backoff"
        );
        let restarts: Vec<u64> = tree.snapshot().children.iter().map(|child| child.restarts).collect();
        assert_eq!(restarts, [0, 1, 1, 1]);
    });
}

#[test]
fn one_for_all_restarts_everyone() {
    play(async {
        let diary = Diary::default();
        let a = Player::spec("a", "strategies-all", &diary, Nature::QUIET);
        let b = Player::spec("b", "strategies-all", &diary, Nature::QUIET)
            .backoff(Backoff { min: seconds(2), max: seconds(2) });
        let c = Player::spec("c", "strategies-all", &diary, Nature::QUIET);
        let b_address = b.address();
        let tree =
            start(SupervisorSpec::new("root").strategy(Strategy::OneForAll).child(a).child(b).child(c));
        settle().await;
        diary.read();

        assert_eq!(b_address.send(Break).await, Err(SendError::Restarting));
        settle().await;
        assert_eq!(diary.read(), ["c stopping", "c stopped", "a stopping", "a stopped"]);
        pass(seconds(3)).await;
        assert_eq!(diary.read(), ["a started", "b started", "c started"]);
        let restarts: Vec<u64> = tree.snapshot().children.iter().map(|child| child.restarts).collect();
        assert_eq!(restarts, [1, 1, 1]);
    });
}

#[test]
fn a_group_restart_counts_once_and_leaves_temporary_children_out() {
    play(async {
        let diary = Diary::default();
        let a = Player::spec("a", "strategies-group", &diary, Nature::QUIET).backoff(Backoff::NONE);
        let guest =
            Player::spec("guest", "strategies-group", &diary, Nature::QUIET).restart(Restart::Temporary);
        let c = Player::spec("c", "strategies-group", &diary, Nature::QUIET);
        let (a_address, guest_address) = (a.address(), guest.address());
        let tree = start(
            SupervisorSpec::new("root")
                .strategy(Strategy::OneForAll)
                .intensity(1, seconds(5))
                .child(a)
                .child(guest)
                .child(c),
        );
        settle().await;
        diary.read();
        assert_eq!(a_address.send(Break).await, Err(SendError::Restarting));
        assert_eq!(a_address.send(Add(1)).await, Ok(1), "three restarts of children, one failure");
        settle().await;
        assert_eq!(guest_address.send(Add(1)).await, Err(SendError::Stopped));
        assert_eq!(node(&tree, &["guest"]).restarts, 0);
        assert_eq!(
            diary.read(),
            ["c stopping", "c stopped", "guest stopping", "guest stopped", "a started", "c started"]
        );
    });
}

#[test]
fn a_dependent_child_is_not_started_before_the_one_it_depends_on_is_up() {
    play(async {
        let diary = Diary::default();
        let broken = Nature { panics_in_started: true, ..Nature::QUIET };
        let first = Player::spec("first", "strategies-start", &diary, broken);
        let second = Player::spec("second", "strategies-start", &diary, Nature::QUIET);
        let _tree = start(
            SupervisorSpec::new("root")
                .strategy(Strategy::RestForOne)
                .intensity(100, seconds(5))
                .child(first)
                .child(second),
        );
        pass(seconds(10)).await;
        let lines = diary.read();
        assert!(lines.len() >= 4, "it was tried: {lines:?}");
        assert!(lines.iter().all(|line| line == "first started"), "{lines:?}");
    });
}

#[test]
fn under_one_for_one_a_child_that_cannot_start_holds_nobody_up() {
    play(async {
        let diary = Diary::default();
        let broken = Nature { panics_in_started: true, ..Nature::QUIET };
        let first = Player::spec("first", "strategies-alone", &diary, broken);
        let second = Player::spec("second", "strategies-alone", &diary, Nature::QUIET);
        let address = second.address();
        let _tree = start(SupervisorSpec::new("root").child(first).child(second));
        assert_eq!(address.send(Add(2)).await, Ok(2));
    });
}
