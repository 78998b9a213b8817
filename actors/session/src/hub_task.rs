//! What makes a hub move: the newest position, a tick each second, and the drain at shutdown.

use std::rc::Rc;
use std::time::Duration;

use freshet_feed::Position;
use freshet_feed::port::StoreError;
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use jiff::Timestamp;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::administration;
use crate::close_code::CloseCode;
use crate::connection::Connection;
use crate::hub::Hub;

const TICK: Duration = Duration::from_secs(1);
const DRAIN_STEP: Duration = Duration::from_millis(50);

/// Follows the live stream for the life of the thread.
pub(crate) async fn run(hub: Rc<Hub>) {
    let _guard = CloseWithHub(Rc::clone(&hub));
    let mut newest = hub.shared.live.watch();
    let mut questions = hub.shared.desk.open();
    let mut draining = hub.shared.draining.subscribe();
    // What happened between the hub's making and this first poll counts as new.
    newest.mark_changed();
    draining.mark_changed();
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    let mut drain: Option<Drain> = None;
    let mut drain_steps = interval(DRAIN_STEP);
    drain_steps.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut is_behind = false;
    // Kept across the loop: however slow the log is, heartbeats and the drain go on.
    let mut following: Option<LocalBoxFuture<'_, Result<(), StoreError>>> = None;
    loop {
        // Each branch is safe to drop: a watch, an interval and a borrowed future lose nothing by it.
        tokio::select! {
            changed = newest.changed(), if following.is_none() => {
                if changed.is_err() {
                    return;
                }
                following = Some(follow(&hub).boxed_local());
            }
            Some(followed) = conditional(following.as_mut()) => {
                following = None;
                report(&followed, is_behind);
                is_behind = followed.is_err();
            }
            _ = ticks.tick() => {
                if is_behind && following.is_none() {
                    following = Some(follow(&hub).boxed_local());
                }
                hub.tick(Timestamp::now().as_second());
            }
            Some(question) = questions.recv() => administration::answer(&hub, question),
            Ok(()) = draining.changed() => {
                drain = (*draining.borrow()).map(|window| Drain::new(&hub, window));
            }
            _ = drain_steps.tick(), if drain.is_some() => {
                if let Some(drain) = &mut drain {
                    drain.step(&hub);
                }
            }
        }
    }
}

/// Waits for the future, if there is one.
async fn conditional<F: Future + Unpin>(future: Option<F>) -> Option<F::Output> {
    match future {
        Some(future) => Some(future.await),
        None => None,
    }
}

/// An outage is one warning, however often it is met.
fn report(followed: &Result<(), StoreError>, was_behind: bool) {
    match followed {
        Ok(()) if was_behind => tracing::info!("live clients have all events again"),
        Ok(()) => {}
        Err(error) if was_behind => {
            tracing::debug!(code = error.code(), %error, "the log still cannot be read");
        }
        Err(error) => {
            tracing::warn!(code = error.code(), %error, "live clients wait: the log cannot be read");
        }
    }
}

/// Delivers all that is announced. On an error the hub stays where it is, and tries again with the next event or
/// tick.
pub(crate) async fn follow(hub: &Hub) -> Result<(), StoreError> {
    while let Some(newest) = hub.shared.live.position()
        && hub.position() != newest
        && (hub.position().epoch != newest.epoch || hub.position().offset < newest.offset)
    {
        if hub.position().epoch != newest.epoch {
            // The log is another one. What it holds already is read again, from its beginning.
            hub.tell_gap(Position { offset: 0, ..newest });
            continue;
        }
        match hub.shared.backlog.after(hub.position().offset).await? {
            Some(batch) => hub.deliver(&batch),
            None => hub.tell_gap(newest),
        }
        // Others on this thread have their turn before the next batch.
        tokio::task::yield_now().await;
    }
    Ok(())
}

/// Closes the sessions of one thread evenly over a window.
struct Drain {
    started: Instant,
    window: Duration,
    remaining: Vec<Rc<Connection>>,
    total: usize,
}

impl Drain {
    fn new(hub: &Hub, window: Duration) -> Self {
        let remaining = hub.connections();
        Self { started: Instant::now(), window, total: remaining.len(), remaining }
    }

    fn step(&mut self, hub: &Hub) {
        let left = left_open(self.total, self.started.elapsed(), self.window);
        while self.remaining.len() > left {
            if let Some(connection) = self.remaining.pop() {
                hub.close(&connection, CloseCode::ShuttingDown);
            }
        }
    }
}

/// How many of `total` sessions are still open after `elapsed` of the window.
fn left_open(total: usize, elapsed: Duration, window: Duration) -> usize {
    let Some(remaining) = window.checked_sub(elapsed).filter(|remaining| !remaining.is_zero()) else {
        return 0;
    };
    let share = total as u128 * remaining.as_millis() / window.as_millis().max(1);
    usize::try_from(share).unwrap_or(total)
}

/// Without its task a hub would leave its clients silently behind. When the task ends, by a panic or with its
/// thread, they are told to come back, and the next client of the thread gets a new hub.
struct CloseWithHub(Rc<Hub>);

impl Drop for CloseWithHub {
    fn drop(&mut self) {
        self.0.shared.forget_hub(&self.0);
        for connection in self.0.connections() {
            self.0.close(&connection, CloseCode::InternalError);
        }
    }
}

#[cfg(test)]
#[path = "hub_task_tests.rs"]
mod tests;
