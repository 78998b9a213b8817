//! The client's side of WebSocket (RFC 6455), as far as the benchmark needs it: the upgrade, masked frames out,
//! unmasked frames in.

use std::fmt::Write;
use std::net::SocketAddr;

use anyhow::{Result, bail, ensure};

/// The longest message that is accepted, in bytes.
const MAX_MESSAGE_BYTES: usize = 16 << 20;
/// The longest payload of a control frame (section 5.5).
const MAX_CONTROL_BYTES: usize = 125;
/// The longest head of a frame from a server: two bytes and a length of eight.
const MAX_HEAD_BYTES: usize = 10;
const FIN: u8 = 0x80;
const MASKED: u8 = 0x80;
/// A mask guards proxies against scripts in browsers (section 10.3), which there are none of here, so that a fixed
/// one will do.
const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// The key of every upgrade and the answer to it: the example of section 1.3.
pub const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
/// What a server answers to [`KEY`].
pub const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

/// What a frame is for (section 5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opcode {
    /// More of the message that the last frame began.
    Continuation = 0,
    /// A message of text.
    Text = 1,
    /// A message of bytes.
    Binary = 2,
    /// The end of the connection.
    Close = 8,
    /// Asks for a pong.
    Ping = 9,
    /// Answers a ping.
    Pong = 10,
}

impl Opcode {
    fn of(number: u8) -> Result<Self> {
        Ok(match number {
            0 => Self::Continuation,
            1 => Self::Text,
            2 => Self::Binary,
            8 => Self::Close,
            9 => Self::Ping,
            10 => Self::Pong,
            _ => bail!("a frame has the unknown opcode {number}"),
        })
    }

    fn is_control(self) -> bool {
        self as u8 >= 8
    }
}

/// The request that asks for a WebSocket.
#[must_use]
pub fn upgrade_request(path: &str, host: SocketAddr, subprotocol: &str) -> String {
    let mut request = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\nOrigin: http://{host}\r\n"
    );
    if !subprotocol.is_empty() {
        // Writing to a text cannot fail.
        let _ = write!(request, "Sec-WebSocket-Protocol: {subprotocol}\r\n");
    }
    request.push_str("\r\n");
    request
}

