//! What a follower does with what it has read. No I/O.

use std::collections::VecDeque;

use freshet_feed::port::Logged;
use freshet_feed::{Epoch, Position};

use crate::entry::Entry;

/// So many of the events that were announced last are remembered, to find out what of them a log has lost.
const MAX_RECENT: usize = 4096;

/// Where the log stood when it was announced last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) position: Position,
    /// The newest offset when the epoch began. Up to it entries carry an epoch before this one.
    pub(crate) epoch_start: u64,
}

/// An event that was announced. Id and time of append together name one append, also when the same event is appended
/// again at the same offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Append {
    pub(crate) offset: u64,
    pub(crate) event_id: String,
    /// Microseconds.
    pub(crate) appended_at: i64,
}

impl Append {
    pub(crate) fn of(logged: &Logged) -> Self {
        Self {
            offset: logged.offset,
            event_id: logged.event.event_id.clone(),
            appended_at: logged.appended_at.as_microsecond(),
        }
    }
}

/// What was announced last, with rising offsets.
#[derive(Debug, Default)]
pub(crate) struct Recent(VecDeque<Append>);

impl Recent {
    pub(crate) fn push(&mut self, append: Append) {
        if self.0.len() == MAX_RECENT {
            self.0.pop_front();
        }
        self.0.push_back(append);
    }

    /// The append at this offset.
    pub(crate) fn at(&self, offset: u64) -> Option<&Append> {
        self.0.binary_search_by_key(&offset, |append| append.offset).ok().and_then(|index| self.0.get(index))
    }

    /// Those with offsets that the log still holds.
    pub(crate) fn between(&self, oldest: u64, newest: u64) -> Vec<Append> {
        let held = self.0.iter().filter(|append| (oldest..=newest).contains(&append.offset));
        held.cloned().collect()
    }

    /// Forgets what lies after this offset: another log goes on from there.
    pub(crate) fn cut_after(&mut self, offset: u64) {
        self.0.retain(|append| append.offset <= offset);
    }
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
        if epoch != known.position.epoch && logged.offset > known.epoch_start {
            announcement.is_other_epoch = true;
            break;
        }
        if logged.offset <= known.position.offset {
            continue;
        }
        if logged.offset > known.position.offset + 1 {
            // Only the oldest events are ever removed, so what is missing lies before all of them.
            announcement.events.clear();
            announcement.stands_at =
                Some(Position { epoch: known.position.epoch, offset: logged.offset - 1 });
        }
        known.position.offset = logged.offset;
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
    pub(crate) newest: Option<Append>,
}

impl Found {
    /// The oldest offset that is held; the next one when none is.
    pub(crate) fn oldest(&self) -> u64 {
        (self.last + 1).saturating_sub(self.held)
    }
}

/// From where on events are announced when the log is not the one that was known; nothing when it is.
///
/// At the start that is its newest event. In another epoch it is the newest of the events that were announced and are still
/// the log's: what others appended before the loss was noticed comes after it and is announced, and nothing comes again.
/// When the log has none of them, all that it holds of the epoch is announced.
pub(crate) fn new_start(found: &Found, still_there: Option<u64>) -> Option<Known> {
    let offset = match found.verdict {
        Verdict::Same => return None,
        Verdict::Start => found.last,
        Verdict::Other | Verdict::Lost => {
            still_there.unwrap_or_else(|| found.epoch_start.max(found.oldest().saturating_sub(1)))
        }
    };
    Some(Known { position: Position { epoch: found.epoch, offset }, epoch_start: found.epoch_start })
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
        Known { position: Position { epoch: ONE, offset }, epoch_start: 0 }
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

    #[test]
    fn what_an_epoch_found_is_announced_as_its_own() {
        let mut known = Known { position: Position { epoch: OTHER, offset: 4 }, epoch_start: 6 };
        let found =
            announcement(&mut known, vec![entry(ONE, 5), entry(ONE, 6), entry(OTHER, 7), entry(ONE, 8)]);
        assert_eq!((offsets(&found), found.is_other_epoch), (vec![5, 6, 7], true));
        assert_eq!(known.position, Position { epoch: OTHER, offset: 7 });
    }

    fn append(offset: u64) -> Append {
        Append::of(&entry(ONE, offset).logged)
    }

    #[test]
    fn so_many_appends_are_remembered_and_found_by_their_offset() {
        let mut recent = Recent::default();
        let newest = MAX_RECENT as u64 + 3;
        (1..=newest).filter(|offset| *offset != 9).for_each(|offset| recent.push(append(offset)));
        assert_eq!((recent.at(2), recent.at(3), recent.at(9)), (None, Some(&append(3)), None));
        assert_eq!(recent.at(newest).map(|append| append.appended_at), Some(append(newest).appended_at));
        assert_eq!(recent.between(8, 11), [append(8), append(10), append(11)]);
        recent.cut_after(9);
        assert_eq!((recent.at(8), recent.at(10)), (Some(&append(8)), None));
    }

    fn found(verdict: Verdict, last: u64, epoch_start: u64, held: u64) -> Found {
        Found { verdict, epoch: OTHER, last, epoch_start, held, newest: None }
    }

    #[test]
    fn a_start_is_at_the_newest_event() {
        let start = new_start(&found(Verdict::Start, 9, 2, 9), None).unwrap();
        assert_eq!(start, Known { position: Position { epoch: OTHER, offset: 9 }, epoch_start: 2 });
        assert_eq!(new_start(&found(Verdict::Same, 9, 0, 9), None), None);
    }

    #[test]
    fn another_epoch_is_announced_after_what_was_announced_and_is_still_there() {
        for (verdict, last, epoch_start, held, still_there, expected) in [
            (Verdict::Other, 9, 5, 9, Some(3), 3),
            (Verdict::Lost, 9, 9, 9, Some(7), 7),
            (Verdict::Other, 9, 0, 9, None, 0),
            (Verdict::Other, 9, 5, 9, None, 5),
            (Verdict::Other, 9, 5, 2, None, 7),
            (Verdict::Other, 9, 5, 0, None, 9),
            (Verdict::Lost, 9, 9, 9, None, 9),
        ] {
            let start = new_start(&found(verdict, last, epoch_start, held), still_there).unwrap();
            assert_eq!(start.position.offset, expected, "{verdict:?} {last} {epoch_start} {held}");
        }
    }
}
