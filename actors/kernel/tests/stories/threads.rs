//! Children with a thread of their own. These stories use the real clock, because a simulated one would not wait for
//! other threads; they wait for messages and never sleep.

use std::{
    sync::mpsc::{Receiver, sync_channel},
    thread::ThreadId,
    time::Duration,
};

use actix::Context;
use freshet_kernel::{Backoff, Child, ChildSpec, ExitReason, Placement, SendError, SupervisorSpec, start};

use crate::stage::*;

fn play_in_real_time<T>(story: impl Future<Output = T>) -> T {
    actix_rt::System::new().block_on(story)
}

struct Loner {
    gate: std::sync::Arc<std::sync::Mutex<Receiver<()>>>,
}

impl actix::Actor for Loner {
    type Context = Context<Self>;
}

impl Child for Loner {
    fn observe(&self) -> serde_json::Value {
        serde_json::Value::Null
    }
}

#[derive(actix::Message)]
#[rtype(result = "String")]
struct Where;

impl actix::Handler<Where> for Loner {
    type Result = String;

    fn handle(&mut self, _: Where, _: &mut Context<Self>) -> String {
        format!("{:?}", std::thread::current().id())
    }
}

/// Blocks the thread until the gate opens.
#[derive(actix::Message)]
#[rtype(result = "()")]
struct Block;

impl actix::Handler<Block> for Loner {
    type Result = ();

    fn handle(&mut self, _: Block, _: &mut Context<Self>) {
        self.gate.lock().expect("no panic while waiting").recv().expect("an open gate");
    }
}

impl actix::Handler<Break> for Loner {
    type Result = ();

    fn handle(&mut self, _: Break, _: &mut Context<Self>) {
        panic!("handler broke");
    }
}

fn loner() -> (ChildSpec<Loner>, std::sync::mpsc::SyncSender<()>) {
    let (open, gate) = sync_channel(1);
    let gate = std::sync::Arc::new(std::sync::Mutex::new(gate));
    let child = ChildSpec::new("loner", "threads", move |_| Loner { gate: gate.clone() })
        .on(Placement::OwnThread)
        .backoff(Backoff::NONE);
    (child, open)
}

fn here() -> String {
    let id: ThreadId = std::thread::current().id();
    format!("{id:?}")
}

#[test]
fn each_run_has_a_fresh_thread() {
    play_in_real_time(async {
        let (child, _open) = loner();
        let address = child.address();
        let tree = start(SupervisorSpec::new("root").child(child));
        let first = address.send(Where).await.unwrap();
        assert_ne!(first, here());
        assert_eq!(address.send(Break).await, Err(SendError::Restarting));
        let second = address.send(Where).await.unwrap();
        assert_ne!(second, first);
        assert_eq!(tree.shutdown().await.reason, ExitReason::Shutdown);
        assert_eq!(node(&tree, &["loner"]).last_exit.unwrap().reason, ExitReason::Shutdown);
    });
}

#[test]
fn a_run_that_blocks_its_thread_is_disowned_and_takes_no_message_from_its_replacement() {
    play_in_real_time(async {
        let (child, open) = loner();
        let child = child.stuck_after(Duration::from_millis(50));
        let address = child.address();
        let tree = start(SupervisorSpec::new("root").child(child));
        let first = address.send(Where).await.unwrap();
        address.tell(Block).await.unwrap();
        let second = address.send(Where).await.unwrap();
        assert_ne!(second, first, "the queued question went to the replacement");
        let stuck = node(&tree, &["loner"]);
        assert_eq!(stuck.last_exit.unwrap().reason, ExitReason::Stuck);
        assert_eq!((stuck.restarts, stuck.lost_threads), (1, 1));

        open.send(()).unwrap();
        for _ in 0..100 {
            assert_eq!(address.send(Where).await.as_deref(), Ok(second.as_str()));
        }
        tree.shutdown().await;
    });
}
