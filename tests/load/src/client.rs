//! One client: its connection, and what it makes of the bytes that come.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;

use anyhow::{Context, Result, bail, ensure};
use memchr::memmem;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use socket2::SockRef;

use crate::event::{Mark, MarkFinder};
use crate::response::ResponseDecoder;
use crate::server::Transport;
use crate::sse::Scanner;
use crate::system::monotonic_nanos;
use crate::tally::{Order, Tally};
use crate::websocket::{Frames, Incoming, Opcode, upgrade_request, write_masked};

/// The most bytes that a client waits for the words that say that it is ready.
const MAX_BYTES_UNTIL_READY: usize = 64 * 1024;
/// What the system makes of this is its least receive buffer, so that a slow client holds little back for the server.
pub(crate) const SLOW_RECEIVE_BUFFER_BYTES: usize = 4096;

/// Where and how the clients connect, and how fast.
#[derive(Clone, Debug)]
pub struct Target {
    /// The server.
    pub address: SocketAddr,
    /// How the clients receive.
    pub transport: Transport,
    /// Path and query of the stream.
    pub path: String,
    /// `Sec-WebSocket-Protocol` of the upgrade; none when empty.
    pub subprotocol: String,
    /// What each client sends as soon as its WebSocket is open, a text message each.
    pub first_messages: Vec<String>,
    /// A client is ready when it has received this; when it is empty, with the head of the response.
    pub ready: String,
    /// Whether the server pings with messages `{}` and wants them back, as Centrifugo does.
    pub answers_empty_objects: bool,
    /// New connections a second, at most.
    pub connects_per_second: u32,
}

/// How far a client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The connection is not made.
    Connecting,
    /// The request is written; the client is not ready.
    Waiting,
    /// It is subscribed.
    Ready,
    /// The server has closed it.
    Closed,
}

/// How a client reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Whatever comes, at once.
    Full,
    /// Not at all, or a little now and then, so that what it receives does not count.
    Lagging,
}

#[derive(Debug)]
enum Reader {
    Sse(Scanner),
    WebSocket(Frames),
}

/// What all clients of a thread share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) buffer: Vec<u8>,
    pub(crate) finder: MarkFinder,
    pub(crate) tally: Tally,
}

/// One client.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) stream: Option<TcpStream>,
    pub(crate) stage: Stage,
    pub(crate) pace: Pace,
    pub(crate) order: Order,
    decoder: ResponseDecoder,
    reader: Reader,
    /// What has come so far, while the client is not ready.
    seen: Vec<u8>,
}

impl Client {
    /// Begins to connect, and reports to this token.
    pub(crate) fn open(target: &Target, registry: &Registry, token: Token) -> Result<Self> {
        let mut stream = TcpStream::connect(target.address).context("no connection")?;
        registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
        Ok(Self {
            stream: Some(stream),
            stage: Stage::Connecting,
            pace: Pace::Full,
            order: Order::default(),
            decoder: ResponseDecoder::default(),
            reader: match target.transport {
                Transport::Sse => Reader::Sse(Scanner::default()),
                Transport::WebSocket => Reader::WebSocket(Frames::default()),
            },
            seen: Vec::new(),
        })
    }

    /// Goes on when the socket may be read, or written for the first time.
    ///
    /// # Errors
    /// When the server refuses or closes the connection, or breaks the protocol.
    pub(crate) fn on_ready(
        &mut self,
        shared: &mut Shared,
        target: &Target,
        registry: &Registry,
        token: Token,
    ) -> Result<()> {
        let Some(mut stream) = self.stream.take() else { return Ok(()) };
        if self.stage == Stage::Connecting {
            if let Some(error) = stream.take_error()? {
                return Err(error).context("connecting failed");
            }
            // A fresh socket's buffer holds more than a request.
            stream.write_all(request(target).as_bytes()).context("the request cannot be written")?;
            self.stage = Stage::Waiting;
            registry.reregister(&mut stream, token, Interest::READABLE)?;
        } else {
            self.read(&mut stream, shared, target)?;
        }
        self.stream = Some(stream);
        Ok(())
    }

