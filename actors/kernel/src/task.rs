//! Tasks and blocking work, named and bounded.

use std::{
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    sync::Mutex,
    task::{Context, Poll},
};

use tokio::{
    sync::Semaphore,
    task::{AbortHandle, JoinHandle},
};

use crate::{sync::lock, unwind};

/// How many closures of [`blocking`] run at once in this process; further ones wait their turn.
pub const BLOCKING_LIMIT: usize = 64;

static BLOCKING_ROOM: Semaphore = Semaphore::const_new(BLOCKING_LIMIT);

static PANICS: Mutex<BTreeMap<&'static str, u64>> = Mutex::new(BTreeMap::new());

/// A task or a closure ended without a result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TaskLost {
    /// It panicked. The panic was logged and counted under the task's name.
    #[error("task panicked: {0}")]
    Panicked(String),
    /// It was aborted, or its runtime ended.
    #[error("task was aborted")]
    Aborted,
}

/// How many panics each named task or closure has had since the process started.
pub fn panics() -> BTreeMap<&'static str, u64> {
    lock(&PANICS).clone()
}

fn report(name: &'static str, message: String) -> TaskLost {
    *lock(&PANICS).entry(name).or_default() += 1;
    tracing::error!(task = name, panic = %message, "task panicked");
    TaskLost::Panicked(message)
}

/// Owns a task: dropping the handle aborts the task, so that a task never outlives the actor that holds its handle.
///
/// Awaiting the handle gives the task's result. To let the task go on by itself call [`Self::detach`].
#[must_use = "dropping the handle aborts the task; keep it, await it, or call detach()"]
pub struct TaskHandle<T> {
    join: JoinHandle<Result<T, TaskLost>>,
    abort_on_drop: Option<AbortHandle>,
}

impl<T> TaskHandle<T> {
    /// Ends the task at its next await. Safe to call again, and after the end.
    pub fn abort(&self) {
        self.join.abort();
    }

    /// Whether the task has ended.
    pub fn is_finished(&self) -> bool {
        self.join.is_finished()
    }

    /// Lets the task run on without an owner, until it ends or its thread stops.
    pub fn detach(mut self) {
        self.abort_on_drop = None;
    }
}

impl<T> Future for TaskHandle<T> {
    type Output = Result<T, TaskLost>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.join).poll(cx).map(|joined| joined.unwrap_or(Err(TaskLost::Aborted)))
    }
}

impl<T> Drop for TaskHandle<T> {
    fn drop(&mut self) {
        if let Some(task) = &self.abort_on_drop {
            task.abort();
        }
    }
}

/// A future whose panics, in a poll or in its drop, are caught.
struct Caught<F> {
    future: Option<Pin<Box<F>>>,
    name: &'static str,
}

impl<F: Future> Future for Caught<F> {
    type Output = Result<F::Output, TaskLost>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(future) = self.future.as_mut() else {
            return Poll::Ready(Err(TaskLost::Aborted));
        };
        match unwind::catch(|| future.as_mut().poll(cx)) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
            Err(message) => {
                let lost = report(self.name, message);
                Poll::Ready(Err(lost))
            }
        }
    }
}

impl<F> Drop for Caught<F> {
    fn drop(&mut self) {
        let future = self.future.take();
        if let Err(message) = unwind::catch(move || drop(future)) {
            report(self.name, message);
        }
    }
}

/// Runs `future` as a task of its own on the current thread. It need not be `Send`.
///
/// A panic is caught, logged once and counted under `name`. The handle aborts the task when it is dropped.
///
/// # Panics
/// Outside an actix system.
pub fn spawn<F>(name: &'static str, future: F) -> TaskHandle<F::Output>
where
    F: Future + 'static,
{
    let caught = Caught { future: Some(Box::pin(future)), name };
    #[expect(clippy::disallowed_methods, reason = "this is the spawn that all others go through")]
    let join = actix_rt::spawn(caught);
    TaskHandle { abort_on_drop: Some(join.abort_handle()), join }
}

/// Runs a closure that blocks (files, SQLite, compression) on a thread for such work, and waits for its result.
///
/// At most [`BLOCKING_LIMIT`] run at once in the process; the others wait for room. Dropping the future before the
/// closure has begun forgets the closure; after that the closure runs to its end and keeps its place until then.
///
/// # Errors
/// [`TaskLost::Panicked`] when the closure panicked (logged and counted under `name`), [`TaskLost::Aborted`] when the
/// runtime is shutting down.
pub async fn blocking<T, F>(name: &'static str, closure: F) -> Result<T, TaskLost>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let place = BLOCKING_ROOM.acquire().await.map_err(|_| TaskLost::Aborted)?;
    #[expect(clippy::disallowed_methods, reason = "this is the bounded way to blocking threads")]
    let work = tokio::task::spawn_blocking(move || {
        let result = unwind::catch(closure);
        drop(place);
        result
    });
    match work.await {
        Ok(result) => result.map_err(|message| report(name, message)),
        Err(_) => Err(TaskLost::Aborted),
    }
}
