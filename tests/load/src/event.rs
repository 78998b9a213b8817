//! The events that are published, and how they are recognised when they come back.

use anyhow::{Result, ensure};
use memchr::memmem::Finder;

/// What stands before the moment of publication in an event, and before its number. They follow each other at once,
/// so that both are found in an event that a server has put into a message of its own.
const SENT_FIELD: &str = "{\"sentNanos\":\"";
const NUMBER_FIELD: &str = "\",\"eventId\":\"load-";
const SENT_DIGITS: usize = 20;
const NUMBER_DIGITS: usize = 12;

/// What an event carries for the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Its number.
    pub sequence: u64,
    /// When it was published: nanoseconds of the system's monotonic clock.
    pub sent_nanos: u64,
}

/// Appends one event as JSON on one line, of exactly `event_bytes` bytes.
///
/// Its number is at the end of `eventId` and makes `snapshotId` unique, since a server may drop a second event
/// of one snapshot. Unknown fields are kept by the contract, so `sentNanos` comes back to the clients.
///
/// # Errors
/// When the event does not fit into so few bytes.
pub fn write_event(
    output: &mut Vec<u8>,
    mark: Mark,
    timestamp: jiff::Timestamp,
    event_bytes: usize,
) -> Result<()> {
    let Mark { sequence, sent_nanos } = mark;
    let start = format!(
        "{SENT_FIELD}{sent_nanos:020}{NUMBER_FIELD}{sequence:012}\",\"eventTimestamp\":\"{timestamp:.3}\",\
         \"sourceApplication\":\"freshet-load\",\"tableIdentifier\":\"load.fan_out.orders\",\"eventType\":\"COMMIT_SUCCESS\",\
         \"payload\":{{\"operation\":\"append\",\"snapshotId\":{},\"summary\":{{\"added-data-files\":\"128\",\
         \"added-records\":\"15782093\"}},\"schemaChanged\":false,\"manifestList\":\"s3://warehouse/load/fan_out/orders/metadata/",
        8_000_000_000_000_000_000_u64.wrapping_add(sequence),
    );
    let end = ".avro\"}}";
    let filled = start.len() + end.len();
    ensure!(filled <= event_bytes, "an event takes at least {filled} bytes, {event_bytes} are wanted");
    output.extend_from_slice(start.as_bytes());
    output.resize(output.len() + event_bytes - filled, b'm');
    output.extend_from_slice(end.as_bytes());
    Ok(())
}

/// Finds events inside of what servers send.
#[derive(Debug)]
pub struct MarkFinder {
    start: Finder<'static>,
}

impl Default for MarkFinder {
    fn default() -> Self {
        Self { start: Finder::new(SENT_FIELD) }
    }
}

impl MarkFinder {
    /// Reports each event in a complete message, in its order. A message may hold several: some servers join them.
    pub fn find(&self, message: &[u8], mut on_mark: impl FnMut(Mark)) {
        let mut rest = message;
        while let Some(start) = self.start.find(rest) {
            rest = &rest[start + SENT_FIELD.len()..];
            if let Some(mark) = read_mark(rest) {
                on_mark(mark);
            }
        }
    }
}

/// Reads what follows on [`SENT_FIELD`].
fn read_mark(text: &[u8]) -> Option<Mark> {
    let (sent, rest) = text.split_at_checked(SENT_DIGITS)?;
    let (digits, _) = rest.strip_prefix(NUMBER_FIELD.as_bytes())?.split_at_checked(NUMBER_DIGITS)?;
    Some(Mark { sequence: number(digits)?, sent_nanos: number(sent)? })
}

fn number(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(sequence: u64, sent_nanos: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_event(&mut bytes, Mark { sequence, sent_nanos }, jiff::Timestamp::UNIX_EPOCH, 600).unwrap();
        bytes
    }

    fn marks(message: &[u8]) -> Vec<Mark> {
        let mut marks = Vec::new();
        MarkFinder::default().find(message, |mark| marks.push(mark));
        marks
    }

    #[test]
    fn an_event_is_json_of_the_wanted_size_and_keeps_its_numbers() {
        for event_bytes in [600, 10_000] {
            let mut bytes = Vec::new();
            let timestamp = "2023-10-27T10:25:40.1239Z".parse().unwrap();
            write_event(&mut bytes, Mark { sequence: 42, sent_nanos: u64::MAX }, timestamp, event_bytes)
                .unwrap();
            assert_eq!(bytes.len(), event_bytes);
            let event: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
            assert_eq!(event["eventId"], "load-000000000042");
            assert_eq!(event["sentNanos"], "18446744073709551615");
            assert_eq!(event["eventTimestamp"], "2023-10-27T10:25:40.123Z");
            assert_eq!(event["payload"]["snapshotId"], 8_000_000_000_000_000_042_u64);
        }
    }

    #[test]
    fn a_size_that_is_too_small_is_refused() {
        let mark = Mark { sequence: 1, sent_nanos: 1 };
        assert!(write_event(&mut Vec::new(), mark, jiff::Timestamp::UNIX_EPOCH, 100).is_err());
    }

    #[test]
    fn events_are_found_wherever_a_server_puts_them() {
        let wrapped =
            [b"{\"push\":{\"data\":" as &[u8], &event(41, 7), b"}}\n{}\n{\"pub\":", &event(42, 8), b"}"]
                .concat();
        assert_eq!(
            marks(&wrapped),
            [Mark { sequence: 41, sent_nanos: 7 }, Mark { sequence: 42, sent_nanos: 8 }]
        );
    }

    #[test]
    fn what_is_no_whole_event_is_not_found() {
        let whole = event(41, 7);
        assert_eq!(marks(&whole[..40]), []);
        assert_eq!(marks(b"{\"sentNanos\":\"0000000000000000000x\",\"eventId\":\"load-000000000001\""), []);
        assert_eq!(marks(b"{}"), []);
    }
}
