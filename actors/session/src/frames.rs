//! WebSocket frames, by RFC 6455: bytes of a client into messages, and messages into frames. Pure: no socket.
//!
//! `actix_http::ws::Codec` is not used. It wants a frame whole in a buffer before it looks at its length, so that a
//! client decides how much is held; it hands out fragments and does not check their order, nor that text is
//! UTF-8; and it needs a buffer for each connection. What is here looks at each byte once, as it comes, and refuses
//! what is wrong with the first byte that makes it wrong.

#![allow(dead_code, reason = "wired in by the session")]

use bytes::{BufMut, Bytes, BytesMut};
use freshet_broadcaster::render_ws::text_head;

/// How large a message of a client may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameLimits {
    /// The most bytes of one message, all its fragments together.
    pub(crate) message_bytes: usize,
    /// The most frames that one message may come in. Without it, empty fragments would never end.
    pub(crate) fragments: u32,
}

impl Default for FrameLimits {
    fn default() -> Self {
        Self { message_bytes: 64 << 10, fragments: 1024 }
    }
}

/// What a client sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Incoming {
    /// A whole text message, which is UTF-8.
    Message(Bytes),
    /// To be answered with [`pong`] and the same payload.
    Ping(Bytes),
    /// An answer to a ping, or a sign of life without one.
    Pong,
    /// The client leaves, with its code where it gave one. To be answered with [`close`]; nothing after it is read.
    Close(Option<u16>),
}

/// Why the connection must fail. Nothing after it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FrameError {
    #[error("reserved bits are set and no extension is in use")]
    ReservedBits,
    #[error("unknown opcode")]
    UnknownOpcode,
    #[error("a client's frame is not masked")]
    NotMasked,
    #[error("the length is not written in its shortest form, or is above 2^63 - 1")]
    InvalidLength,
    #[error("a control frame is fragmented")]
    FragmentedControl,
    #[error("a control frame is longer than 125 bytes")]
    LongControl,
    #[error("a continuation without a message to continue")]
    NothingToContinue,
    #[error("a new message within a fragmented one")]
    MessageWithinMessage,
    #[error("the close frame has a code that may not be sent, or half of one")]
    InvalidCloseCode,
    #[error("text is not utf-8")]
    NotUtf8,
    #[error("binary messages are not understood")]
    Binary,
    #[error("the message is too long")]
    TooLong,
    #[error("the message has too many fragments")]
    TooManyFragments,
}

impl FrameError {
    /// The code to close with, of RFC 6455, section 7.4.1.
    pub(crate) fn close_code(self) -> u16 {
        match self {
            Self::NotUtf8 => 1007,
            Self::Binary => 1003,
            Self::TooLong | Self::TooManyFragments => 1009,
            _ => 1002,
        }
    }

    /// Its stable name, the reason of the close frame.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::ReservedBits => "reserved_bits",
            Self::UnknownOpcode => "unknown_opcode",
            Self::NotMasked => "not_masked",
            Self::InvalidLength => "invalid_length",
            Self::FragmentedControl => "fragmented_control_frame",
            Self::LongControl => "long_control_frame",
            Self::NothingToContinue => "nothing_to_continue",
            Self::MessageWithinMessage => "message_within_message",
            Self::InvalidCloseCode => "invalid_close_code",
            Self::NotUtf8 => "not_utf8",
            Self::Binary => "binary_message",
            Self::TooLong => "message_too_long",
            Self::TooManyFragments => "too_many_fragments",
        }
    }
}

/// Reads what a client sends, in whatever pieces it comes. Between messages it is one empty pointer.
#[derive(Debug, Default)]
pub(crate) struct Inbound(Option<Box<Partial>>);

/// A frame that has begun, a message that has begun, or the end.
#[derive(Debug, Default)]
struct Partial {
    stage: Stage,
    /// The fragments so far of a message.
    message: Option<Message>,
}

