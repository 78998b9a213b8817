//! Takes a stream of server-sent events apart and finds the benchmark's events in it.
//!
//! Framing as in the HTML standard, section 9.2.6, but for lines that end with a lone carriage return, which no
//! measured server writes.

use anyhow::{Result, ensure};
use memchr::memchr;

use crate::event::{Mark, MarkFinder};

/// The longest line that is accepted, in bytes.
pub const MAX_LINE_BYTES: usize = 1 << 20;

/// Reads one stream, in pieces of any size.
#[derive(Debug, Default)]
pub struct Scanner {
    partial_line: Vec<u8>,
    /// What the event that is not complete yet holds.
    marks: Vec<Mark>,
    has_data: bool,
}

impl Scanner {
    /// Takes the next bytes of the stream and reports each event with data that they complete, by what is found in
    /// it: mostly one mark, none for an event of another kind.
    ///
    /// # Errors
    /// When a line is longer than [`MAX_LINE_BYTES`].
    pub fn feed(
        &mut self,
        bytes: &[u8],
        finder: &MarkFinder,
        mut on_event: impl FnMut(&[Mark]),
    ) -> Result<()> {
        let mut rest = bytes;
        while let Some(end) = memchr(b'\n', rest) {
            if self.partial_line.is_empty() {
                self.line(&rest[..end], finder, &mut on_event);
            } else {
                let mut line = std::mem::take(&mut self.partial_line);
                line.extend_from_slice(&rest[..end]);
                self.line(&line, finder, &mut on_event);
                line.clear();
                self.partial_line = line;
            }
            rest = &rest[end + 1..];
        }
        ensure!(self.partial_line.len() + rest.len() <= MAX_LINE_BYTES, "a line of the stream is too long");
        self.partial_line.extend_from_slice(rest);
        Ok(())
    }

    fn line(&mut self, line: &[u8], finder: &MarkFinder, on_event: &mut impl FnMut(&[Mark])) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            if std::mem::take(&mut self.has_data) {
                on_event(&self.marks);
            }
            self.marks.clear();
        } else if let Some(data) = line.strip_prefix(b"data") {
            // A field's name ends with a colon or the line.
            if matches!(data.first(), None | Some(b':')) {
                self.has_data = true;
                finder.find(data, |mark| self.marks.push(mark));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &[u8] = b"retry: 3000\n\n: hello\n\nevent: connected\ndata: {\"clientId\": \"9b2f1c1e\"}\n\n\
        id: 1-41\nevent: iceberg-mutation\ndata: {\"sentNanos\":\"00000000000123456789\",\"eventId\":\"load-000000000041\"}\n\n\
        :\n\nevent:gap\r\ndata\r\n\r\ndatabase: x\n\n\
        data:{\"a\":1,\ndata: \"b\":{\"sentNanos\":\"00000000000000000007\",\"eventId\":\"load-000000000042\"}}\n\n";

    fn expected() -> Vec<Vec<Mark>> {
        let mark = |sequence, sent_nanos| vec![Mark { sequence, sent_nanos }];
        vec![vec![], mark(41, 123_456_789), vec![], mark(42, 7)]
    }

    fn scan<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<Vec<Mark>> {
        let (mut scanner, finder) = (Scanner::default(), MarkFinder::default());
        let mut events = Vec::new();
        for piece in pieces {
            scanner.feed(piece, &finder, |marks| events.push(marks.to_vec())).unwrap();
        }
        events
    }

    #[test]
    fn every_split_in_three_gives_the_same_events() {
        for first in 0..=STREAM.len() {
            for second in first..=STREAM.len() {
                let pieces = [&STREAM[..first], &STREAM[first..second], &STREAM[second..]];
                assert_eq!(scan(pieces), expected(), "{first} {second}");
            }
        }
    }

    #[test]
    fn a_stream_byte_by_byte_gives_the_same_events() {
        assert_eq!(scan(STREAM.chunks(1)), expected());
    }

    #[test]
    fn an_event_counts_only_when_its_blank_line_has_come() {
        assert_eq!(scan([&STREAM[..STREAM.len() - 1]]).len(), 3);
    }

    #[test]
    fn a_line_without_end_is_refused() {
        let (mut scanner, finder) = (Scanner::default(), MarkFinder::default());
        scanner.feed(&vec![b'x'; MAX_LINE_BYTES], &finder, |_| ()).unwrap();
        assert!(scanner.feed(b"x", &finder, |_| ()).is_err());
    }
}
