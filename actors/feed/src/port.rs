//! The traits through which rooms meet. An implementation is an embedded default or a real engine; callers
//! hold an `Arc<dyn …>` and cannot tell which.

use futures_util::future::BoxFuture;

use jiff::Timestamp;

use crate::scope::Rooms;
use crate::{ChannelName, DeadLetter, Epoch, Event, Position};

/// What became of one event that was published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is durable and has a position; dashboards see it.
    Accepted {
        /// Where it stands in the log.
        position: Position,
    },
    /// The same event, or the same commit by another way, is known already. Nothing was written.
    Duplicate,
}

/// Why something could not be made durable now. Nothing is lost by it: the caller still holds its input, has
/// acknowledged nothing, and tries again after a backoff.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The store cannot take more now: the disk is full, the file cannot be read, the engine cannot be reached.
    #[error("store unavailable: {0}")]
    Unavailable(String),
    /// The daemon is stopping.
    #[error("stopping")]
    Stopping,
}

impl StoreError {
    /// The stable machine code of the error.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unavailable(_) => "store_unavailable",
            Self::Stopping => "stopping",
        }
    }
}

/// Takes events in and makes them durable and visible. Sources depend on this and on nothing else.
pub trait Publisher: Send + Sync + 'static {
    /// Publishes events in their order. When it answers, each is durable; the answers stand in the order of
    /// the events. It waits while the log is busy: that wait is the back-pressure.
    ///
    /// Cancel safety: when the future is dropped the events may or may not become durable. Publishing them
    /// again is harmless, since duplicates are recognised.
    fn publish(&self, events: Vec<Event>) -> BoxFuture<'_, Result<Vec<Outcome>, StoreError>>;
}

/// Keeps what could not be processed.
pub trait DeadLetterStore: Send + Sync + 'static {
    /// Makes the letters durable, all or none.
    fn bury(&self, letters: Vec<DeadLetter>) -> BoxFuture<'_, Result<(), StoreError>>;
}

/// The part of the log that can be read now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The life of the log.
    pub epoch: Epoch,
    /// The offset of the oldest event that is still held; `last + 1` when none is.
    pub first: u64,
    /// The offset of the newest event; 0 when there never was one.
    pub last: u64,
}

/// An event at its offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logged {
    /// Its offset in the log's epoch.
    pub offset: u64,
    /// When it was appended. Only to tell how old it is: clocks of several instances may differ.
    pub appended_at: Timestamp,
    /// The event.
    pub event: Event,
}

/// How much one read may return. The first event is returned whatever its size.
#[derive(Clone, Copy, Debug)]
pub struct PageLimit {
    /// At most this many events.
    pub events: usize,
    /// At most this many bytes of bodies.
    pub bytes: usize,
}

/// The ordered, durable log of events.
pub trait EventLog: Send + Sync + 'static {
    /// Appends events in their order and answers when they are durable. Accepted events get successive
    /// offsets. One caller appends at a time: the Broadcaster.
    fn append(&self, events: Vec<Event>) -> BoxFuture<'_, Result<Vec<Outcome>, StoreError>>;

    /// Events after `offset`, oldest first. Empty means that there is none yet.
    fn read_after(&self, offset: u64, limit: PageLimit) -> BoxFuture<'_, Result<Vec<Logged>, StoreError>>;

    /// The offset of the event with this id, while it is held.
    fn locate(&self, event_id: String) -> BoxFuture<'_, Result<Option<u64>, StoreError>>;

    /// What can be read now.
    fn bounds(&self) -> BoxFuture<'_, Result<Bounds, StoreError>>;

    /// The newest event of each key of a channel that is still held, as of one moment.
    fn newest_by_key(&self, request: NewestByKey) -> BoxFuture<'_, Result<KeyedState, StoreError>>;

    /// The events at these offsets that are still held, oldest first. The offsets rise.
    fn read_at(&self, offsets: Vec<u64>) -> BoxFuture<'_, Result<Vec<Logged>, StoreError>>;
}

/// What [`EventLog::newest_by_key`] looks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewestByKey {
    /// The channel.
    pub channel: ChannelName,
    /// The rooms of it.
    pub rooms: Rooms,
    /// Events that were appended before this are not counted; nothing counts all.
    pub appended_since: Option<Timestamp>,
    /// At most this many keys.
    pub max_keys: usize,
}

/// The state of a channel: where its newest events stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyedState {
    /// The offset of the log's newest event at that moment, of whatever channel: what comes after it changes the
    /// state.
    pub through: u64,
    /// The offset of the newest event of each key, rising.
    pub offsets: Vec<u64>,
    /// Whether there are more keys than were asked for. The offsets are then not the whole state.
    pub is_cut: bool,
}

/// Hears of events of a log that several instances append to, in the order of their offsets.
pub trait Announce: Send + Sync + 'static {
    /// These are the next events of the log. They are durable.
    fn announce(&self, epoch: Epoch, events: Vec<Logged>);

    /// Where announcing goes on: nothing is announced of what lies before. An epoch that differs from the one that was
    /// known means that the log is another one.
    fn stands_at(&self, position: Position);
}