#[derive(Debug)]
enum Stage {
    /// The first bytes of a frame.
    Head { bytes: [u8; MAX_CLIENT_HEAD_BYTES], count: usize },
    /// The payload of a text frame goes to the message.
    Text(Payload),
    /// The payload of a control frame is gathered apart, since it may come between the fragments of a message.
    Control { opcode: u8, payload: Payload, gathered: Vec<u8> },
    /// Closed or failed.
    Ended,
}

impl Default for Stage {
    fn default() -> Self {
        Self::Head { bytes: [0; MAX_CLIENT_HEAD_BYTES], count: 0 }
    }
}

#[derive(Debug, Default)]
struct Message {
    text: BytesMut,
    /// Up to here it is UTF-8.
    checked_bytes: usize,
    fragments: u32,
}

/// A payload that has not come whole.
#[derive(Clone, Copy, Debug)]
struct Payload {
    is_final: bool,
    /// The masking key, turned so that its first byte is for the next one.
    mask: [u8; 4],
    missing_bytes: usize,
}

/// Two bytes, eight of an extended length, four of the masking key.
const MAX_CLIENT_HEAD_BYTES: usize = 14;
const MAX_CONTROL_BYTES: usize = 125;

const CONTINUATION: u8 = 0x0;
const TEXT: u8 = 0x1;
const BINARY: u8 = 0x2;
const CLOSE: u8 = 0x8;
const PING: u8 = 0x9;
const PONG: u8 = 0xA;

impl Inbound {
    /// Reads from `bytes`, and moves it on, until something has come whole. `None` when it has read all of them;
    /// call it again until then. After an error or a close it reads nothing any more.
    ///
    /// Fragments without payload give nothing, so that a limit of rates does not see them; their number is limited.
    ///
    /// # Errors
    /// When the client breaks the protocol or a limit: the connection is to be closed with that code.
    pub(crate) fn next(
        &mut self,
        bytes: &mut &[u8],
        limits: &FrameLimits,
    ) -> Result<Option<Incoming>, FrameError> {
        if bytes.is_empty() {
            return Ok(None);
        }
        let partial = self.0.get_or_insert_default();
        let read = partial.read(bytes, limits);
        if read.is_err() || matches!(read, Ok(Some(Incoming::Close(_)))) {
            **partial = Partial { stage: Stage::Ended, message: None };
        }
        if partial.is_between_messages() {
            self.0 = None;
        }
        read
    }
}

impl Partial {
    fn is_between_messages(&self) -> bool {
        self.message.is_none() && matches!(self.stage, Stage::Head { count: 0, .. })
    }

    fn read(&mut self, bytes: &mut &[u8], limits: &FrameLimits) -> Result<Option<Incoming>, FrameError> {
        loop {
            match &mut self.stage {
                Stage::Ended => {
                    *bytes = &[];
                    return Ok(None);
                }
                Stage::Head { bytes: head, count } => {
                    let Some((byte, rest)) = bytes.split_first() else { return Ok(None) };
                    *bytes = rest;
                    head[*count] = *byte;
                    *count += 1;
                    let head = *head;
                    let count = *count;
                    self.check_head(&head[..count], limits)?;
                    if count == head_bytes(head[1]) {
                        self.begin_payload(&head, limits)?;
                    }
                }
                Stage::Text(payload) => {
                    // A frame without payload is whole although there are no bytes left.
                    if bytes.is_empty() && payload.missing_bytes > 0 {
                        return Ok(None);
                    }
                    let message = self.message.get_or_insert_default();
                    let came = payload.take(bytes);
                    let start = message.text.len();
                    message.text.extend_from_slice(came);
                    payload.unmask(&mut message.text[start..]);
                    let is_whole = payload.missing_bytes == 0;
                    let is_last = is_whole && payload.is_final;
                    message.check_utf8(is_last)?;
                    if is_whole {
                        self.stage = Stage::default();
                    }
                    if is_last {
                        let text = self.message.take().unwrap_or_default().text;
                        return Ok(Some(Incoming::Message(text.freeze())));
                    }
                }
                Stage::Control { opcode, payload, gathered } => {
                    if bytes.is_empty() && payload.missing_bytes > 0 {
                        return Ok(None);
                    }
                    let came = payload.take(bytes);
                    let start = gathered.len();
                    gathered.extend_from_slice(came);
                    payload.unmask(&mut gathered[start..]);
                    if payload.missing_bytes == 0 {
                        let control = control(*opcode, std::mem::take(gathered))?;
                        self.stage = Stage::default();
                        return Ok(Some(control));
                    }
                }
            }
        }
    }

