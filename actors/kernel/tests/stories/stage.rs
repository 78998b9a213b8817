//! The stage on which the stories play: a simulated clock, and an actor that does what it is told.

use std::{
    future::Future,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use actix::{ActorContext, AsyncContext, Context, Running, WrapFuture};
use freshet_kernel::{Address, Child, ChildSpec, ExitReason, Link, Snapshot, Tree};

/// Runs a story on a clock that jumps ahead whenever nothing is left to do.
pub fn play<T>(story: impl Future<Output = T>) -> T {
    let system = actix_rt::System::with_tokio_rt(|| {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .expect("a runtime")
    });
    system.block_on(story)
}

/// Lets `time` pass on the simulated clock.
pub async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

/// Lets everything happen that needs no time.
pub async fn settle() {
    pass(Duration::from_micros(1)).await;
}

/// What the actors of a story did, in order, and how many of them are alive.
#[derive(Clone, Default)]
pub struct Diary {
    lines: Arc<Mutex<Vec<String>>>,
    alive: Arc<AtomicUsize>,
    made: Arc<AtomicUsize>,
}

impl Diary {
    pub fn write(&self, line: impl Into<String>) {
        self.lines.lock().expect("no panic while writing").push(line.into());
    }

    /// Takes all lines written since the last call.
    pub fn read(&self) -> Vec<String> {
        std::mem::take(&mut *self.lines.lock().expect("no panic while writing"))
    }

    /// Actor values that exist now.
    pub fn alive(&self) -> usize {
        self.alive.load(SeqCst)
    }

    /// Actor values made so far.
    pub fn made(&self) -> usize {
        self.made.load(SeqCst)
    }
}

/// How a player behaves beyond its messages.
#[derive(Clone, Copy)]
pub struct Nature {
    pub panics_in_factory: bool,
    pub panics_in_started: bool,
    pub panics_while_stopping: bool,
    pub panics_in_stopped: bool,
    pub panics_in_drop: bool,
    pub stops_in_started: bool,
    pub refuses_to_stop: bool,
}

impl Nature {
    /// Does nothing of the kind.
    pub const QUIET: Self = Self {
        panics_in_factory: false,
        panics_in_started: false,
        panics_while_stopping: false,
        panics_in_stopped: false,
        panics_in_drop: false,
        stops_in_started: false,
        refuses_to_stop: false,
    };
}

/// An actor that writes down what it does.
pub struct Player {
    pub name: String,
    pub diary: Diary,
    pub nature: Nature,
    pub link: Link<Player>,
    pub sum: u64,
}

impl Player {
    pub fn spec(name: &str, class: &'static str, diary: &Diary, nature: Nature) -> ChildSpec<Self> {
        let (name, diary) = (name.to_owned(), diary.clone());
        ChildSpec::new(name.clone(), class, move |link| {
            if nature.panics_in_factory {
                diary.made.fetch_add(1, SeqCst);
                panic!("factory broke");
            }
            diary.alive.fetch_add(1, SeqCst);
            diary.made.fetch_add(1, SeqCst);
            Player { name: name.clone(), diary: diary.clone(), nature, link, sum: 0 }
        })
    }

    fn note(&self, what: &str) {
        self.diary.write(format!("{} {what}", self.name));
    }
}

impl actix::Actor for Player {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.note("started");
        assert!(!self.nature.panics_in_started, "started broke");
        if self.nature.stops_in_started {
            ctx.stop();
        }
    }

    fn stopping(&mut self, _: &mut Self::Context) -> Running {
        self.note("stopping");
        assert!(!self.nature.panics_while_stopping, "stopping broke");
        if self.nature.refuses_to_stop { Running::Continue } else { Running::Stop }
    }

    fn stopped(&mut self, _: &mut Self::Context) {
        self.note("stopped");
        assert!(!self.nature.panics_in_stopped, "stopped broke");
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        self.diary.alive.fetch_sub(1, SeqCst);
        assert!(!self.nature.panics_in_drop, "drop broke");
    }
}

impl Child for Player {
    fn observe(&self) -> serde_json::Value {
        serde_json::json!({ "sum": self.sum })
    }
}