/// Appends one frame as a client sends it: whole and masked.
pub fn write_masked(output: &mut Vec<u8>, opcode: Opcode, payload: &[u8]) {
    write_head(output, opcode, payload.len(), MASKED);
    output.extend_from_slice(&MASK);
    output.extend(payload.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
}

/// Appends the head of a whole frame as a server sends it.
pub fn write_server_head(output: &mut Vec<u8>, opcode: Opcode, payload_bytes: usize) {
    write_head(output, opcode, payload_bytes, 0);
}

fn write_head(output: &mut Vec<u8>, opcode: Opcode, payload_bytes: usize, masked: u8) {
    output.push(FIN | opcode as u8);
    match payload_bytes {
        0..=125 => output.push(masked | payload_bytes as u8),
        126..=0xffff => {
            output.push(masked | 126);
            output.extend_from_slice(&(payload_bytes as u16).to_be_bytes());
        }
        _ => {
            output.push(masked | 127);
            output.extend_from_slice(&(payload_bytes as u64).to_be_bytes());
        }
    }
}

/// Something that a server has sent: a whole message, or a control frame.
#[derive(Debug, PartialEq, Eq)]
pub enum Incoming<'a> {
    /// A message of text or bytes.
    Message(&'a [u8]),
    /// It wants a pong with the same payload.
    Ping(&'a [u8]),
    /// The connection ends, for the reason with this code (1005 when there is none, section 7.1.5).
    Close(u16),
}

#[derive(Clone, Copy, Debug)]
struct Head {
    is_final: bool,
    opcode: Opcode,
    payload_bytes: usize,
}

/// Joins frames to messages, from pieces of any size.
#[derive(Debug, Default)]
pub struct Frames {
    /// The beginning of a frame whose end has not come.
    partial: Vec<u8>,
    /// The payloads of a message whose last frame has not come; `None` between two messages.
    fragments: Option<Vec<u8>>,
}

impl Frames {
    /// Takes the next bytes of the connection and reports what they complete. A frame that is whole in `bytes` is not
    /// copied.
    ///
    /// # Errors
    /// When the bytes break the protocol or a message is too long.
    pub fn feed(
        &mut self,
        bytes: &[u8],
        mut on_incoming: impl FnMut(Incoming<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut rest = bytes;
        while !self.partial.is_empty() && !rest.is_empty() {
            // Only as much as the frame lacks, so that those behind it need no copy.
            let wanted = match read_head(&self.partial)? {
                None => self.partial.len() + 1,
                Some((head, head_bytes)) => head_bytes + head.payload_bytes,
            };
            let (taken, left) = rest.split_at((wanted - self.partial.len()).min(rest.len()));
            self.partial.extend_from_slice(taken);
            rest = left;
            let Some((head, head_bytes)) = read_head(&self.partial)? else { continue };
            if self.partial.len() == head_bytes + head.payload_bytes {
                let mut frame = std::mem::take(&mut self.partial);
                self.take(head, &frame[head_bytes..], &mut on_incoming)?;
                frame.clear();
                self.partial = frame;
            }
        }
        while let Some((head, head_bytes)) = read_head(rest)? {
            let end = head_bytes + head.payload_bytes;
            if rest.len() < end {
                break;
            }
            self.take(head, &rest[head_bytes..end], &mut on_incoming)?;
            rest = &rest[end..];
        }
        self.partial.extend_from_slice(rest);
        Ok(())
    }

    fn take(
        &mut self,
        head: Head,
        payload: &[u8],
        on_incoming: &mut impl FnMut(Incoming<'_>) -> Result<()>,
    ) -> Result<()> {
        match (head.opcode, &mut self.fragments) {
            (Opcode::Ping, _) => on_incoming(Incoming::Ping(payload)),
            (Opcode::Pong, _) => Ok(()),
            (Opcode::Close, _) => {
                let code = payload.first_chunk().map_or(1005, |code| u16::from_be_bytes(*code));
                on_incoming(Incoming::Close(code))
            }
            (Opcode::Continuation, None) => bail!("a continuation without a beginning"),
            (Opcode::Continuation, Some(fragments)) => {
                ensure!(fragments.len() + payload.len() <= MAX_MESSAGE_BYTES, "a message is too long");
                fragments.extend_from_slice(payload);
                if !head.is_final {
                    return Ok(());
                }
                let message = self.fragments.take().unwrap_or_default();
                on_incoming(Incoming::Message(&message))
            }
            (_, Some(_)) => bail!("a message begins inside of another"),
            (_, None) if head.is_final => on_incoming(Incoming::Message(payload)),
            (_, None) => {
                self.fragments = Some(payload.to_vec());
                Ok(())
            }
        }
    }
}

/// Reads the head at the front of `bytes` and says how long it is; `None` when it is not complete.
fn read_head(bytes: &[u8]) -> Result<Option<(Head, usize)>> {
    let [first, second, after @ ..] = bytes else { return Ok(None) };
    ensure!(first & 0x70 == 0, "a frame uses an extension that was not agreed on");
    ensure!(second & MASKED == 0, "a server must not mask");
    let opcode = Opcode::of(first & 0x0f)?;
    let is_final = first & FIN != 0;
    let (payload_bytes, length_bytes) = match second & 0x7f {
        126 => match after.first_chunk() {
            Some(length) => (u64::from(u16::from_be_bytes(*length)), 2),
            None => return Ok(None),
        },
        127 => match after.first_chunk() {
            Some(length) => (u64::from_be_bytes(*length), 8),
            None => return Ok(None),
        },
        short => (u64::from(short), 0),
    };
    let payload_bytes = usize::try_from(payload_bytes)?;
    ensure!(payload_bytes <= MAX_MESSAGE_BYTES, "a frame is too long");
    ensure!(
        !opcode.is_control() || (is_final && payload_bytes <= MAX_CONTROL_BYTES),
        "a control frame is too long or in fragments"
    );
    let head_bytes = 2 + length_bytes;
    debug_assert!(head_bytes <= MAX_HEAD_BYTES);
    Ok(Some((Head { is_final, opcode, payload_bytes }, head_bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Owned, so that what was reported can be kept.
    #[derive(Debug, PartialEq, Eq)]
    enum Seen {
        Message(Vec<u8>),
        Ping(Vec<u8>),
        Close(u16),
    }

    fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<Seen>> {
        let mut frames = Frames::default();
        let mut seen = Vec::new();
        for piece in pieces {
            frames.feed(piece, |incoming| {
                seen.push(match incoming {
                    Incoming::Message(message) => Seen::Message(message.to_vec()),
                    Incoming::Ping(payload) => Seen::Ping(payload.to_vec()),
                    Incoming::Close(code) => Seen::Close(code),
                });
                Ok(())
            })?;
        }
        Ok(seen)
    }

    /// Section 5.7: a text, a text in two fragments with a ping between them; then 256 bytes, and a close.
    fn stream() -> (Vec<u8>, Vec<Seen>) {
        let mut bytes = vec![0x81, 0x05, 0x48, 0x65, 0x6c, 0x6c, 0x6f];
        bytes.extend([
            0x01, 0x03, 0x48, 0x65, 0x6c, 0x89, 0x05, 0x48, 0x65, 0x6c, 0x6c, 0x6f, 0x80, 0x02, 0x6c, 0x6f,
        ]);
        bytes.extend([0x82, 0x7e, 0x01, 0x00]);
        bytes.extend([7; 256]);
        bytes.extend([0x8a, 0x00, 0x88, 0x02, 0x03, 0xf4]);
        let seen = vec![
            Seen::Message(b"Hello".to_vec()),
            Seen::Ping(b"Hello".to_vec()),
            Seen::Message(b"Hello".to_vec()),
            Seen::Message(vec![7; 256]),
            Seen::Close(1012),
        ];
        (bytes, seen)
    }

    #[test]
    fn the_standard_s_examples_are_read_at_every_split() {
        let (bytes, expected) = stream();
        for split in 0..=bytes.len() {
            assert_eq!(read([&bytes[..split], &bytes[split..]]).unwrap(), expected, "{split}");
        }
        assert_eq!(read(bytes.chunks(1)).unwrap(), expected);
    }

    #[test]
    fn lengths_of_each_form_are_written_and_read() {
        for payload_bytes in [0, 125, 126, 65_535, 65_536] {
            let mut bytes = Vec::new();
            write_server_head(&mut bytes, Opcode::Text, payload_bytes);
            bytes.resize(bytes.len() + payload_bytes, b'x');
            assert_eq!(read([bytes.as_slice()]).unwrap(), [Seen::Message(vec![b'x'; payload_bytes])]);
        }
    }

    #[test]
    fn a_client_s_frame_is_the_standard_s_masked_hello() {
        let mut bytes = Vec::new();
        write_masked(&mut bytes, Opcode::Text, b"Hello");
        // Section 5.7, with the same mask.
        assert_eq!(bytes, [0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58]);
    }

    #[test]
    fn what_breaks_the_protocol_is_refused() {
        let too_long = [&[0x82_u8, 0x7f] as &[u8], &(MAX_MESSAGE_BYTES as u64 + 1).to_be_bytes()].concat();
        for bytes in [
            &[0xc1_u8, 0x00] as &[u8], // a reserved bit
            &[0x83, 0x00],             // an unknown opcode
            &[0x81, 0x80, 1, 2, 3, 4], // masked
            &[0x80, 0x00],             // a continuation of nothing
            &[0x01, 0x00, 0x81, 0x00], // a message inside of a message
            &[0x09, 0x00],             // a ping in fragments
            &[0x89, 0x7e, 0x00, 0x7e], // a ping of 126 bytes
            &too_long,
        ] {
            assert!(read([bytes]).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn the_request_names_a_protocol_only_when_there_is_one() {
        let host = "127.0.0.1:80".parse().unwrap();
        let request = upgrade_request("/ws", host, "freshet.v1");
        assert!(request.starts_with("GET /ws HTTP/1.1\r\nHost: 127.0.0.1:80\r\n"), "{request}");
        assert!(request.ends_with("\r\nSec-WebSocket-Protocol: freshet.v1\r\n\r\n"), "{request}");
        assert!(!upgrade_request("/ws", host, "").contains("Protocol"));
    }
}
