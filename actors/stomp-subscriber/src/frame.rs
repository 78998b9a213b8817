//! Bytes of the broker into frames.
//!
//! `async-stomp`'s codec reads each frame; this module finds where a frame ends before the codec sees it. With
//! that, a frame that is too large or malformed costs only itself: the next one starts where it ends, and
//! neither is the connection lost nor does the same frame come again for ever.

use async_stomp::client::ClientCodec;
use async_stomp::{FromServer, Message};
use bytes::{Buf, Bytes, BytesMut};
use tokio_util::codec::Decoder as _;

/// How large the command and the headers of a frame may be together, in bytes. ActiveMQ allows 10 KiB a line and
/// 1,000 headers; real ones have a few hundred bytes.
pub const MAX_HEAD_BYTES: usize = 256 * 1024;

/// How much is kept of the body of a frame that is too large, in bytes.
pub const KEPT_BYTES: usize = 64 * 1024;

/// A frame of the broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// The session is open.
    Connected {
        /// The protocol version that the broker chose.
        version: String,
        /// Its `heart-beat` header.
        heart_beat: Option<String>,
    },
    /// A message of our subscription.
    Message(Delivery),
    /// The answer to a frame of ours that asked for it.
    Receipt(String),
    /// The broker refuses something, and closes the connection.
    Error {
        /// The `message` header.
        message: String,
        /// The body.
        detail: String,
    },
}

/// A message as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The `message-id` header; empty when there is none.
    pub message_id: String,
    /// The `ack` header, by which the message is acknowledged.
    pub ack: Option<String>,
    /// All headers in their order, keys and values unescaped.
    pub headers: Vec<(String, String)>,
    /// The body; its first [`KEPT_BYTES`] when the frame was too large.
    pub body: Bytes,
    /// What is wrong with the frame itself.
    pub fault: Option<Fault>,
}

impl Delivery {
    /// Whether the broker says that it delivered the message before. ActiveMQ Classic does not say it.
    #[must_use]
    pub fn redelivered(&self) -> bool {
        self.headers.iter().any(|(key, value)| key == "redelivered" && value == "true")
    }
}

/// Why a message is kept from the decoder: it goes to the dead letters as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// `frame_too_large` or `frame_malformed`.
    pub code: &'static str,
    /// The reason in a sentence.
    pub reason: String,
}

/// The bytes are no STOMP: where the next frame starts cannot be known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The headers do not end within [`MAX_HEAD_BYTES`].
    #[error("the headers of a frame exceed {MAX_HEAD_BYTES} bytes")]
    HeadTooLarge,
    /// The body does not end where its `content-length` says.
    #[error("a frame does not end where its content-length says")]
    NotTerminated,
    /// A frame other than a message that cannot be understood.
    #[error("a frame cannot be understood: {0}")]
    Malformed(String),
}

/// Collects bytes and gives out frames.
#[derive(Debug)]
pub struct FrameReader {
    buffer: BytesMut,
    codec: ClientCodec,
    max_frame_bytes: usize,
    /// The length of the current frame's command and headers, once their end is found.
    head_bytes: Option<usize>,
    /// How far the buffer was searched in vain: for the end of the headers, then for the end of the body.
    searched: usize,
    /// The message whose remainder is thrown away.
    skipped: Option<Skipped>,
}

#[derive(Debug)]
struct Skipped {
    head: Bytes,
    kept: BytesMut,
    /// Bytes of the body that are still to come; nothing when only a NUL will tell.
    remaining: Option<u64>,
    body_bytes: u64,
}

impl FrameReader {
    /// Takes frames up to this size whole, in bytes.
    #[must_use]
    pub fn new(max_frame_bytes: usize) -> Self {
        Self {
            buffer: BytesMut::new(),
            // The codec counts what is left of a frame in pieces; it only ever gets whole ones.
            codec: ClientCodec::with_max_frame_size(usize::MAX),
            max_frame_bytes,
            head_bytes: None,
            searched: 0,
            skipped: None,
        }
    }

