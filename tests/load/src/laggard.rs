//! A client of the daemon that does not keep up: it reads too slowly, never reads, or never acknowledges. When its
//! connection has ended it comes back, as browsers do, so that the others have it beside them all the time.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use memchr::{memchr, memmem};
use serde::Deserialize;
use socket2::{Domain, Socket, Type};

use crate::client::{SLOW_RECEIVE_BUFFER_BYTES, Target, request};
use crate::response::ResponseDecoder;
use crate::server::Transport;
use crate::websocket::{Frames, Incoming, Opcode, write_masked};

/// How often and how much the slow one reads.
const SIP_INTERVAL: Duration = Duration::from_secs(1);
const SIP_BYTES: usize = 1024;
/// A client that never reads cannot see that it was closed. It comes anew after this time, in which the daemon has given
/// up (`sessions.stalled_after_secs` is 30).
const SILENT_FOR: Duration = Duration::from_secs(45);
/// How long a connection that is given up is read to its end, to see how it ended.
const READ_OUT: Duration = Duration::from_secs(5);
/// The shortest time that the daemon tells clients to wait before they come back.
const COME_BACK: Duration = Duration::from_secs(1);
/// The most that is read at a time, so that the other clients of this thread do not wait.
const MOST_AT_ONCE_BYTES: usize = 256 * 1024;
const MAX_LINE_BYTES: usize = 1 << 20;
const SUBSCRIBE_WITH_WINDOW: &str = r#"{"type":"subscribe","channel":"iceberg","window":100}"#;

/// In what way it does not keep up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It reads 1 KiB a second, with the least receive buffer.
    Slow,
    /// It never reads.
    Silent,
    /// It reads at once and asked for a window, but never acknowledges.
    WithoutAcknowledgement,
}

impl Kind {
    /// Those that a transport can have: only WebSocket has acknowledgements.
    #[must_use]
    pub fn of(transport: Transport) -> &'static [Self] {
        match transport {
            Transport::Sse => &[Self::Slow, Self::Silent],
            Transport::WebSocket => &[Self::Slow, Self::Silent, Self::WithoutAcknowledgement],
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Slow => "reads 1 KiB/s",
            Self::Silent => "never reads",
            Self::WithoutAcknowledgement => "never acknowledges",
        })
    }
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ending {
    /// The daemon said this close code.
    Code(u16),
    /// It was cut off: the code did not reach the client.
    Cut,
    /// It was open when the client gave it up.
    Open,
}

impl fmt::Display for Ending {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(formatter, "code {code}"),
            Self::Cut => formatter.write_str("cut off"),
            Self::Open => formatter.write_str("open"),
        }
    }
}

/// What became of a laggard over all its connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fate {
    /// In what way it does not keep up.
    pub kind: Kind,
    /// How often its connections ended in which way.
    pub endings: BTreeMap<Ending, u64>,
    /// Events that it has read.
    pub events: u64,
    /// Events of which the daemon told it that they were left out.
    pub told_left_out: u64,
}

/// What one connection says, from pieces of any size.
#[derive(Debug)]
struct Wire {
    decoder: ResponseDecoder,
    messages: Messages,
    events: u64,
    told_left_out: u64,
    is_subscribed: bool,
    code: Option<u16>,
}

#[derive(Debug)]
enum Messages {
    /// The line that has not ended yet, and whether it belongs to a notice that is read.
    Sse {
        line: Vec<u8>,
        is_notice: bool,
    },
    WebSocket(Frames),
}

/// What is read of the daemon's messages that are no events, whatever the order of their fields.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Notice {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    left_out: u64,
    #[serde(default)]
    code: serde_json::Value,
}

impl Wire {
    fn new(transport: Transport) -> Self {
        Self {
            decoder: ResponseDecoder::default(),
            messages: match transport {
                Transport::Sse => Messages::Sse { line: Vec::new(), is_notice: false },
                Transport::WebSocket => Messages::WebSocket(Frames::default()),
            },
            events: 0,
            told_left_out: 0,
            is_subscribed: false,
            code: None,
        }
    }

