//! Shutdown in reverse start order, each child within its time.

use std::time::Duration;

use freshet_kernel::{
    Backoff, ExitReason, NodeState, Nursery, NurseryFull, SendError, SupervisorSpec, start, stats,
};
use tokio::time::Instant;

use crate::stage::*;

#[test]
fn a_tree_shuts_down_in_reverse_order_and_says_who_hung() {
    play(async {
        let diary = Diary::default();
        let stubborn = Nature { refuses_to_stop: true, ..Nature::QUIET };
        let inner = SupervisorSpec::new("inner")
            .child(Player::spec("c", "shutdowns-order", &diary, Nature::QUIET))
            .child(Player::spec("d", "shutdowns-order", &diary, stubborn).shutdown_within(seconds(3)));
        let tree = start(
            SupervisorSpec::new("root")
                .child(Player::spec("a", "shutdowns-order", &diary, Nature::QUIET))
                .supervisor(inner)
                .child(Player::spec("e", "shutdowns-order", &diary, Nature::QUIET)),
        );
        settle().await;
        assert_eq!(diary.read(), ["a started", "c started", "d started", "e started"]);
        let begun = Instant::now();

        let report = tree.shutdown().await;

        assert_eq!(report.reason, ExitReason::Shutdown);
        assert_eq!(report.hung, ["root/inner/d"]);
        assert_eq!(
            diary.read(),
            ["e stopping", "e stopped", "d stopping", "c stopping", "c stopped", "a stopping", "a stopped"],
            "d was dropped without its stopped hook"
        );
        let taken = begun.elapsed();
        assert!(taken >= seconds(3) && taken < Duration::from_millis(3_100), "{taken:?}");
        assert_eq!(diary.alive(), 0);
        assert_eq!(stats::classes()["shutdowns-order"].killed, 1);
        assert_eq!(stats::classes()["shutdowns-order"].running, 0);
        assert_eq!(node(&tree, &["inner", "d"]).last_exit.unwrap().reason, ExitReason::Killed);
        assert_eq!(tree.shutdown().await, report, "asking again tells the same");
        tree.snapshot().each(&mut |node| assert_eq!(node.state, NodeState::Stopped, "{}", node.id));
    });
}

#[test]
fn a_child_that_is_paused_stops_at_once() {
    play(async {
        let diary = Diary::default();
        let child = Player::spec("clerk", "shutdowns-paused", &diary, Nature::QUIET);
        let clerk = child.address();
        let tree = start(SupervisorSpec::new("root").child(child));
        clerk.send(Pause(seconds(3600))).await.unwrap();
        let begun = Instant::now();
        let report = tree.shutdown().await;
        assert!(report.hung.is_empty());
        assert!(begun.elapsed() < Duration::from_millis(10));
        assert_eq!(diary.read(), ["clerk started", "clerk stopping", "clerk stopped"]);
    });
}

#[test]
fn a_child_in_backoff_does_not_delay_the_shutdown() {
    play(async {
        let diary = Diary::default();
        let broken = Nature { panics_in_started: true, ..Nature::QUIET };
        let tree = start(SupervisorSpec::new("root").child(Player::spec(
            "clerk",
            "shutdowns-backoff",
            &diary,
            broken,
        )));
        settle().await;
        let begun = Instant::now();
        assert_eq!(tree.shutdown().await.reason, ExitReason::Shutdown);
        assert!(begun.elapsed() < Duration::from_millis(10));
        assert_eq!(diary.made(), 1);
    });
}

#[test]
fn a_shutdown_before_the_first_start_starts_nobody() {
    play(async {
        let diary = Diary::default();
        let tree = start(SupervisorSpec::new("root").child(Player::spec(
            "clerk",
            "shutdowns-early",
            &diary,
            Nature::QUIET,
        )));
        assert_eq!(tree.shutdown().await.reason, ExitReason::Shutdown);
        assert_eq!(diary.made(), 0);
    });
}

#[test]
fn the_nursery_of_a_supervisor_is_emptied_first() {
    play(async {
        let diary = Diary::default();
        let nursery = Nursery::new("shutdowns-nursery", 10);
        let tree = start(
            SupervisorSpec::new("root")
                .child(Player::spec("hub", "shutdowns-hub", &diary, Nature::QUIET))
                .nursery(&nursery),
        );
        settle().await;
        let kept: Vec<_> = (0..3).map(|_| nursery.start(Guest::polite(&diary)).unwrap()).collect();
        let stubborn = nursery.start(Guest::stubborn(&diary)).unwrap();
        settle().await;
        diary.read();
        let begun = Instant::now();
        tree.shutdown().await;
        assert_eq!(nursery.count(), 0);
        assert!(kept.iter().all(|guest| !guest.connected()));
        assert!(!stubborn.connected(), "it was dropped when its five seconds were over");
        assert_eq!(begun.elapsed().as_secs(), 5);
        let lines = diary.read();
        assert_eq!(lines[..3], ["guest stopping"; 3]);
        assert_eq!(lines[3], "guest refuses");
        assert_eq!(lines.last().unwrap(), "hub stopped");
    });
}

#[test]
fn a_nursery_that_is_emptied_takes_nobody_until_its_supervisor_starts_again() {
    play(async {
        let diary = Diary::default();
        let nursery = Nursery::new("shutdowns-newcomers", 10);
        let shaky = Player::spec("shaky", "shutdowns-shaky", &diary, Nature::QUIET);
        let address = shaky.address();
        let inner = SupervisorSpec::new("inner").intensity(0, seconds(5)).child(shaky).nursery(&nursery);
        let tree = start(SupervisorSpec::new("root").intensity(1, seconds(5)).supervisor(inner));
        settle().await;
        let _stubborn = nursery.start(Guest::stubborn(&diary)).unwrap();

        // The supervisor gives up, and empties its nursery for five seconds.
        assert_eq!(address.send(Break).await, Err(SendError::Restarting));
        pass(seconds(1)).await;
        assert_eq!(nursery.count(), 1);
        assert_eq!(nursery.start(Guest::polite(&diary)).unwrap_err(), NurseryFull { limit: 0 });
        assert_eq!(nursery.count(), 1, "the newcomer holds no place");

        pass(seconds(5)).await;
        assert_eq!(nursery.count(), 0);
        let welcome = nursery.start(Guest::polite(&diary)).unwrap();
        assert_eq!(welcome.send(Add(3)).await.unwrap(), 3);
        assert_eq!(stats::classes()["shutdowns-newcomers"].started, 2);

        tree.shutdown().await;
        assert_eq!(nursery.start(Guest::polite(&diary)).unwrap_err(), NurseryFull { limit: 0 });
    });
}

#[test]
fn a_tree_goes_on_when_its_handle_is_dropped() {
    play(async {
        let diary = Diary::default();
        let child = Player::spec("clerk", "shutdowns-handle", &diary, Nature::QUIET).backoff(Backoff::NONE);
        let clerk = child.address();
        drop(start(SupervisorSpec::new("root").child(child)));
        pass(seconds(60)).await;
        assert_eq!(clerk.send(Break).await, Err(SendError::Restarting));
        assert_eq!(clerk.send(Add(2)).await, Ok(2));
    });
}
