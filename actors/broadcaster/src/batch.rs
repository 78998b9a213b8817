//! Successive events with their frames, rendered once and shared by all clients.

use std::ops::Range;
use std::sync::OnceLock;

use bytes::{Bytes, BytesMut};
use freshet_feed::port::Logged;
use freshet_feed::{Epoch, Event, Position};
use jiff::Timestamp;

use crate::render::write_sse;
use crate::render_ws::write_ws;

/// One event of a [`Batch`].
#[derive(Clone, Debug)]
pub struct Rendered {
    /// Its offset in the log.
    pub offset: u64,
    /// When it was appended.
    pub appended_at: Timestamp,
    /// The event. Its body shares the memory of the frame where it stands in it in one piece.
    pub event: Event,
    /// Its server-sent event; a slice of [`Batch::sse`].
    pub sse: Bytes,
}

/// Successive events of the log, oldest first, at least one. Clones of its bytes share one buffer.
#[derive(Clone, Debug)]
pub struct Batch {
    first: u64,
    last: u64,
    epoch: Epoch,
    events: Vec<Rendered>,
    sse: Bytes,
    /// The same events as WebSocket frames, once a client wants them.
    websocket: OnceLock<Joined>,
}

/// Frames that follow one another in one buffer.
#[derive(Clone, Debug)]
struct Joined {
    bytes: Bytes,
    /// Where each ends.
    ends: Vec<usize>,
}

impl Joined {
    fn slice(&self, range: Range<usize>) -> Bytes {
        let end_of = |count: usize| count.checked_sub(1).map_or(0, |last| self.ends[last]);
        self.bytes.slice(end_of(range.start)..end_of(range.end).max(end_of(range.start)))
    }
}

impl Batch {
    /// Renders the events, which must be in the order of their offsets. Nothing when there is none.
    #[must_use]
    pub fn render(epoch: Epoch, logged: Vec<Logged>) -> Option<Self> {
        let first = logged.first()?.offset;
        let last = logged.last()?.offset;
        let mut buffer = BytesMut::new();
        let mut events = Vec::with_capacity(logged.len());
        let mut ends = Vec::with_capacity(logged.len());
        for Logged { offset, appended_at, event } in logged {
            write_sse(&event, Position { epoch, offset }, &mut buffer);
            ends.push(buffer.len());
            events.push(Rendered { offset, appended_at, event, sse: Bytes::new() });
        }
        let sse = buffer.freeze();
        let mut start = 0;
        for (rendered, end) in events.iter_mut().zip(ends) {
            rendered.sse = sse.slice(start..end);
            start = end;
            // One copy of the body in memory is enough: the frame ends with it and two line feeds.
            let body_start = rendered.sse.len().checked_sub(2 + rendered.event.body.len());
            if let Some(in_frame) = body_start.map(|at| rendered.sse.slice(at..rendered.sse.len() - 2))
                && in_frame == rendered.event.body
            {
                rendered.event.body = in_frame;
            }
        }
        Some(Self { first, last, epoch, events, sse, websocket: OnceLock::new() })
    }

    /// The offset of its oldest event.
    #[must_use]
    pub fn first(&self) -> u64 {
        self.first
    }

    /// The offset of its newest event.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.last
    }

    /// All its frames, joined.
    #[must_use]
    pub fn sse(&self) -> &Bytes {
        &self.sse
    }

    /// Its events, oldest first.
    #[must_use]
    pub fn events(&self) -> &[Rendered] {
        &self.events
    }

    /// The indexes of its events with `after < offset <= until`.
    #[must_use]
    pub fn range(&self, after: u64, until: u64) -> Range<usize> {
        let start = self.events.partition_point(|rendered| rendered.offset <= after);
        let end = self.events.partition_point(|rendered| rendered.offset <= until);
        start..end.max(start)
    }

    /// The life of the log in which its offsets count.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The joined WebSocket messages of the events at these indexes, one text frame each, without a copy. They are
    /// rendered when they are first asked for.
    #[must_use]
    pub fn websocket_of(&self, range: Range<usize>) -> Bytes {
        let joined = self.websocket.get_or_init(|| {
            let mut buffer = BytesMut::with_capacity(self.sse.len() + self.events.len() * 128);
            let write = |rendered: &Rendered| {
                let position = Position { epoch: self.epoch, offset: rendered.offset };
                let Event { event_id, channel, name, key, room, body, .. } = &rendered.event;
                let (key, room) = (key.as_deref(), room.as_deref());
                write_ws(channel.as_str(), name, event_id, key, room, position, body, &mut buffer);
                buffer.len()
            };
            let ends = self.events.iter().map(write).collect();
            Joined { bytes: buffer.freeze(), ends }
        });
        joined.slice(range)
    }

    /// The joined frames of the events at these indexes, without a copy.
    #[must_use]
    pub fn sse_of(&self, range: Range<usize>) -> Bytes {
        let lengths = |events: &[Rendered]| events.iter().map(|rendered| rendered.sse.len()).sum::<usize>();
        let start = lengths(&self.events[..range.start]);
        let end = start + lengths(&self.events[range]);
        self.sse.slice(start..end)
    }
}

/// Cuts events into batches of at most `max_bytes` of bodies; a larger event stands alone.
pub(crate) fn cut(events: Vec<Logged>, max_bytes: usize) -> Vec<Vec<Logged>> {
    let mut batches = Vec::new();
    let mut batch = Vec::new();
    let mut bytes = 0;
    for logged in events {
        let size = logged.event.body.len();
        if !batch.is_empty() && bytes + size > max_bytes {
            batches.push(std::mem::take(&mut batch));
            bytes = 0;
        }
        bytes += size;
        batch.push(logged);
    }
    batches.push(batch);
    batches
}