    /// Takes the next bytes, and returns what is to be sent in reply. `subscribe` is sent behind the head.
    fn feed(&mut self, bytes: &[u8], subscribe: &str) -> Result<Vec<u8>> {
        let mut replies = Vec::new();
        let mut input = bytes;
        loop {
            let had_head = self.decoder.status().is_some();
            let piece = self.decoder.next_piece(&mut input)?;
            if let (false, Some(status)) = (had_head, self.decoder.status()) {
                ensure!(matches!(status, 101 | 200), "a laggard was answered with status {status}");
                if !subscribe.is_empty() {
                    write_masked(&mut replies, Opcode::Text, subscribe.as_bytes());
                }
            }
            let Some(piece) = piece else { break };
            match &mut self.messages {
                Messages::WebSocket(_) => self.frames(piece, &mut replies)?,
                Messages::Sse { .. } => self.lines(piece)?,
            }
        }
        Ok(replies)
    }

    fn frames(&mut self, piece: &[u8], replies: &mut Vec<u8>) -> Result<()> {
        let Self {
            messages: Messages::WebSocket(frames), events, told_left_out, is_subscribed, code, ..
        } = self
        else {
            return Ok(());
        };
        frames.feed(piece, |incoming| {
            match incoming {
                Incoming::Message(message) if memmem::find(message, br#""type":"event""#).is_some() => {
                    *events += 1;
                }
                Incoming::Message(message) => {
                    let notice: Notice = serde_json::from_slice(message)?;
                    ensure!(
                        notice.kind != "error",
                        "a laggard was told {}",
                        String::from_utf8_lossy(message)
                    );
                    *told_left_out += notice.left_out;
                    *is_subscribed |= notice.kind == "subscribed";
                }
                Incoming::Ping(payload) => write_masked(replies, Opcode::Pong, payload),
                Incoming::Close(number) => *code = Some(number),
            }
            Ok(())
        })
    }

    fn lines(&mut self, piece: &[u8]) -> Result<()> {
        let Self {
            messages: Messages::Sse { line, is_notice },
            events,
            told_left_out,
            is_subscribed,
            code,
            ..
        } = self
        else {
            return Ok(());
        };
        let mut rest = piece;
        while let Some(end) = memchr(b'\n', rest) {
            line.extend_from_slice(&rest[..end]);
            rest = &rest[end + 1..];
            match line.as_slice() {
                b"event: close" | b"event: coalesced" => *is_notice = true,
                b"event: connected" => *is_subscribed = true,
                b"event: iceberg-mutation" => *events += 1,
                b"" => *is_notice = false,
                data if *is_notice && data.starts_with(b"data: ") => {
                    let notice: Notice = serde_json::from_slice(&data[b"data: ".len()..])?;
                    *told_left_out += notice.left_out;
                    *code = notice.code.as_u64().map(u16::try_from).transpose()?;
                }
                _ => {}
            }
            line.clear();
        }
        line.extend_from_slice(rest);
        ensure!(line.len() <= MAX_LINE_BYTES, "a line of the stream is too long");
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It reads until it is subscribed.
    Subscribing,
    /// It does not keep up.
    Lagging,
    /// It reads what is left, to see how the connection ended.
    ReadingOut,
}

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    wire: Wire,
    stage: Stage,
    /// When the stage's next step is.
    due: Instant,
}

/// One laggard.
#[derive(Debug)]
pub struct Laggard {
    target: Target,
    subscribe: String,
    connection: Option<Connection>,
    comes_back: Option<Instant>,
    fate: Fate,
}

impl Laggard {
    /// One that comes with the next look.
    #[must_use]
    pub fn new(kind: Kind, target: Target, now: Instant) -> Self {
        let subscribe = match kind {
            Kind::WithoutAcknowledgement => SUBSCRIBE_WITH_WINDOW.to_owned(),
            Kind::Slow | Kind::Silent => target.first_messages.concat(),
        };
        let fate = Fate { kind, endings: BTreeMap::new(), events: 0, told_left_out: 0 };
        Self { target, subscribe, connection: None, comes_back: Some(now), fate }
    }

