//! What is logged of an end, and at which level. Log levels are cached for the whole process, so this has its own.

#[allow(dead_code, reason = "this binary uses its own part of the stage")]
#[path = "stories/stage.rs"]
mod stage;

use std::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering::SeqCst},
};

use freshet_kernel::{Backoff, Nursery, Restart, SendError, SupervisorSpec, start, task};
use tracing::{
    Event, Level, Metadata,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};

use stage::*;

/// The lines of the kernel since the last look: level, message, and the panic or reason.
static LINES: Mutex<Vec<(Level, String, String)>> = Mutex::new(Vec::new());

/// A subscriber that notes the kernel's events.
struct Notes;

impl tracing::Subscriber for Notes {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("freshet_kernel")
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        LINES.lock().expect("no panic while noting").push((
            *event.metadata().level(),
            line.message,
            line.why,
        ));
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Id::from_u64(NEXT.fetch_add(1, SeqCst))
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[derive(Default)]
struct Line {
    message: String,
    why: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            "panic" | "reason" => self.why = format!("{value:?}"),
            _ => {}
        }
    }
}

fn read() -> Vec<(Level, String, String)> {
    std::mem::take(&mut *LINES.lock().expect("no panic while noting"))
}

fn line(level: Level, message: &str, why: &str) -> (Level, String, String) {
    (level, message.to_owned(), why.to_owned())
}

#[test]
fn every_end_is_one_line_at_the_level_of_its_weight() {
    tracing::subscriber::set_global_default(Notes).unwrap();
    play(async {
        let diary = Diary::default();
        let shaky = Player::spec("shaky", "log-shaky", &diary, Nature::QUIET).backoff(Backoff::NONE);
        let guest = Player::spec("guest", "log-guest", &diary, Nature::QUIET).restart(Restart::Temporary);
        let stubborn = Nature { refuses_to_stop: true, ..Nature::QUIET };
        let hanging = Player::spec("hanging", "log-hanging", &diary, stubborn);
        let (shaky_address, guest_address) = (shaky.address(), guest.address());
        let inner = SupervisorSpec::new("inner").intensity(2, seconds(60)).child(shaky);
        let root = SupervisorSpec::new("root").intensity(1, seconds(60));
        let tree = start(root.child(hanging).child(guest).supervisor(inner));
        settle().await;
        assert_eq!(read(), []);

        // One restart is news, another is a warning, and too many are an error of the supervisor.
        for expected in [
            line(Level::INFO, "child ended and will be restarted", "panic: handler broke"),
            line(Level::WARN, "child ended again and will be restarted", "panic: handler broke"),
        ] {
            assert_eq!(shaky_address.send(Break).await, Err(SendError::Restarting));
            settle().await;
            assert_eq!(read(), [expected]);
        }
        assert_eq!(shaky_address.send(Break).await, Err(SendError::Restarting));
        settle().await;
        let lines = read();
        let given_up = "restart intensity exceeded, the supervisor gives up";
        assert_eq!(lines[0], line(Level::ERROR, given_up, "panic: handler broke"));
        assert_eq!(lines[1].0, Level::INFO, "its own end is a first one for its parent: {:?}", lines[1]);
        assert_eq!(lines.len(), 2);

        assert_eq!(guest_address.send(Break).await, Err(SendError::Stopped));
        settle().await;
        let gone = "child ended and is not restarted";
        assert_eq!(read(), [line(Level::WARN, gone, "panic: handler broke")]);

        let nursery = Nursery::new("log-nursery", 1);
        let temporary = nursery.start(Guest::polite(&diary)).unwrap();
        assert!(temporary.send(Break).await.is_err());
        settle().await;
        assert_eq!(read(), [line(Level::WARN, "temporary actor panicked", "handler broke")]);

        let lost: Result<(), _> = task::spawn("log", async { panic!("task broke") }).await;
        assert!(lost.is_err());
        assert_eq!(read(), [line(Level::ERROR, "task panicked", "task broke")]);

        tree.shutdown().await;
        assert_eq!(read(), [line(Level::ERROR, "child did not stop in time and was killed", "")]);
    });
}