    /// Refuses a head as soon as one of its bytes makes it wrong.
    fn check_head(&self, head: &[u8], limits: &FrameLimits) -> Result<(), FrameError> {
        let opcode = head[0] & 0x0F;
        let is_control = opcode >= CLOSE;
        if head.len() == 1 {
            if head[0] & 0x70 != 0 {
                return Err(FrameError::ReservedBits);
            }
            let is_within_message = self.message.is_some();
            return match opcode {
                CONTINUATION if !is_within_message => Err(FrameError::NothingToContinue),
                TEXT | BINARY if is_within_message => Err(FrameError::MessageWithinMessage),
                BINARY => Err(FrameError::Binary),
                CLOSE | PING | PONG if head[0] & 0x80 == 0 => Err(FrameError::FragmentedControl),
                CONTINUATION | TEXT | CLOSE | PING | PONG => Ok(()),
                _ => Err(FrameError::UnknownOpcode),
            };
        }
        if head.len() == 2 {
            if head[1] & 0x80 == 0 {
                return Err(FrameError::NotMasked);
            }
            if is_control && usize::from(head[1] & 0x7F) > MAX_CONTROL_BYTES {
                return Err(FrameError::LongControl);
            }
        }
        if head.len() == head_bytes(head[1]) - 4 {
            let length = payload_bytes(head)?;
            let so_far = self.message.as_ref().map_or(0, |message| message.text.len());
            let is_too_long = usize::try_from(length)
                .ok()
                .and_then(|length| length.checked_add(so_far))
                .is_none_or(|total| total > limits.message_bytes);
            if !is_control && is_too_long {
                return Err(FrameError::TooLong);
            }
        }
        Ok(())
    }

    /// The head is whole, and was checked.
    fn begin_payload(
        &mut self,
        head: &[u8; MAX_CLIENT_HEAD_BYTES],
        limits: &FrameLimits,
    ) -> Result<(), FrameError> {
        let before_mask = head_bytes(head[1]) - 4;
        let mut mask = [0; 4];
        mask.copy_from_slice(&head[before_mask..before_mask + 4]);
        let missing_bytes = usize::try_from(payload_bytes(head)?).map_err(|_| FrameError::TooLong)?;
        let payload = Payload { is_final: head[0] & 0x80 != 0, mask, missing_bytes };
        let opcode = head[0] & 0x0F;
        self.stage = if opcode >= CLOSE {
            Stage::Control { opcode, payload, gathered: Vec::new() }
        } else {
            let message = self.message.get_or_insert_default();
            message.fragments += 1;
            if message.fragments > limits.fragments {
                return Err(FrameError::TooManyFragments);
            }
            Stage::Text(payload)
        };
        Ok(())
    }
}

/// How long a head with this second byte is, masking key included.
fn head_bytes(second: u8) -> usize {
    match second & 0x7F {
        126 => 2 + 2 + 4,
        127 => 2 + 8 + 4,
        _ => 2 + 4,
    }
}

/// The length of the payload, of a head that holds all bytes of it.
fn payload_bytes(head: &[u8]) -> Result<u64, FrameError> {
    let (length, smallest) = match (head[1] & 0x7F, &head[2..]) {
        (126, &[high, low, ..]) => (u64::from(u16::from_be_bytes([high, low])), 126),
        (127, &[a, b, c, d, e, f, g, h, ..]) => (u64::from_be_bytes([a, b, c, d, e, f, g, h]), 65_536),
        (short, _) => (u64::from(short), 0),
    };
    let is_valid = length >= smallest && length <= u64::MAX >> 1;
    if is_valid { Ok(length) } else { Err(FrameError::InvalidLength) }
}

