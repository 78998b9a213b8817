//! Restart types, backoff, intensity, escalation.

use std::time::Duration;

use freshet_kernel::{Backoff, ExitReason, NodeState, Restart, SendError, SupervisorSpec, start, stats};
use tokio::time::Instant;

use crate::stage::*;

const PANICS_AT_START: Nature = Nature { panics_in_started: true, ..Nature::QUIET };

#[test]
fn a_started_that_always_fails_waits_longer_each_time_and_then_the_tree_gives_up() {
    play(async {
        let diary = Diary::default();
        let begun = Instant::now();
        let starts = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let child = {
            let (diary, starts) = (diary.clone(), std::sync::Arc::clone(&starts));
            freshet_kernel::ChildSpec::new("clerk", "restarts-failing", move |link| {
                starts.lock().unwrap().push(begun.elapsed());
                Player { name: "clerk".into(), diary: diary.clone(), nature: PANICS_AT_START, link, sum: 0 }
            })
            .backoff(Backoff { min: seconds(1), max: seconds(8) })
        };
        let clerk = child.address();
        let inner = SupervisorSpec::new("inner").intensity(5, seconds(5)).child(child);
        let tree = start(SupervisorSpec::new("root").intensity(0, seconds(5)).supervisor(inner));

        let ExitReason::Error(reason) = tree.wait().await else { panic!() };

        assert!(reason.contains("exceeded in root"), "the escalation reached the root: {reason}");
        assert!(reason.contains("exceeded in inner"), "{reason}");
        assert!(reason.contains("started broke"), "{reason}");
        let starts = starts.lock().unwrap().clone();
        assert_eq!(
            starts.len(),
            6,
            "one start and five restarts, although the delays add up to more than 5 s"
        );
        let gaps: Vec<Duration> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
        for (gap, ceiling_secs) in gaps.iter().zip([1, 2, 4, 8, 8]) {
            let ceiling = seconds(ceiling_secs);
            assert!(
                *gap >= ceiling / 2 && *gap <= ceiling + Duration::from_millis(5),
                "{gap:?} of {ceiling:?}"
            );
        }
        assert_eq!(clerk.send(Add(1)).await, Err(SendError::Stopped));
        assert_eq!(stats::classes()["restarts-failing"].panics, 6);
        assert_eq!(tree.snapshot().state, NodeState::Stopped);
    });
}

#[test]
fn a_started_that_always_stops_does_not_spin() {
    play(async {
        let diary = Diary::default();
        let nature = Nature { stops_in_started: true, ..Nature::QUIET };
        let child = Player::spec("clerk", "restarts-stopping", &diary, nature);
        let _tree = start(SupervisorSpec::new("root").intensity(1_000, seconds(5)).child(child));
        pass(seconds(60)).await;
        // Whole delays end at 0.5, 1.5, 3.5, 7.5, 15.5, 31.5, 61.5 s: 6 restarts in a minute at the least. Halved ones end
        // at 0.25, 0.75, 1.75, 3.75, 7.75, 15.75, 30.75, 45.75, 60.75 s: 8 at the most.
        assert!((7..=9).contains(&diary.made()), "{} starts in a minute", diary.made());
    });
}

#[test]
fn a_failing_supervisor_is_restarted_as_one_child_of_its_parent() {
    play(async {
        let diary = Diary::default();
        let calm = Player::spec("calm", "restarts-escalate", &diary, Nature::QUIET);
        let shaky = Player::spec("shaky", "restarts-escalate", &diary, Nature::QUIET).backoff(Backoff::NONE);
        let address = shaky.address();
        let inner = SupervisorSpec::new("inner").intensity(1, seconds(5)).child(calm).child(shaky);
        let tree = start(SupervisorSpec::new("root").intensity(1, seconds(60)).supervisor(inner));
        settle().await;
        diary.read();
        assert_eq!(address.send(Break).await, Err(SendError::Restarting));
        assert_eq!(address.send(Break).await, Err(SendError::Restarting));
        assert_eq!(address.send(Add(3)).await, Ok(3), "the address is good for the new tree");
        assert_eq!(
            diary.read(),
            ["shaky started", "calm stopping", "calm stopped", "calm started", "shaky started"]
        );
        assert_eq!(node(&tree, &["inner"]).restarts, 1);

        assert_eq!(
            address.send(Break).await,
            Err(SendError::Restarting),
            "a new window for the new supervisor"
        );
        let last = address.send(Break).await;
        assert!(matches!(tree.wait().await, ExitReason::Error(_)), "the root allowed one restart: {last:?}");
        assert_eq!(address.send(Add(1)).await, Err(SendError::Stopped));
        assert_eq!(diary.alive(), 0);
    });
}