    /// Where new bytes are read into.
    pub fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// The next frame, or nothing when more bytes are needed. Heart-beats between frames are dropped here.
    ///
    /// # Errors
    /// When the bytes are no STOMP; the connection is of no use then.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        if self.skipped.is_some() {
            return Ok(self.skip().map(Frame::Message));
        }
        let Some(head_bytes) = self.find_end_of_head()? else { return Ok(None) };
        let body_bytes = match content_length(&self.buffer[..head_bytes]) {
            Some(length) => Some(length),
            None => self.find_end_of_text(head_bytes),
        };
        let room = self.max_frame_bytes.saturating_sub(head_bytes + 1);
        let too_large = match body_bytes {
            Some(length) => usize::try_from(length).map_or(true, |length| length > room),
            None => self.buffer.len() - head_bytes > room,
        };
        if too_large {
            let is_message = self.buffer.starts_with(b"MESSAGE");
            if !is_message {
                return Err(FrameError::Malformed("it is too large".to_owned()));
            }
            self.begin_next();
            self.skipped = Some(Skipped {
                head: self.buffer.split_to(head_bytes).freeze(),
                kept: BytesMut::new(),
                remaining: body_bytes,
                body_bytes: 0,
            });
            return Ok(self.skip().map(Frame::Message));
        }
        let Some(body_bytes) = body_bytes.and_then(|length| usize::try_from(length).ok()) else {
            return Ok(None);
        };
        let frame_bytes = head_bytes + body_bytes + 1;
        if self.buffer.len() < frame_bytes {
            // Once, for the whole frame: growing step by step would copy a large body again and again.
            self.buffer.reserve(frame_bytes - self.buffer.len());
            return Ok(None);
        }
        if self.buffer[frame_bytes - 1] != 0 {
            return Err(FrameError::NotTerminated);
        }
        self.begin_next();
        let untouched = self.buffer.split_to(frame_bytes).freeze();
        // A copy, because the codec drops a frame that it cannot understand.
        match self.codec.decode(&mut BytesMut::from(&untouched[..])) {
            Ok(Some(message)) => Ok(Some(understand(message))),
            Ok(None) => salvage(&untouched, head_bytes, "it ends too early".to_owned()).map(Some),
            Err(error) => salvage(&untouched, head_bytes, error.to_string()).map(Some),
        }
    }

    fn begin_next(&mut self) {
        self.head_bytes = None;
        self.searched = 0;
    }

    /// The length of the command and the headers, with the empty line after them.
    fn find_end_of_head(&mut self) -> Result<Option<usize>, FrameError> {
        if self.head_bytes.is_some() {
            return Ok(self.head_bytes);
        }
        let beats = self.buffer.iter().take_while(|&&byte| byte == b'\n' || byte == b'\r').count();
        self.buffer.advance(beats);
        self.head_bytes = end_of_head(&self.buffer, self.searched);
        self.searched = self.head_bytes.unwrap_or(self.buffer.len());
        // Headers without an end would otherwise be collected until memory ends.
        if self.searched > MAX_HEAD_BYTES {
            return Err(FrameError::HeadTooLarge);
        }
        Ok(self.head_bytes)
    }

    /// Where the NUL stands that ends a body of unknown length, counted from the end of the head.
    fn find_end_of_text(&mut self, head_bytes: usize) -> Option<u64> {
        let start = self.searched.max(head_bytes);
        match self.buffer[start..].iter().position(|&byte| byte == 0) {
            Some(found) => Some((start + found - head_bytes) as u64),
            None => {
                self.searched = self.buffer.len();
                None
            }
        }
    }

    /// Throws away what came of a frame that is too large, and gives out what was kept once it has ended.
    fn skip(&mut self) -> Option<Delivery> {
        let skipped = self.skipped.as_mut()?;
        let available = self.buffer.len();
        let (body_here, ended) = match skipped.remaining {
            Some(remaining) => match usize::try_from(remaining) {
                // The NUL must be here too.
                Ok(remaining) if available > remaining => (remaining, true),
                _ => (available.min(usize::try_from(remaining).unwrap_or(usize::MAX)), false),
            },
            None => match self.buffer.iter().position(|&byte| byte == 0) {
                Some(end) => (end, true),
                None => (available, false),
            },
        };
        let keep = body_here.min(KEPT_BYTES.saturating_sub(skipped.kept.len()));
        skipped.kept.extend_from_slice(&self.buffer[..keep]);
        skipped.body_bytes += body_here as u64;
        if let Some(remaining) = &mut skipped.remaining {
            *remaining -= body_here as u64;
        }
        self.buffer.advance(body_here + usize::from(ended));
        if !ended {
            return None;
        }
        let skipped = self.skipped.take()?;
        let reason = format!(
            "the frame has a body of {} bytes and exceeds the limit of {} bytes; the first {} bytes are kept",
            skipped.body_bytes,
            self.max_frame_bytes,
            skipped.kept.len()
        );
        let fault = Fault { code: "frame_too_large", reason };
        Some(delivery(plain_headers(&skipped.head), skipped.kept.freeze(), Some(fault)))
    }
}