impl Payload {
    /// Takes what belongs to it from the front of the bytes.
    fn take<'a>(&mut self, bytes: &mut &'a [u8]) -> &'a [u8] {
        let (mine, rest) = bytes.split_at(self.missing_bytes.min(bytes.len()));
        *bytes = rest;
        self.missing_bytes -= mine.len();
        mine
    }

    /// Section 5.3: each byte is combined with the next of the masking key's four.
    fn unmask(&mut self, came: &mut [u8]) {
        for four in came.chunks_mut(4) {
            for (byte, key) in four.iter_mut().zip(self.mask) {
                *byte ^= key;
            }
        }
        self.mask.rotate_left(came.len() % 4);
    }
}

impl Message {
    /// Checks what has come since the last time. A character may lack its end unless the message is whole.
    fn check_utf8(&mut self, is_whole: bool) -> Result<(), FrameError> {
        match std::str::from_utf8(&self.text[self.checked_bytes..]) {
            Ok(_) => self.checked_bytes = self.text.len(),
            Err(error) if error.error_len().is_none() && !is_whole => {
                self.checked_bytes += error.valid_up_to();
            }
            Err(_) => return Err(FrameError::NotUtf8),
        }
        Ok(())
    }
}

fn control(opcode: u8, payload: Vec<u8>) -> Result<Incoming, FrameError> {
    match (opcode, payload.as_slice()) {
        (PING, _) => Ok(Incoming::Ping(payload.into())),
        (PONG, _) => Ok(Incoming::Pong),
        (_, []) => Ok(Incoming::Close(None)),
        (_, &[high, low, ref reason @ ..]) if is_close_code(u16::from_be_bytes([high, low])) => {
            std::str::from_utf8(reason).map_err(|_| FrameError::NotUtf8)?;
            Ok(Incoming::Close(Some(u16::from_be_bytes([high, low]))))
        }
        _ => Err(FrameError::InvalidCloseCode),
    }
}

/// Section 7.4 and the registry that it founds: which codes may stand in a close frame.
fn is_close_code(code: u16) -> bool {
    matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999)
}

/// A text frame that holds the whole message.
pub(crate) fn text(message: &[u8]) -> Bytes {
    let (head, head_bytes) = text_head(message.len());
    let mut frame = BytesMut::with_capacity(head_bytes + message.len());
    frame.put_slice(&head[..head_bytes]);
    frame.put_slice(message);
    frame.freeze()
}

/// A ping without payload, the heartbeat.
pub(crate) fn ping() -> Bytes {
    Bytes::from_static(&[0x80 | PING, 0])
}

/// The answer to a ping, with its payload.
pub(crate) fn pong(payload: &[u8]) -> Bytes {
    control_frame(PONG, payload)
}

/// The last frame: a code, and a reason, cut to what a control frame holds.
pub(crate) fn close(code: u16, reason: &str) -> Bytes {
    let mut cut = reason.len().min(MAX_CONTROL_BYTES - 2);
    while !reason.is_char_boundary(cut) {
        cut -= 1;
    }
    control_frame(CLOSE, &[&code.to_be_bytes(), &reason.as_bytes()[..cut]].concat())
}

/// The answer to a close without a code: section 5.5.1 allows none in return.
pub(crate) fn close_without_code() -> Bytes {
    Bytes::from_static(&[0x80 | CLOSE, 0])
}

/// What is longer than a control frame holds is cut; payloads of a client's control frames never are.
fn control_frame(opcode: u8, payload: &[u8]) -> Bytes {
    let payload = &payload[..payload.len().min(MAX_CONTROL_BYTES)];
    let mut frame = BytesMut::with_capacity(2 + payload.len());
    frame.put_u8(0x80 | opcode);
    frame.put_u8(payload.len() as u8);
    frame.put_slice(payload);
    frame.freeze()
}

#[cfg(test)]
#[path = "frames_tests.rs"]
mod tests;