    fn read(&mut self, stream: &mut TcpStream, shared: &mut Shared, target: &Target) -> Result<()> {
        loop {
            let read = match stream.read(&mut shared.buffer) {
                Ok(0) => bail!("closed by the server"),
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error).context("reading failed"),
            };
            let Shared { buffer, finder, tally } = shared;
            let replies = self.take(&buffer[..read], monotonic_nanos()?, finder, tally, target)?;
            if !replies.is_empty() {
                stream.write_all(&replies).context("a frame cannot be written")?;
            }
            // A short read has emptied the socket, and more data makes a new event (epoll(7), question 9).
            if read < buffer.len() {
                return Ok(());
            }
        }
    }

    /// Takes what has come, and returns what is to be sent in reply.
    fn take(
        &mut self,
        bytes: &[u8],
        received_nanos: u64,
        finder: &MarkFinder,
        tally: &mut Tally,
        target: &Target,
    ) -> Result<Vec<u8>> {
        let mut replies = Vec::new();
        let mut input = bytes;
        let had_head = self.decoder.status().is_some();
        let (order, counts) = (&mut self.order, self.pace == Pace::Full);
        let mut count = |mark: Mark| {
            if counts {
                tally.record(order, mark.sequence, mark.sent_nanos, received_nanos);
            }
        };
        while let Some(piece) = self.decoder.next_piece(&mut input)? {
            check_status(self.decoder.status(), target)?;
            if self.stage == Stage::Waiting {
                self.seen.extend_from_slice(piece);
            }
            match &mut self.reader {
                Reader::Sse(scanner) => {
                    scanner.feed(piece, finder, |marks| marks.iter().copied().for_each(&mut count))?;
                }
                Reader::WebSocket(frames) => frames.feed(piece, |incoming| {
                    match incoming {
                        Incoming::Message(message) => {
                            finder.find(message, &mut count);
                            if target.answers_empty_objects && has_empty_object(message) {
                                write_masked(&mut replies, Opcode::Text, b"{}");
                            }
                        }
                        Incoming::Ping(payload) => write_masked(&mut replies, Opcode::Pong, payload),
                        Incoming::Close(code) => bail!("closed by the server with the code {code}"),
                    }
                    Ok(())
                })?,
            }
        }
        if self.stage == Stage::Waiting {
            self.wait(had_head, target, &mut replies)?;
        }
        ensure!(!self.decoder.is_complete(), "the stream ended");
        Ok(replies)
    }

    /// Checks the head, sends the first messages after it, and sees whether the client is ready.
    fn wait(&mut self, had_head: bool, target: &Target, replies: &mut Vec<u8>) -> Result<()> {
        if self.decoder.status().is_none() {
            return Ok(());
        }
        check_status(self.decoder.status(), target)?;
        if !had_head {
            for message in &target.first_messages {
                write_masked(replies, Opcode::Text, message.as_bytes());
            }
        }
        if memmem::find(&self.seen, target.ready.as_bytes()).is_some() {
            self.stage = Stage::Ready;
            self.seen = Vec::new();
        }
        ensure!(
            self.seen.len() <= MAX_BYTES_UNTIL_READY,
            "the server does not say that the client is subscribed"
        );
        Ok(())
    }

    /// Becomes a client that reads seldom: what it receives does not count any more, and waits at the server.
    ///
    /// # Errors
    /// When the system refuses.
    pub(crate) fn lag(&mut self, registry: &Registry, shrink: bool) -> Result<()> {
        self.pace = Pace::Lagging;
        if let Some(stream) = &mut self.stream {
            registry.deregister(stream)?;
            if shrink {
                SockRef::from(&*stream).set_recv_buffer_size(SLOW_RECEIVE_BUFFER_BYTES)?;
            }
        }
        Ok(())
    }

    /// Reads at most this much and forgets it.
    ///
    /// # Errors
    /// When the server has closed the connection.
    pub(crate) fn sip(&mut self, buffer: &mut [u8]) -> Result<()> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        match stream.read(buffer) {
            Ok(0) => bail!("closed by the server"),
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error).context("reading failed"),
            _ => Ok(()),
        }
    }
}

/// Whether a status, once it is known, is the one of a client that is let in.
fn check_status(status: Option<u16>, target: &Target) -> Result<()> {
    let expected = match target.transport {
        Transport::Sse => 200,
        Transport::WebSocket => 101,
    };
    match status {
        Some(status) if status != expected => bail!("answered with status {status}"),
        _ => Ok(()),
    }
}

/// What opens a stream.
pub(crate) fn request(target: &Target) -> String {
    match target.transport {
        Transport::Sse => format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\nAccept: text/event-stream\r\nCache-Control: no-cache\r\n\r\n",
            target.path, target.address
        ),
        Transport::WebSocket => upgrade_request(&target.path, target.address, &target.subprotocol),
    }
}

