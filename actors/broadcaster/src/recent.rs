//! The newest batches, kept in memory for clients that come back soon.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::batch::Batch;

/// Successive batches without a hole, bounded in bytes of frames; the newest batch is kept whatever its size.
#[derive(Debug)]
pub(crate) struct Recent {
    batches: VecDeque<Arc<Batch>>,
    offsets: HashMap<String, u64>,
    bytes: usize,
    max_bytes: usize,
}

impl Recent {
    pub(crate) fn new(max_bytes: usize) -> Self {
        Self { batches: VecDeque::new(), offsets: HashMap::new(), bytes: 0, max_bytes }
    }

    /// Adds the newest batch. After a hole, what is older is dropped: readers find it in the log.
    pub(crate) fn push(&mut self, batch: Arc<Batch>) {
        if self.batches.back().is_some_and(|newest| newest.last() + 1 != batch.first()) {
            self.clear();
        }
        self.bytes += batch.sse().len();
        for rendered in batch.events() {
            self.offsets.insert(rendered.event.event_id.clone(), rendered.offset);
        }
        self.batches.push_back(batch);
        while self.bytes > self.max_bytes && self.batches.len() > 1 {
            let Some(oldest) = self.batches.pop_front() else { break };
            self.bytes -= oldest.sse().len();
            for rendered in oldest.events() {
                self.offsets.remove(&rendered.event.event_id);
            }
        }
    }

    /// Drops everything.
    pub(crate) fn clear(&mut self) {
        self.batches.clear();
        self.offsets.clear();
        self.bytes = 0;
    }

    /// The batch that holds the event after `offset`. Nothing when it is older than what is kept, or yet to come.
    pub(crate) fn after(&self, offset: u64) -> Option<Arc<Batch>> {
        let oldest = self.batches.front()?;
        if offset + 1 < oldest.first() {
            return None;
        }
        let index = self.batches.partition_point(|batch| batch.last() <= offset);
        self.batches.get(index).cloned()
    }

    /// The offset of the event with this id, while it is kept.
    pub(crate) fn locate(&self, event_id: &str) -> Option<u64> {
        self.offsets.get(event_id).copied()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use freshet_feed::port::Logged;
    use freshet_feed::{ChannelName, Epoch, Event};

    use super::*;

    fn batch(offsets: std::ops::RangeInclusive<u64>) -> Arc<Batch> {
        let logged = offsets
            .map(|offset| Logged {
                offset,
                appended_at: "2023-10-27T10:25:40.123Z".parse().unwrap(),
                event: Event {
                    event_id: format!("e{offset}"),
                    channel: ChannelName::iceberg(),
                    name: "iceberg-mutation".into(),
                    key: None,
                    room: None,
                    timestamp: "2023-10-27T10:25:40.123Z".parse().unwrap(),
                    source_application: None,
                    commit: None,
                    body: Bytes::from_static(b"{}"),
                },
            })
            .collect();
        Arc::new(Batch::render(Epoch(1), logged).unwrap())
    }

    fn first_after(recent: &Recent, offset: u64) -> Option<u64> {
        recent.after(offset).map(|batch| batch.first())
    }

    #[test]
    fn a_reader_finds_the_batch_of_its_next_event() {
        let mut recent = Recent::new(1 << 20);
        recent.push(batch(5..=6));
        recent.push(batch(7..=9));
        assert_eq!(first_after(&recent, 3), None, "event 4 is in the log only");
        assert_eq!(first_after(&recent, 4), Some(5));
        assert_eq!(first_after(&recent, 5), Some(5));
        assert_eq!(first_after(&recent, 6), Some(7));
        assert_eq!(first_after(&recent, 9), None, "event 10 is yet to come");
        assert_eq!(recent.locate("e8"), Some(8));
    }

    #[test]
    fn the_oldest_leave_when_the_bound_is_reached() {
        let one = batch(1..=1).sse().len();
        let mut recent = Recent::new(2 * one);
        for offset in 1..=5 {
            recent.push(batch(offset..=offset));
        }
        assert_eq!(first_after(&recent, 2), None);
        assert_eq!(first_after(&recent, 3), Some(4));
        assert_eq!(recent.locate("e3"), None);
        assert_eq!(recent.bytes, 2 * one);
    }

    #[test]
    fn a_hole_drops_what_is_older() {
        let mut recent = Recent::new(1 << 20);
        recent.push(batch(1..=2));
        recent.push(batch(4..=4));
        assert_eq!(first_after(&recent, 1), None);
        assert_eq!(first_after(&recent, 3), Some(4));
        assert_eq!(recent.locate("e1"), None);
    }

    #[test]
    fn frames_of_a_range_are_slices_of_the_whole() {
        let batch = batch(5..=7);
        assert_eq!(batch.range(5, 6), 1..2);
        assert_eq!(batch.range(0, 100), 0..3);
        assert_eq!(batch.range(9, 5), 3..3);
        assert_eq!(batch.sse_of(1..2), batch.events()[1].sse);
        assert_eq!(batch.sse_of(0..3), *batch.sse());
    }
}
