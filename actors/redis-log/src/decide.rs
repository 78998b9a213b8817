//! What a follower does with what it has read. No I/O.

use freshet_feed::port::Logged;
use freshet_feed::{Epoch, Position};

use crate::entry::Entry;

/// The event that was announced last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) position: Position,
    /// Its id, and when it was appended in microseconds; nothing where no event is known to stand. Both together name one
    /// append, also when the same event is appended again.
    pub(crate) append: Option<(String, i64)>,
}

/// What to announce of a page of entries.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Announcement {
    /// Where the log stands before the events, when events in between were removed before they could be read.
    pub(crate) stands_at: Option<Position>,
    pub(crate) events: Vec<Logged>,
    /// Whether another epoch was met: the log has to be looked at again.
    pub(crate) is_other_epoch: bool,
}

/// Decides about entries that were read after the known position, and moves that on.
pub(crate) fn announcement(known: &mut Known, entries: Vec<Entry>) -> Announcement {
    let mut announcement = Announcement::default();
    for Entry { epoch, logged } in entries {
        if epoch != known.position.epoch {
            announcement.is_other_epoch = true;
            break;
        }
        if logged.offset <= known.position.offset {
            continue;
        }
        if logged.offset > known.position.offset + 1 {
            // Only the oldest events are ever removed, so what is missing lies before all of them.
            announcement.events.clear();
            announcement.stands_at = Some(Position { epoch, offset: logged.offset - 1 });
        }
        known.position.offset = logged.offset;
        known.append = Some((logged.event.event_id.clone(), logged.appended_at.as_microsecond()));
        announcement.events.push(logged);
    }
    announcement
}

/// What Redis says of the log that is known; see `lua/verify.lua`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// None was known.
    Start,
    /// It goes on.
    Same,
    /// It has another epoch.
    Other,
    /// It had lost what was newest, and has another epoch from now on.
    Lost,
}

/// The log as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) verdict: Verdict,
    pub(crate) epoch: Epoch,
    pub(crate) last: u64,
    /// The newest offset when the epoch began.
    pub(crate) epoch_start: u64,
    pub(crate) held: u64,
    /// The newest event; only at the start.
    pub(crate) newest: Option<(String, i64)>,
}

/// From where on events are announced when the log is not the one that was known; nothing when it is.
///
/// At the start that is its newest event. In another epoch it is the first event of that epoch: what it has had already is
/// announced too, so that nothing is left out that is still held.
pub(crate) fn new_start(found: Found) -> Option<Known> {
    let oldest = (found.last + 1).saturating_sub(found.held);
    let (offset, append) = match found.verdict {
        Verdict::Same => return None,
        Verdict::Start => (found.last, found.newest),
        Verdict::Other | Verdict::Lost => (found.epoch_start.max(oldest.saturating_sub(1)), None),
    };
    Some(Known { position: Position { epoch: found.epoch, offset }, append })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::event;

    const ONE: Epoch = Epoch(1);
    const OTHER: Epoch = Epoch(2);

    fn entry(epoch: Epoch, offset: u64) -> Entry {
        let appended_at = jiff::Timestamp::from_second(1000 + offset.cast_signed()).unwrap();
        Entry { epoch, logged: Logged { offset, appended_at, event: event(&format!("event {offset}"), "1") } }
    }

    fn known(offset: u64) -> Known {
        Known { position: Position { epoch: ONE, offset }, append: None }
    }

    fn offsets(announcement: &Announcement) -> Vec<u64> {
        announcement.events.iter().map(|logged| logged.offset).collect()
    }

    #[test]
    fn events_are_announced_in_order_and_once() {
        let mut known = known(4);
        let found = announcement(&mut known, (3..=6).map(|offset| entry(ONE, offset)).collect());
        assert_eq!((offsets(&found), found.stands_at, found.is_other_epoch), (vec![5, 6], None, false));
        assert_eq!(known.position.offset, 6);
        assert_eq!(known.append, Some(("event 6".to_owned(), 1_006_000_000)));
    }

    #[test]
    fn what_was_removed_before_it_was_read_is_said() {
        let mut known = known(4);
        let found = announcement(&mut known, vec![entry(ONE, 9), entry(ONE, 10)]);
        assert_eq!(offsets(&found), [9, 10]);
        assert_eq!(found.stands_at, Some(Position { epoch: ONE, offset: 8 }));
    }

    #[test]
    fn nothing_of_another_epoch_is_announced() {
        let mut known = known(4);
        let found = announcement(&mut known, vec![entry(ONE, 5), entry(OTHER, 6), entry(ONE, 7)]);
        assert_eq!((offsets(&found), found.is_other_epoch), (vec![5], true));
        assert_eq!(known.position, Position { epoch: ONE, offset: 5 });
    }

    fn found(verdict: Verdict, last: u64, epoch_start: u64, held: u64) -> Found {
        Found { verdict, epoch: OTHER, last, epoch_start, held, newest: Some(("newest".to_owned(), 7)) }
    }

    #[test]
    fn a_start_is_at_the_newest_event() {
        let start = new_start(found(Verdict::Start, 9, 0, 9)).unwrap();
        assert_eq!(start.position, Position { epoch: OTHER, offset: 9 });
        assert_eq!(start.append, Some(("newest".to_owned(), 7)));
        assert_eq!(new_start(found(Verdict::Same, 9, 0, 9)), None);
    }

    #[test]
    fn another_epoch_is_announced_from_its_first_event_that_is_held() {
        for (verdict, last, epoch_start, held, expected) in [
            (Verdict::Other, 9, 0, 9, 0),
            (Verdict::Other, 9, 5, 9, 5),
            (Verdict::Other, 9, 5, 2, 7),
            (Verdict::Other, 9, 5, 0, 9),
            (Verdict::Lost, 9, 9, 9, 9),
        ] {
            let start = new_start(found(verdict, last, epoch_start, held)).unwrap();
            assert_eq!(start.position.offset, expected, "{verdict:?} {last} {epoch_start} {held}");
            assert_eq!(start.append, None);
        }
    }
}