/// Whether one line of a message, which may hold several of JSON, is an empty object.
fn has_empty_object(message: &[u8]) -> bool {
    message == b"{}"
        || (message.len() < 1000 && message.split(|byte| *byte == b'\n').any(|line| line == b"{}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::Server;
    use crate::websocket::write_server_head;

    const EVENT: &str = "{\"sentNanos\":\"00000000000000000100\",\"eventId\":\"load-000000000010\"}";

    struct Case {
        client: Client,
        target: Target,
        tally: Tally,
    }

    impl Case {
        /// A client whose request is written, to a port that nobody needs to serve.
        fn of(server: &str) -> Self {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let poll = mio::Poll::new().unwrap();
            let target = server.parse::<Server>().unwrap().target(listener.local_addr().unwrap(), 1);
            let mut client = Client::open(&target, poll.registry(), Token(0)).unwrap();
            client.stage = Stage::Waiting;
            client.order = Order::starting_at(10);
            Self { client, target, tally: Tally::of(10..20) }
        }

        fn take(&mut self, bytes: &[u8]) -> Result<Vec<u8>> {
            self.client.take(bytes, 150, &MarkFinder::default(), &mut self.tally, &self.target)
        }
    }

    fn frame(text: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_server_head(&mut bytes, Opcode::Text, text.len());
        bytes.extend_from_slice(text.as_bytes());
        bytes
    }

    #[test]
    fn a_websocket_subscribes_once_it_is_open_and_is_ready_once_it_is_subscribed() {
        let mut case = Case::of("freshet-ws");
        let mut subscribe = Vec::new();
        write_masked(&mut subscribe, Opcode::Text, br#"{"type":"subscribe","channel":"iceberg"}"#);
        assert_eq!(
            case.take(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n").unwrap(),
            subscribe
        );
        assert_eq!(case.take(&frame(r#"{"type":"welcome"}"#)).unwrap(), b"");
        assert_eq!(case.client.stage, Stage::Waiting);
        let subscribed = frame(r#"{"type":"subscribed","channel":"iceberg"}"#);
        assert_eq!(case.take(&subscribed[..20]).unwrap(), b"");
        assert_eq!(case.client.stage, Stage::Waiting);
        assert_eq!(case.take(&subscribed[20..]).unwrap(), b"");
        assert_eq!(case.client.stage, Stage::Ready);
        // Two frames in one piece, the second with a later event.
        let later = EVENT.replace("0010\"", "0011\"");
        case.take(&[frame(&format!("{{\"data\":{EVENT}}}")), frame(&later)].concat()).unwrap();
        assert_eq!((case.tally.delivered, case.tally.duplicates), (2, 0));
    }

    #[test]
    fn pings_of_both_kinds_are_answered() {
        let mut case = Case::of("centrifugo-ws");
        case.take(b"HTTP/1.1 101 Switching Protocols\r\n\r\n").unwrap();
        let replies =
            case.take(&[&frame("{}"), &[0x89, 1, b'x'] as &[u8], &frame("{\"id\":1}\n{}")].concat()).unwrap();
        let mut expected = Vec::new();
        write_masked(&mut expected, Opcode::Text, b"{}");
        write_masked(&mut expected, Opcode::Pong, b"x");
        write_masked(&mut expected, Opcode::Text, b"{}");
        assert_eq!(replies, expected);
    }

    #[test]
    fn a_stream_is_ready_with_the_words_of_its_server_or_with_its_head() {
        let head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
        let mut nchan = Case::of("nchan-sse");
        nchan.take(head).unwrap();
        assert_eq!(nchan.client.stage, Stage::Ready);
        let mut freshet = Case::of("freshet-sse");
        freshet.take(head).unwrap();
        assert_eq!(freshet.client.stage, Stage::Waiting);
        freshet.take(b"event: connected\ndata: {}\n\n").unwrap();
        assert_eq!(freshet.client.stage, Stage::Ready);
        freshet.take(format!("id: 1\ndata: {EVENT}\n\n").as_bytes()).unwrap();
        assert_eq!(freshet.tally.delivered, 1);
    }

    #[test]
    fn a_refusal_and_a_close_are_told_with_their_numbers() {
        let error =
            Case::of("nchan-ws").take(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno").unwrap_err();
        assert_eq!(error.to_string(), "answered with status 403");
        let mut case = Case::of("node-ws");
        case.take(b"HTTP/1.1 101 Switching Protocols\r\n\r\n").unwrap();
        let error = case.take(&[0x88, 2, 0x0f, 0xa1]).unwrap_err();
        assert_eq!(error.to_string(), "closed by the server with the code 4001");
    }
}