/// Messages that players understand.
macro_rules! message {
    ($(#[$doc:meta])* $name:ident $(($($field:ty),+))? => $result:ty) => {
        $(#[$doc])*
        #[derive(Debug, PartialEq)]
        pub struct $name $(($(pub $field),+))?;

        impl actix::Message for $name {
            type Result = $result;
        }
    };
}

message!(
    /// Adds a number and answers the sum since the last start.
    Add(u64) => u64
);
message!(
    /// Panics in the handler.
    Break => ()
);
message!(
    /// Panics later, in a future that the actor spawned.
    BreakLater(Duration) => ()
);
message!(
    /// Panics in a stream that the actor added.
    BreakInStream => ()
);
message!(
    /// Stops the player with a reason.
    Exit(ExitReason) => ()
);
message!(
    /// Makes the mailbox wait.
    Pause(Duration) => ()
);
message!(
    /// Makes the mailbox wait with an excuse.
    PauseExcused(Duration) => ()
);
message!(
    /// Declares an outage, or its end.
    Outage(bool) => ()
);

impl actix::Handler<Add> for Player {
    type Result = u64;

    fn handle(&mut self, Add(number): Add, _: &mut Context<Self>) -> u64 {
        self.sum += number;
        self.sum
    }
}

impl actix::Handler<Break> for Player {
    type Result = ();

    fn handle(&mut self, _: Break, _: &mut Context<Self>) {
        panic!("handler broke");
    }
}

impl actix::Handler<BreakLater> for Player {
    type Result = ();

    fn handle(&mut self, BreakLater(delay): BreakLater, ctx: &mut Context<Self>) {
        ctx.run_later(delay, |_, _| panic!("future broke"));
    }
}

impl actix::StreamHandler<u8> for Player {
    fn handle(&mut self, _: u8, _: &mut Context<Self>) {
        panic!("stream broke");
    }
}

impl actix::Handler<BreakInStream> for Player {
    type Result = ();

    fn handle(&mut self, _: BreakInStream, ctx: &mut Context<Self>) {
        ctx.add_stream(futures_util::stream::iter([1_u8]));
    }
}

impl actix::Handler<Exit> for Player {
    type Result = ();

    fn handle(&mut self, Exit(reason): Exit, ctx: &mut Context<Self>) {
        self.link.exit(ctx, reason);
    }
}

impl actix::Handler<Pause> for Player {
    type Result = ();

    fn handle(&mut self, Pause(time): Pause, ctx: &mut Context<Self>) {
        ctx.wait(tokio::time::sleep(time).into_actor(self));
    }
}

impl actix::Handler<PauseExcused> for Player {
    type Result = ();

    fn handle(&mut self, PauseExcused(time): PauseExcused, ctx: &mut Context<Self>) {
        let busy = self.link.busy();
        let pause = async move {
            tokio::time::sleep(time).await;
            drop(busy);
        };
        ctx.wait(pause.into_actor(self));
    }
}

impl actix::Handler<Outage> for Player {
    type Result = ();

    fn handle(&mut self, Outage(begins): Outage, _: &mut Context<Self>) {
        if begins {
            self.link.degraded("broker_down", "connection refused");
        } else {
            self.link.healthy();
        }
    }
}

/// The node of a tree at a path of ids.
pub fn node(tree: &Tree, path: &[&str]) -> Snapshot {
    tree.snapshot().find(path).cloned().expect("a node at that path")
}

pub fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

message!(
    /// Counts a failure.
    Fail => ()
);

impl actix::Handler<Fail> for Player {
    type Result = ();

    fn handle(&mut self, _: Fail, _: &mut Context<Self>) {
        self.link.count_failure();
    }
}

/// Passes a message on, and makes the mailbox wait until there is room for it.
pub struct PassOn(pub Address<Player>, pub Add);

impl actix::Message for PassOn {
    type Result = ();
}

impl actix::Handler<PassOn> for Player {
    type Result = ();

    fn handle(&mut self, PassOn(to, message): PassOn, ctx: &mut Context<Self>) {
        let pass_on = async move { to.tell(message).await.expect("a live sink") };
        ctx.wait(pass_on.into_actor(self));
    }
}

/// A temporary actor.
pub struct Guest {
    diary: Diary,
    stubborn: bool,
}

impl Guest {
    pub fn polite(diary: &Diary) -> impl FnOnce() -> Self + 'static {
        let diary = diary.clone();
        move || Self { diary, stubborn: false }
    }

    pub fn stubborn(diary: &Diary) -> impl FnOnce() -> Self + 'static {
        let diary = diary.clone();
        move || Self { diary, stubborn: true }
    }
}

impl actix::Actor for Guest {
    type Context = Context<Self>;

    fn started(&mut self, _: &mut Self::Context) {
        self.diary.write("guest started");
    }

    fn stopping(&mut self, _: &mut Self::Context) -> Running {
        self.diary.write(if self.stubborn { "guest refuses" } else { "guest stopping" });
        if self.stubborn { Running::Continue } else { Running::Stop }
    }
}

impl actix::Handler<Add> for Guest {
    type Result = u64;

    fn handle(&mut self, Add(number): Add, _: &mut Context<Self>) -> u64 {
        number
    }
}

impl actix::Handler<Break> for Guest {
    type Result = ();

    fn handle(&mut self, _: Break, _: &mut Context<Self>) {
        panic!("handler broke");
    }
}