#[test]
fn backoff_starts_again_after_a_healthy_time() {
    play(async {
        let diary = Diary::default();
        let child = Player::spec("clerk", "restarts-healthy", &diary, Nature::QUIET)
            .backoff(Backoff { min: seconds(1), max: seconds(10) });
        let clerk = child.address();
        let tree = start(SupervisorSpec::new("root").intensity(100, seconds(5)).child(child));
        let attempt = async || {
            let _ = clerk.send(Break).await;
            settle().await;
            match node(&tree, &["clerk"]).state {
                NodeState::Backoff { attempt, .. } => attempt,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(attempt().await, 1);
        pass(seconds(5)).await;
        assert_eq!(attempt().await, 2, "4 to 4.5 s up is not healthy enough");
        pass(seconds(2 + 11)).await;
        assert_eq!(attempt().await, 1, "more than 10 s up");
        pass(seconds(1)).await;
        clerk.send(Outage(true)).await.unwrap();
        pass(seconds(30)).await;
        assert_eq!(attempt().await, 2, "degraded time is no healthy time");
    });
}

#[test]
fn restarts_that_are_far_apart_never_exceed_the_intensity() {
    play(async {
        let diary = Diary::default();
        let child = Player::spec("clerk", "restarts-apart", &diary, Nature::QUIET).backoff(Backoff::NONE);
        let clerk = child.address();
        let tree = start(SupervisorSpec::new("root").intensity(1, seconds(5)).child(child));
        for _ in 0..10 {
            assert_eq!(clerk.send(Break).await, Err(SendError::Restarting));
            pass(seconds(6)).await;
        }
        assert_eq!(node(&tree, &["clerk"]).restarts, 10);
    });
}

#[test]
fn a_transient_child_stays_down_after_a_normal_end_only() {
    play(async {
        let diary = Diary::default();
        let child = Player::spec("job", "restarts-transient", &diary, Nature::QUIET)
            .restart(Restart::Transient)
            .backoff(Backoff::NONE);
        let job = child.address();
        let tree = start(SupervisorSpec::new("root").child(child));
        job.send(Exit(ExitReason::Error("disk full".into()))).await.unwrap();
        assert_eq!(job.send(Add(1)).await, Ok(1), "an error brings it back");
        assert_eq!(node(&tree, &["job"]).last_exit.unwrap().reason, ExitReason::Error("disk full".into()));
        job.send(Exit(ExitReason::Normal)).await.unwrap();
        settle().await;
        assert_eq!(job.send(Add(1)).await, Err(SendError::Stopped));
        assert_eq!(node(&tree, &["job"]).state, NodeState::Stopped);
        assert_eq!(tree.snapshot().state, NodeState::Running, "its supervisor goes on");
    });
}

#[test]
fn a_permanent_child_comes_back_after_a_normal_end() {
    play(async {
        let diary = Diary::default();
        let child = Player::spec("clerk", "restarts-permanent", &diary, Nature::QUIET).backoff(Backoff::NONE);
        let clerk = child.address();
        let _tree = start(SupervisorSpec::new("root").child(child));
        clerk.send(Exit(ExitReason::Normal)).await.unwrap();
        assert_eq!(clerk.send(Add(7)).await, Ok(7));
        assert_eq!(diary.read(), ["clerk started", "clerk stopping", "clerk stopped", "clerk started"]);
    });
}

#[test]
fn an_outage_is_a_state_and_burns_no_budget() {
    play(async {
        let diary = Diary::default();
        let child = Player::spec("clerk", "restarts-outage", &diary, Nature::QUIET);
        let clerk = child.address();
        let tree = start(SupervisorSpec::new("root").intensity(0, seconds(5)).child(child));
        for _ in 0..50 {
            clerk.send(Outage(true)).await.unwrap();
            pass(seconds(1)).await;
            assert!(matches!(
                node(&tree, &["clerk"]).state,
                NodeState::Degraded { code: "broker_down", ref reason, degraded_millis: 1000 } if reason == "connection refused"
            ));
            clerk.send(Outage(false)).await.unwrap();
            assert_eq!(node(&tree, &["clerk"]).state, NodeState::Running);
        }
        assert_eq!(node(&tree, &["clerk"]).restarts, 0);
    });
}

#[test]
fn a_thousand_restarts_leave_nothing_behind() {
    play(async {
        let diary = Diary::default();
        let child = Player::spec("clerk", "restarts-thousand", &diary, Nature::QUIET).backoff(Backoff::NONE);
        let clerk = child.address();
        let tree = start(SupervisorSpec::new("root").intensity(1_000_000, seconds(1)).child(child));
        let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
        let local_tasks_before = {
            settle().await;
            tasks()
        };
        for _ in 0..1_000 {
            assert_eq!(clerk.send(Break).await, Err(SendError::Restarting));
        }
        assert_eq!(clerk.send(Add(1)).await, Ok(1));
        settle().await;
        assert_eq!((diary.made(), diary.alive()), (1_001, 1));
        assert_eq!(node(&tree, &["clerk"]).restarts, 1_000);
        assert_eq!(tasks(), local_tasks_before);
    });
}
