//! What one group of clients gets of one batch: shared bytes, and what they hold.

use std::ops::Range;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use freshet_broadcaster::{Batch, Rendered};
use freshet_feed::EventFilter;

use crate::config::WhenFull;

/// Bytes that many outboxes share. A notice holds no event.
#[derive(Debug)]
pub(crate) struct Delivery {
    bytes: Bytes,
    event_count: usize,
    /// Where its events are, for coalescing.
    source: Option<(Arc<Batch>, Vec<usize>)>,
}

impl Delivery {
    /// A block that is no event.
    pub(crate) fn notice(bytes: Bytes) -> Self {
        Self { bytes, event_count: 0, source: None }
    }

    /// The frames at `range` of the batch that the filter wants; nothing when it wants none. The frames are copied
    /// when there is another one between them, and when they are less than half of the batch, which they would keep
    /// in memory as long as a client does not read them.
    pub(crate) fn select(
        batch: &Arc<Batch>,
        range: Range<usize>,
        filter: &EventFilter,
        when_full: WhenFull,
    ) -> Option<Self> {
        let wants_all = filter.is_all();
        let indexes: Vec<usize> =
            range.filter(|index| wants_all || filter.matches(&batch.events()[*index].event)).collect();
        let (first, last) = (*indexes.first()?, *indexes.last()?);
        let bytes = if last - first + 1 == indexes.len() {
            own_if_small(batch.sse_of(first..last + 1), batch)
        } else {
            let mut joined = BytesMut::new();
            for index in &indexes {
                joined.extend_from_slice(&batch.events()[*index].sse);
            }
            joined.freeze()
        };
        let event_count = indexes.len();
        let source = (when_full == WhenFull::Coalesce).then(|| (Arc::clone(batch), indexes));
        Some(Self { bytes, event_count, source })
    }

    pub(crate) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// How many events it holds.
    pub(crate) fn event_count(&self) -> usize {
        self.event_count
    }

    /// Its events, newest first, if it was selected to be coalesced.
    pub(crate) fn newest_first(&self) -> impl Iterator<Item = (&Rendered, Self)> {
        self.source.iter().flat_map(|(batch, indexes)| {
            indexes.iter().rev().map(|index| {
                let rendered = &batch.events()[*index];
                let source = Some((Arc::clone(batch), vec![*index]));
                (rendered, Self { bytes: rendered.sse.clone(), event_count: 1, source })
            })
        })
    }
}

fn own_if_small(bytes: Bytes, batch: &Batch) -> Bytes {
    if bytes.len() < batch.sse().len() / 2 { Bytes::copy_from_slice(&bytes) } else { bytes }
}

#[cfg(test)]
mod tests {
    use freshet_feed::port::Logged;

    use super::*;
    use crate::memory_log::{EPOCH, event_of};

    #[test]
    fn few_of_a_batch_do_not_keep_all_of_it_in_memory() {
        let tables = ["a", "b", "b", "b"];
        let logged =
            (1..).zip(tables).map(|(offset, table)| Logged { offset, event: event_of(offset, table) });
        let batch = Arc::new(Batch::render(EPOCH, logged.collect()).unwrap());
        let select = |table, when_full| {
            let filter = EventFilter::from_query([("table", table)]).unwrap();
            Delivery::select(&batch, 0..4, &filter, when_full).unwrap()
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
