//! Takes an HTTP/1.1 response apart: its status, and its body without the transfer coding (RFC 9112, sections 6
//! and 7).

use anyhow::{Context, Result, bail, ensure};

/// The longest head that is accepted, in bytes.
const MAX_HEAD_BYTES: usize = 16 * 1024;
/// The most hexadecimal digits of a chunk's size.
const MAX_SIZE_DIGITS: u8 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Head,
    UntilClose,
    Length(u64),
    Size { bytes: u64, digits: u8 },
    Extension { bytes: u64 },
    Chunk(u64),
    ChunkEnd,
    Trailer { line_is_empty: bool },
    Complete,
}

/// Decodes one response, in pieces of any size.
#[derive(Debug)]
pub struct ResponseDecoder {
    stage: Stage,
    head: Vec<u8>,
    status: Option<u16>,
}

impl Default for ResponseDecoder {
    fn default() -> Self {
        Self { stage: Stage::Head, head: Vec::new(), status: None }
    }
}

impl ResponseDecoder {
    /// The status code, once the head is complete.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        self.status
    }

    /// Whether the whole response has come. A body that lasts until the connection closes never is.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.stage == Stage::Complete
    }

    /// Takes from the front of `input` up to the end of the next piece of the body, and returns that piece;
    /// `None` once the input is used up or the response is complete.
    ///
    /// # Errors
    /// When the bytes are not an HTTP/1.1 response.
    pub fn next_piece<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<&'a [u8]>> {
        while self.stage != Stage::Complete {
            match self.stage {
                Stage::UntilClose if input.is_empty() => return Ok(None),
                Stage::UntilClose => return Ok(Some(std::mem::take(input))),
                Stage::Length(left) | Stage::Chunk(left) => {
                    let taken = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
                    if taken == 0 {
                        return Ok(None);
                    }
                    let (piece, rest) = input.split_at(taken);
                    *input = rest;
                    self.stage = match (self.stage, left - taken as u64) {
                        (Stage::Length(_), 0) => Stage::Complete,
                        (Stage::Length(_), left) => Stage::Length(left),
                        (_, 0) => Stage::ChunkEnd,
                        (_, left) => Stage::Chunk(left),
                    };
                    return Ok(Some(piece));
                }
                _ => {
                    let Some((byte, rest)) = input.split_first() else { return Ok(None) };
                    *input = rest;
                    self.stage = self.after(*byte)?;
                }
            }
        }
        Ok(None)
    }

    /// The stage after one byte that is not of the body.
    fn after(&mut self, byte: u8) -> Result<Stage> {
        let after_size =
            |bytes| if bytes == 0 { Stage::Trailer { line_is_empty: true } } else { Stage::Chunk(bytes) };
        Ok(match (self.stage, byte) {
            (Stage::Head, _) => {
                self.head.push(byte);
                ensure!(self.head.len() <= MAX_HEAD_BYTES, "the head of the response is too long");
                if !self.head.ends_with(b"\r\n\r\n") {
                    return Ok(Stage::Head);
                }
                let head = std::mem::take(&mut self.head);
                let (status, framing) = read_head(&head)?;
                self.status = Some(status);
                framing
            }
            (Stage::Size { digits: 1.., bytes }, b'\n') => after_size(bytes),
            (Stage::Size { digits: 1.., bytes }, b'\r' | b';' | b' ') => Stage::Extension { bytes },
            (Stage::Size { bytes, digits }, _) => {
                let digit = char::from(byte).to_digit(16).context("a chunk has no size")?;
                ensure!(digits < MAX_SIZE_DIGITS, "a chunk is too large");
                Stage::Size { bytes: bytes * 16 + u64::from(digit), digits: digits + 1 }
            }
            (Stage::Extension { bytes }, b'\n') => after_size(bytes),
            (Stage::ChunkEnd, b'\r') => Stage::ChunkEnd,
            (Stage::ChunkEnd, b'\n') => Stage::Size { bytes: 0, digits: 0 },
            (Stage::ChunkEnd, _) => bail!("a chunk is longer than its size"),
            (Stage::Trailer { line_is_empty: true }, b'\n') => Stage::Complete,
            (Stage::Trailer { .. }, b'\n') => Stage::Trailer { line_is_empty: true },
            (Stage::Trailer { line_is_empty }, b'\r') => Stage::Trailer { line_is_empty },
            (Stage::Trailer { .. }, _) => Stage::Trailer { line_is_empty: false },
            (stage, _) => stage,
        })
    }
}

fn read_head(head: &[u8]) -> Result<(u16, Stage)> {
    let text = std::str::from_utf8(head).context("the head of the response is not text")?;
    let mut lines = text.split("\r\n");
    let status_line = lines.next().unwrap_or_default();
    ensure!(status_line.starts_with("HTTP/1.1 "), "not an HTTP/1.1 response");
    let status = status_line.split(' ').nth(1).unwrap_or_default().parse().context("no status code")?;
    // What follows on an upgrade is no body, whatever the head says; nchan announces one of no bytes.
    if status == 101 {
        return Ok((status, Stage::UntilClose));
    }
    let mut framing = Stage::UntilClose;
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        if name.eq_ignore_ascii_case("transfer-encoding") && value.trim().eq_ignore_ascii_case("chunked") {
            return Ok((status, Stage::Size { bytes: 0, digits: 0 }));
        }
        if name.eq_ignore_ascii_case("content-length") {
            framing = match value.trim().parse().context("the content length is no number")? {
                0 => Stage::Complete,
                bytes => Stage::Length(bytes),
            };
        }
    }
    Ok((status, framing))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<(Option<u16>, Vec<u8>, bool)> {
        let mut decoder = ResponseDecoder::default();
        let mut body = Vec::new();
        for mut piece in pieces {
            while let Some(part) = decoder.next_piece(&mut piece)? {
                body.extend_from_slice(part);
            }
        }
        Ok((decoder.status(), body, decoder.is_complete()))
    }

    #[test]
    fn each_framing_is_decoded_at_every_split() {
        let cases: [(&[u8], u16, &[u8], bool); 5] = [
            (b"HTTP/1.1 101 Switching Protocols\r\nContent-Length: 0\r\n\r\n\x81\x01x", 101, b"\x81\x01x", false),
            (
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nWiki\r\nA;x=y\r\npedia in \n\r\n0\r\nX: y\r\n\r\n",
                200,
                b"Wikipedia in \n",
                true,
            ),
            (b"HTTP/1.1 202 Accepted\r\ncontent-length: 5\r\n\r\nhello", 202, b"hello", true),
            (b"HTTP/1.1 503 \r\nContent-Length: 0\r\n\r\n", 503, b"", true),
            (b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n: ok\n\n", 200, b": ok\n\n", false),
        ];
        for (response, status, body, complete) in cases {
            for split in 0..=response.len() {
                let (found_status, found_body, found_complete) =
                    decode([&response[..split], &response[split..]]).unwrap();
                assert_eq!((found_status, found_complete), (Some(status), complete), "{split}");
                assert_eq!(found_body, body, "{split}");
            }
        }
    }

    #[test]
    fn what_is_no_response_is_refused() {
        for bytes in [
            b"HTTP/2 200\r\n\r\n" as &[u8],
            b"HTTP/1.1 ok\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n123456789\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab",
            &[b'x'; MAX_HEAD_BYTES + 1],
        ] {
            assert!(decode([bytes]).is_err(), "{}", String::from_utf8_lossy(bytes));
        }
    }
}
