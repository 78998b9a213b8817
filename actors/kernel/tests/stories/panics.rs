//! A panic is an exit reason, wherever it happens.

use freshet_kernel::{Backoff, ExitReason, SendError, SupervisorSpec, start, stats};

use crate::stage::*;

#[test]
fn a_panic_in_a_handler_restarts_the_child_from_its_factory() {
    play(async {
        let diary = Diary::default();
        let child = Player::spec("clerk", "panics-handler", &diary, Nature::default()).backoff(Backoff::NONE);
        let clerk = child.address();
        let tree = start(SupervisorSpec::new("root").child(child));
        assert_eq!(clerk.send(Add(5)).await, Ok(5));

        assert_eq!(clerk.send(Break).await, Err(SendError::Restarting));

        assert_eq!(clerk.send(Add(1)).await, Ok(1), "a fresh value, not the old sum");
        let clerk_node = node(&tree, &["clerk"]);
        assert_eq!(clerk_node.restarts, 1);
        assert_eq!(clerk_node.last_exit.unwrap().reason, ExitReason::Panic("handler broke".into()));
        assert_eq!((diary.made(), diary.alive()), (2, 1));
        assert_eq!(stats::classes()["panics-handler"].panics, 1);
    });
}
