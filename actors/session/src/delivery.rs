//! What one group of clients gets of one batch: shared bytes, and what they hold.

use std::ops::Range;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use freshet_broadcaster::{Batch, Rendered};

use crate::interest::{Interest, Transport};

/// Bytes that many outboxes share. A notice holds no event.
#[derive(Debug)]
pub(crate) struct Delivery {
    bytes: Bytes,
    event_count: usize,
    /// Where its events are, if some may be left out for a slow client.
    source: Option<Source>,
}

#[derive(Debug)]
struct Source {
    batch: Arc<Batch>,
    indexes: Vec<usize>,
    transport: Transport,
}

impl Delivery {
    /// A block that is no event.
    pub(crate) fn notice(bytes: Bytes) -> Self {
        Self { bytes, event_count: 0, source: None }
    }

    /// The frames at `range` of the batch that are wanted; nothing when none is. The frames are copied when there is
    /// another one between them, and when they are less than half of the batch, which they would keep in memory as
    /// long as a client does not read them.
    pub(crate) fn select(batch: &Arc<Batch>, range: Range<usize>, interest: &Interest) -> Option<Self> {
        let transport = interest.transport;
        let indexes: Vec<usize> =
            range.filter(|index| interest.wants(&batch.events()[*index].event)).collect();
        let (first, last) = (*indexes.first()?, *indexes.last()?);
        let bytes = if last - first + 1 == indexes.len() {
            own_if_small(frames(batch, first..last + 1, transport), batch)
        } else {
            let mut joined = BytesMut::new();
            for index in &indexes {
                joined.extend_from_slice(&frames(batch, *index..*index + 1, transport));
            }
            joined.freeze()
        };
        let event_count = indexes.len();
        let source =
            interest.may_leave_out().then(|| Source { batch: Arc::clone(batch), indexes, transport });
        Some(Self { bytes, event_count, source })
    }

    pub(crate) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// How many events it holds.
    pub(crate) fn event_count(&self) -> usize {
        self.event_count
    }

    /// Its events one by one with their frames, oldest first, if it was selected so that some may be left out.
    pub(crate) fn oldest_first(&self) -> impl Iterator<Item = (&Rendered, Bytes)> {
        self.source.iter().flat_map(|Source { batch, indexes, transport }| {
            indexes.iter().map(|index| {
                let bytes = frames(batch, *index..*index + 1, *transport);
                (&batch.events()[*index], own_if_small(bytes, batch))
            })
        })
    }

    /// Its events one by one, newest first, if it was selected so that some may be left out. Otherwise nothing.
    pub(crate) fn newest_first(&self) -> impl Iterator<Item = (&Rendered, Self)> {
        self.source.iter().flat_map(|Source { batch, indexes, transport }| {
            indexes.iter().rev().map(|index| {
                // A copy, since what is kept for long must not keep a whole batch.
                let bytes = Bytes::copy_from_slice(&frames(batch, *index..*index + 1, *transport));
                let source =
                    Source { batch: Arc::clone(batch), indexes: vec![*index], transport: *transport };
                (&batch.events()[*index], Self { bytes, event_count: 1, source: Some(source) })
            })
        })
    }

    /// How its clients are connected, if some of its events may be left out.
    pub(crate) fn transport(&self) -> Option<Transport> {
        self.source.as_ref().map(|source| source.transport)
    }

    /// Whether some of its events may be left out.
    pub(crate) fn may_leave_out(&self) -> bool {
        self.source.is_some()
    }
}

fn frames(batch: &Batch, range: Range<usize>, transport: Transport) -> Bytes {
    match transport {
        Transport::Sse => batch.sse_of(range),
        Transport::Websocket => batch.websocket_of(range),
    }
}

fn own_if_small(bytes: Bytes, batch: &Batch) -> Bytes {
    if bytes.len() < batch.sse().len() / 2 { Bytes::copy_from_slice(&bytes) } else { bytes }
}

#[cfg(test)]
mod tests {
    use freshet_feed::EventFilter;
    use freshet_feed::channel::WhenFull;

    use super::*;
    use crate::interest::sample::interest_of;
    use crate::memory_log::{EPOCH, logged};

    #[test]
    fn few_of_a_batch_do_not_keep_all_of_it_in_memory() {
        let tables = ["a", "b", "b", "b"];
        let logged = (1..).zip(tables).map(|(offset, table)| logged(offset, table));
        let batch = Arc::new(Batch::render(EPOCH, logged.collect()).unwrap());
        let select = |table, when_full| {
            let filter = EventFilter::from_query([("table", table)]).unwrap();
            Delivery::select(&batch, 0..4, &interest_of(filter, when_full)).unwrap()
        };
        let is_shared = |delivery: &Delivery| batch.sse().as_ptr_range().contains(&delivery.bytes().as_ptr());
        let few = select("a", WhenFull::Close);
        assert_eq!(few.bytes(), &batch.events()[0].sse);
        assert!(!is_shared(&few));
        assert!(is_shared(&select("b", WhenFull::Close)), "most of it is not copied");
        assert_eq!(Arc::strong_count(&batch), 1, "nothing that is never coalesced holds the batch");
        assert_eq!(select("b", WhenFull::Coalesce).newest_first().count(), 3);
    }
}