/// The length of the command and the headers, with the empty line after them.
fn end_of_head(buffer: &[u8], searched: usize) -> Option<usize> {
    // The end may lie across the border of what was searched.
    let start = searched.saturating_sub(2);
    let rest = buffer.get(start..)?;
    (0..rest.len()).find_map(|at| match rest[at..] {
        [b'\n', b'\n', ..] => Some(start + at + 2),
        [b'\n', b'\r', b'\n', ..] => Some(start + at + 3),
        _ => None,
    })
}

/// The first `content-length` header, when it is a number.
fn content_length(head: &[u8]) -> Option<u64> {
    lines(head)
        .skip(1)
        .find_map(|line| line.strip_prefix(b"content-length:"))
        .and_then(|value| std::str::from_utf8(value).ok()?.parse().ok())
}

fn lines(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    head.split(|&byte| byte == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
        .take_while(|line| !line.is_empty())
}

fn understand(message: Message<FromServer>) -> Frame {
    match message.content {
        FromServer::Connected { version, heartbeat, .. } => {
            Frame::Connected { version, heart_beat: heartbeat }
        }
        FromServer::Receipt { receipt_id } => Frame::Receipt(receipt_id),
        FromServer::Error { message, body } => Frame::Error {
            message: message.unwrap_or_default(),
            detail: String::from_utf8_lossy(&body.unwrap_or_default()).into_owned(),
        },
        FromServer::Message { headers, body, .. } => {
            // The codec unescapes values only.
            let headers = headers.into_iter().map(|(key, value)| (unescape(&key), value)).collect();
            Frame::Message(delivery(headers, Bytes::from(body.unwrap_or_default()), None))
        }
    }
}

/// What can be known of a frame that the codec refuses, for instance because a header is no UTF-8.
fn salvage(frame: &Bytes, head_bytes: usize, reason: String) -> Result<Frame, FrameError> {
    if !frame.starts_with(b"MESSAGE") {
        return Err(FrameError::Malformed(reason));
    }
    let headers = plain_headers(&frame[..head_bytes]);
    let body = frame.slice(head_bytes..frame.len() - 1);
    let fault = Fault { code: "frame_malformed", reason };
    Ok(Frame::Message(delivery(headers, body, Some(fault))))
}

fn delivery(headers: Vec<(String, String)>, body: Bytes, fault: Option<Fault>) -> Delivery {
    // Of a header that is repeated the first counts (STOMP 1.2, "Repeated Header Entries").
    let first = |name: &str| headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
    Delivery { message_id: first("message-id").unwrap_or_default(), ack: first("ack"), body, fault, headers }
}

/// Headers read without the codec, for frames that it does not take. What is no UTF-8 is replaced.
fn plain_headers(head: &[u8]) -> Vec<(String, String)> {
    lines(head)
        .skip(1)
        .map(|line| {
            let colon = line.iter().position(|&byte| byte == b':').unwrap_or(line.len());
            let text = |bytes: &[u8]| unescape(&String::from_utf8_lossy(bytes));
            (text(&line[..colon]), text(line.get(colon + 1..).unwrap_or_default()))
        })
        .collect()
}

/// Resolves the escapes of STOMP 1.2 ("Value Encoding"). One that is undefined stays as it is: it comes from a
/// broker that does not escape, and a header is not worth a connection.
fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        if character != '\\' {
            plain.push(character);
            continue;
        }
        match rest.next() {
            Some('r') => plain.push('\r'),
            Some('n') => plain.push('\n'),
            Some('c') => plain.push(':'),
            Some('\\') => plain.push('\\'),
            undefined => {
                plain.push('\\');
                plain.extend(undefined);
            }
        }
    }
    plain
}
