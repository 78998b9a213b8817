//! Successive events with their frames, rendered once and shared by all clients.

use bytes::{Bytes, BytesMut};
use freshet_feed::port::Logged;
use freshet_feed::{Epoch, Event, Position};

use crate::render::write_sse;

/// One event of a [`Batch`].
#[derive(Clone, Debug)]
pub struct Rendered {
    /// Its offset in the log.
    pub offset: u64,
    /// What filters look at. Its body is empty: the frame carries it.
    pub event: Event,
    /// Its server-sent event; a slice of [`Batch::sse`].
    pub sse: Bytes,
}

/// Successive events of the log, oldest first, at least one. Clones of its bytes share one buffer.
#[derive(Clone, Debug)]
pub struct Batch {
    first: u64,
    last: u64,
    events: Vec<Rendered>,
    sse: Bytes,
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
        for Logged { offset, mut event } in logged {
            write_sse(&event, Position { epoch, offset }, &mut buffer);
            ends.push(buffer.len());
            event.body = Bytes::new();
            events.push(Rendered { offset, event, sse: Bytes::new() });
        }
        let sse = buffer.freeze();
        let mut start = 0;
        for (rendered, end) in events.iter_mut().zip(ends) {
            rendered.sse = sse.slice(start..end);
            start = end;
        }
        Some(Self { first, last, events, sse })
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
    pub fn range(&self, after: u64, until: u64) -> std::ops::Range<usize> {
        let start = self.events.partition_point(|rendered| rendered.offset <= after);
        let end = self.events.partition_point(|rendered| rendered.offset <= until);
        start..end.max(start)
    }

    /// The joined frames of the events at these indexes, without a copy.
    #[must_use]
    pub fn sse_of(&self, range: std::ops::Range<usize>) -> Bytes {
        let lengths = |events: &[Rendered]| events.iter().map(|rendered| rendered.sse.len()).sum::<usize>();
        let start = lengths(&self.events[..range.start]);
        let end = start + lengths(&self.events[range]);
        self.sse.slice(start..end)
    }
}