    /// Does what is due. Never waits.
    ///
    /// # Errors
    /// When the daemon refuses it or breaks the protocol.
    pub fn look(&mut self, now: Instant) -> Result<()> {
        let Some(connection) = &mut self.connection else {
            if self.comes_back.is_some_and(|due| due <= now) {
                self.connection = Some(self.open(now)?);
            }
            return Ok(());
        };
        let is_due = connection.due <= now;
        let ending = match (connection.stage, self.fate.kind) {
            (Stage::Lagging, Kind::Slow) if !is_due => None,
            (Stage::Lagging, Kind::Slow) => {
                connection.due = now + SIP_INTERVAL;
                connection.read(SIP_BYTES, &self.subscribe)?
            }
            (Stage::Lagging, Kind::Silent) => {
                if is_due {
                    connection.stage = Stage::ReadingOut;
                    connection.due = now + READ_OUT;
                }
                None
            }
            (Stage::ReadingOut, _) if is_due => Some(Ending::Open),
            _ => connection.read(MOST_AT_ONCE_BYTES, &self.subscribe)?,
        };
        if connection.stage == Stage::Subscribing && connection.wire.is_subscribed {
            connection.stage = Stage::Lagging;
            connection.due = now + if self.fate.kind == Kind::Silent { SILENT_FOR } else { SIP_INTERVAL };
        }
        if let Some(ending) = ending {
            self.fate.events += connection.wire.events;
            self.fate.told_left_out += connection.wire.told_left_out;
            *self.fate.endings.entry(ending).or_default() += 1;
            self.connection = None;
            self.comes_back = self.comes_back.map(|_| now + COME_BACK);
        }
        Ok(())
    }

    /// From now on it reads what is left to see how its connection ends, and does not come back.
    pub fn leave(&mut self, now: Instant) {
        self.comes_back = None;
        if let Some(connection) = &mut self.connection {
            connection.stage = Stage::ReadingOut;
            connection.due = now + READ_OUT;
        }
    }

    /// Whether it has no connection and does not come back.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.connection.is_none() && self.comes_back.is_none()
    }

    /// What became of it so far.
    #[must_use]
    pub fn fate(&self) -> &Fate {
        &self.fate
    }

    fn open(&self, now: Instant) -> Result<Connection> {
        let socket = Socket::new(Domain::for_address(self.target.address), Type::STREAM, None)?;
        if self.fate.kind == Kind::Slow {
            socket.set_recv_buffer_size(SLOW_RECEIVE_BUFFER_BYTES)?;
        }
        // On loopback it is made at once, or refused.
        socket.connect(&self.target.address.into()).context("a laggard cannot connect")?;
        socket.set_nonblocking(true)?;
        let mut stream = TcpStream::from(socket);
        // A fresh socket's buffer holds more than a request.
        stream.write_all(request(&self.target).as_bytes()).context("a laggard cannot ask")?;
        let wire = Wire::new(self.target.transport);
        Ok(Connection { stream, wire, stage: Stage::Subscribing, due: now })
    }
}

impl Connection {
    /// Reads at most this much of what is there, and returns how the connection has ended, if it has.
    fn read(&mut self, most_bytes: usize, subscribe: &str) -> Result<Option<Ending>> {
        let mut buffer = [0; 16 * 1024];
        let mut left = most_bytes;
        while left > 0 {
            let most = left.min(buffer.len());
            let read = match self.stream.read(&mut buffer[..most]) {
                Ok(0) => return Ok(Some(Ending::Cut)),
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                // The daemon or the system reset it.
                Err(_) => return Ok(Some(Ending::Cut)),
            };
            left -= read;
            let replies = self.wire.feed(&buffer[..read], subscribe)?;
            if let Some(code) = self.wire.code {
                return Ok(Some(Ending::Code(code)));
            }
            // Replies are few and small, and what cannot be sent any more is seen with the next read.
            if !replies.is_empty() && self.stream.write_all(&replies).is_err() {
                break;
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
#[path = "laggard_tests.rs"]
mod tests;
