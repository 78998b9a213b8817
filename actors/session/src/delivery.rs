//! What one group of clients gets of one batch: shared bytes, and what they hold.

use std::ops::Range;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use freshet_broadcaster::{Batch, Rendered};
use freshet_feed::EventFilter;

/// Bytes that many outboxes share. A notice holds no event.
#[derive(Debug)]
pub(crate) struct Delivery {
    bytes: Bytes,
    batch: Option<Arc<Batch>>,
    indexes: Vec<usize>,
}

impl Delivery {
    /// A block that is no event.
    pub(crate) fn notice(bytes: Bytes) -> Self {
        Self { bytes, batch: None, indexes: Vec::new() }
    }

    /// The frames at `range` of the batch that the filter wants; nothing when it wants none. The frames are copied
    /// only when there is another one between them.
    pub(crate) fn select(batch: &Arc<Batch>, range: Range<usize>, filter: &EventFilter) -> Option<Self> {
        let wants_all = filter.is_all();
        let indexes: Vec<usize> =
            range.filter(|index| wants_all || filter.matches(&batch.events()[*index].event)).collect();
        let (first, last) = (*indexes.first()?, *indexes.last()?);
        let bytes = if last - first + 1 == indexes.len() {
            batch.sse_of(first..last + 1)
        } else {
            let mut joined = BytesMut::new();
            for index in &indexes {
                joined.extend_from_slice(&batch.events()[*index].sse);
            }
            joined.freeze()
        };
        Some(Self { bytes, batch: Some(Arc::clone(batch)), indexes })
    }

    pub(crate) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// How many events it holds.
    pub(crate) fn event_count(&self) -> usize {
        self.indexes.len()
    }

    /// Its events, newest first.
    pub(crate) fn newest_first(&self) -> impl Iterator<Item = (&Rendered, Self)> {
        self.batch.iter().flat_map(|batch| {
            self.indexes.iter().rev().map(|index| {
                let rendered = &batch.events()[*index];
                let alone = Self {
                    bytes: rendered.sse.clone(),
                    batch: Some(Arc::clone(batch)),
                    indexes: vec![*index],
                };
                (rendered, alone)
            })
        })
    }
}
