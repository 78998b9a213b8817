//! Bounded mailboxes whose senders wait, and addresses that stay valid.

use std::time::Duration;

use freshet_kernel::{
    Address, Backoff, Link, Nursery, SendError, SupervisorSpec, Tree, TryTellError, start, stats, task,
};
use futures_util::future::join_all;

use crate::stage::*;

#[test]
fn a_sender_waits_for_room_and_nothing_is_lost() {
    play(async {
        let diary = Diary::default();
        let child = Player::spec("clerk", "mailboxes-full", &diary, Nature::QUIET).mailbox(2);
        let clerk = child.address();
        let tree = start(SupervisorSpec::new("root").child(child));
        clerk.send(Pause(seconds(10))).await.unwrap();

        clerk.tell(Add(1)).await.unwrap();
        clerk.tell(Add(1)).await.unwrap();
        assert_eq!(clerk.try_tell(Add(100)), Err(TryTellError::Full(Add(100))));
        let full = node(&tree, &["clerk"]).mailbox.unwrap();
        assert_eq!((full.capacity, full.depth, full.waits), (2, 2, 0));

        let answers = join_all((0..5).map(|_| clerk.send(Add(1)))).await;
        assert_eq!(answers, [Ok(3), Ok(4), Ok(5), Ok(6), Ok(7)], "in order");

        let mailbox = node(&tree, &["clerk"]).mailbox.unwrap();
        assert_eq!((mailbox.depth, mailbox.waits), (0, 5));
        let waited = Duration::from_nanos(mailbox.wait_nanos);
        assert!(waited >= seconds(50) && waited < seconds(51), "five senders, ten seconds each: {waited:?}");
        let class = stats::classes()["mailboxes-full"];
        assert_eq!((class.mailbox_waits, class.mailbox_depth, class.handled), (5, 0, 8));
        assert_eq!(class.mailbox_wait_nanos, mailbox.wait_nanos);
        let queued = Duration::from_nanos(class.mailbox_queued_nanos);
        assert!(queued >= seconds(20), "two messages lay there for ten seconds: {queued:?}");
        let processing = Duration::from_nanos(class.processing_nanos);
        assert!(processing >= seconds(10) && processing < seconds(11), "the pause: {processing:?}");
    });
}

#[test]
fn a_sender_that_gives_up_leaves_no_message_but_its_wait_is_counted() {
    play(async {
        let diary = Diary::default();
        let child = Player::spec("clerk", "mailboxes-give-up", &diary, Nature::QUIET).mailbox(1);
        let clerk = child.address();
        let tree = start(SupervisorSpec::new("root").child(child));
        clerk.send(Pause(seconds(10))).await.unwrap();
        clerk.tell(Add(1)).await.unwrap();
        assert!(tokio::time::timeout(seconds(3), clerk.tell(Add(100))).await.is_err());
        let wait_nanos = node(&tree, &["clerk"]).mailbox.unwrap().wait_nanos;
        assert_eq!(Duration::from_nanos(wait_nanos).as_secs(), 3);
        assert_eq!(clerk.send(Add(1)).await, Ok(2));
    });
}

#[test]
fn queued_messages_survive_a_restart_and_the_message_in_hand_does_not() {
    play(async {
        let diary = Diary::default();
        let child = Player::spec("clerk", "mailboxes-survive", &diary, Nature::QUIET)
            .backoff(Backoff { min: seconds(4), max: seconds(4) });
        let clerk = child.address();
        assert_eq!(clerk.try_tell(Add(1)), Ok(()), "before the start of the tree");
        let _tree = start(SupervisorSpec::new("root").child(child));
        for round in 1..=5 {
            let (lost, first, second) =
                tokio::join!(clerk.send(Break), clerk.send(Add(round)), clerk.send(Add(round)));
            assert_eq!(lost, Err(SendError::Restarting), "round {round}");
            assert_eq!((first, second), (Ok(round), Ok(2 * round)));
            pass(seconds(6)).await;
        }
        assert_eq!(diary.made(), 6);
    });
}

#[test]
fn after_the_tree_ended_every_sender_learns_that_it_stopped() {
    play(async {
        let diary = Diary::default();
        let child = Player::spec("clerk", "mailboxes-ended", &diary, Nature::QUIET).mailbox(1);
        let clerk = child.address();
        let tree = start(SupervisorSpec::new("root").child(child));
        clerk.send(Pause(seconds(3600))).await.unwrap();
        let queued = clerk.send(Add(1));
        let waiting = clerk.send(Add(2));
        let shutdown = async {
            settle().await;
            tree.shutdown().await
        };
        let (queued, waiting, _) = tokio::join!(queued, waiting, shutdown);
        assert_eq!((queued, waiting), (Err(SendError::Stopped), Err(SendError::Stopped)));
        assert_eq!(clerk.send(Add(1)).await, Err(SendError::Stopped));
        assert_eq!(clerk.tell(Add(1)).await, Err(SendError::Stopped));
        assert_eq!(clerk.try_tell(Add(9)), Err(TryTellError::Stopped(Add(9))));
        assert_eq!(stats::classes()["mailboxes-ended"].mailbox_depth, 0);
    });
}

#[test]
fn a_busy_actor_lets_the_others_of_its_thread_run() {
    play(async {
        let diary = Diary::default();
        let child = Player::spec("clerk", "mailboxes-fair", &diary, Nature::QUIET).mailbox(1_000);
        let clerk = child.address();
        for _ in 0..1_000 {
            clerk.try_tell(Add(1)).unwrap();
        }
        let _tree = start(SupervisorSpec::new("root").child(child));
        let neighbour = task::spawn("mailboxes-neighbour", async move {
            let mut seen = vec![0];
            while seen.last() != Some(&1_000) {
                tokio::task::yield_now().await;
                seen.push(stats::classes()["mailboxes-fair"].handled);
                assert!(seen.len() < 10_000, "{seen:?}");
            }
            seen
        });
        let seen = neighbour.await.unwrap();
        let largest_turn = seen.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
        assert!(largest_turn <= 64, "{largest_turn} messages without a pause: {seen:?}");
    });
}

#[test]
fn a_request_whose_caller_is_gone_is_skipped() {
    play(async {
        let diary = Diary::default();
        let child = Player::spec("clerk", "mailboxes-skip", &diary, Nature::QUIET);
        let clerk = child.address();
        let _tree = start(SupervisorSpec::new("root").child(child));
        clerk.send(Pause(seconds(10))).await.unwrap();
        assert!(tokio::time::timeout(seconds(1), clerk.send(Add(100))).await.is_err());
        assert_eq!(clerk.send(Add(1)).await, Ok(1));
    });
}

#[test]
fn handles_can_go_to_other_threads() {
    fn is_send_and_sync<T: Send + Sync>() {}
    fn is_send<T: Send>(_: &T) {}
    is_send_and_sync::<Address<Player>>();
    is_send_and_sync::<Link<Player>>();
    is_send_and_sync::<Tree>();
    is_send_and_sync::<Nursery>();
    play(async {
        let diary = Diary::default();
        let child = Player::spec("clerk", "mailboxes-threads", &diary, Nature::QUIET);
        let clerk = child.address();
        let _tree = start(SupervisorSpec::new("root").child(child));
        is_send(&clerk.send(Add(1)));
        let elsewhere = clerk.clone();
        let asked = task::blocking("ask", move || elsewhere.try_tell(Add(5))).await;
        assert_eq!(asked, Ok(Ok(())));
        assert_eq!(clerk.send(Add(1)).await, Ok(6));
    });
}
