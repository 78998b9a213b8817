//! Finds in a stream of server-sent events what the benchmark needs: the kind of each event, its number and the
//! moment at which it was published.
//!
//! Framing as in the HTML standard, section 9.2.6, but for lines that end with a lone carriage return, which no
//! measured server writes.

use anyhow::{Result, ensure};

/// The longest line that is accepted, in bytes.
pub const MAX_LINE_BYTES: usize = 1 << 20;
/// How an event carries the moment of its publication: nanoseconds of the system's monotonic clock.
pub const SENT_FIELD: &[u8] = b"\"sentNanos\":\"";

/// What an event is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// The first event of a stream.
    Connected,
    /// A table commit.
    Commit,
    /// Anything else.
    #[default]
    Other,
}

/// What is known of one event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// What it is.
    pub kind: Kind,
    /// The number at the end of its `id`.
    pub sequence: Option<u64>,
    /// The number in its data's [`SENT_FIELD`], in nanoseconds.
    pub sent_nanos: Option<u64>,
}

/// Reads one stream, in pieces of any size.
#[derive(Debug, Default)]
pub struct Scanner {
    partial_line: Vec<u8>,
    frame: Frame,
    has_data: bool,
}

impl Scanner {
    /// Takes the next bytes of the stream and reports each event that they complete.
    ///
    /// # Errors
    /// When a line is longer than [`MAX_LINE_BYTES`].
    pub fn feed(&mut self, bytes: &[u8], mut on_frame: impl FnMut(Frame)) -> Result<()> {
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            if self.partial_line.is_empty() {
                self.line(&rest[..end], &mut on_frame);
            } else {
                let mut line = std::mem::take(&mut self.partial_line);
                line.extend_from_slice(&rest[..end]);
                self.line(&line, &mut on_frame);
                line.clear();
                self.partial_line = line;
            }
            rest = &rest[end + 1..];
        }
        ensure!(self.partial_line.len() + rest.len() <= MAX_LINE_BYTES, "a line of the stream is too long");
        self.partial_line.extend_from_slice(rest);
        Ok(())
    }

    fn line(&mut self, line: &[u8], on_frame: &mut impl FnMut(Frame)) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            let frame = std::mem::take(&mut self.frame);
            if std::mem::take(&mut self.has_data) {
                on_frame(frame);
            }
            return;
        }
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let value = line.get(colon + 1..).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match &line[..colon] {
            b"event" => {
                self.frame.kind = match value {
                    b"connected" => Kind::Connected,
                    b"iceberg-mutation" => Kind::Commit,
                    _ => Kind::Other,
                }
            }
            b"id" => {
                let digits = value.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
                self.frame.sequence = number(&value[value.len() - digits..]);
            }
            b"data" => {
                self.has_data = true;
                self.frame.sent_nanos = self.frame.sent_nanos.or_else(|| sent_nanos(value));
            }
            _ => {}
        }
    }
}

fn sent_nanos(data: &[u8]) -> Option<u64> {
    let start = find(data, SENT_FIELD)? + SENT_FIELD.len();
    let digits = data[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    number(&data[start..start + digits])
}

/// A decimal number that fits, or nothing.
fn number(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Where the first occurrence of a pattern starts. The pattern must not be empty.
pub(crate) fn find(text: &[u8], pattern: &[u8]) -> Option<usize> {
    text.windows(pattern.len()).position(|window| window == pattern)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &[u8] = b"retry: 3000\n\n: hello\n\nevent: connected\ndata: {\"clientId\": \"9b2f1c1e\"}\n\n\
        id: load-000000000041\nevent: iceberg-mutation\ndata: {\"sentNanos\":\"00000000000123456789\",\"x\":1}\n\n\
        :\n\nevent:gap\r\ndata: {}\r\n\r\nid: load-42\nevent: iceberg-mutation\ndata: {\"a\":1,\ndata: \"sentNanos\":\"7\"}\n\n";

    fn expected() -> Vec<Frame> {
        let commit =
            |sequence, sent| Frame { kind: Kind::Commit, sequence: Some(sequence), sent_nanos: Some(sent) };
        vec![
            Frame { kind: Kind::Connected, ..Frame::default() },
            commit(41, 123_456_789),
            Frame::default(),
            commit(42, 7),
        ]
    }

    fn scan<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<Frame> {
        let mut scanner = Scanner::default();
        let mut frames = Vec::new();
        for piece in pieces {
            scanner.feed(piece, |frame| frames.push(frame)).unwrap();
        }
        frames
    }

    #[test]
    fn every_split_in_three_gives_the_same_frames() {
        for first in 0..=STREAM.len() {
            for second in first..=STREAM.len() {
                let pieces = [&STREAM[..first], &STREAM[first..second], &STREAM[second..]];
                assert_eq!(scan(pieces), expected(), "{first} {second}");
            }
        }
    }

    #[test]
    fn a_stream_byte_by_byte_gives_the_same_frames() {
        assert_eq!(scan(STREAM.chunks(1)), expected());
    }

    #[test]
    fn an_event_counts_only_when_its_blank_line_has_come() {
        assert_eq!(scan([&STREAM[..STREAM.len() - 1]]).len(), 3);
    }

    #[test]
    fn ids_and_times_that_are_no_numbers_are_unknown() {
        let frames =
            scan([b"id: abc\ndata: {\"sentNanos\":\"x\"}\n\nid: 99999999999999999999\ndata\n\n" as &[u8]]);
        assert_eq!(frames, vec![Frame::default(), Frame::default()]);
    }

    #[test]
    fn a_line_without_end_is_refused() {
        let mut scanner = Scanner::default();
        scanner.feed(&vec![b'x'; MAX_LINE_BYTES], |_| ()).unwrap();
        assert!(scanner.feed(b"x", |_| ()).is_err());
    }
}
