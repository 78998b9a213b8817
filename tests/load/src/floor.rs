//! The floor: what the kernel alone costs for a fan-out.
//!
//! One thread, and for each event one `send()` of a prepared buffer to each client. It speaks just enough HTTP to
//! be measured by the same clients: `GET` subscribes, by WebSocket when it asks for the upgrade, `POST` publishes the
//! lines of its body. The bytes that a client receives for an event are those of the daemon. It is no server for use:
//! a client whose socket is full misses the event, and what a WebSocket client says is not read.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use memchr::memmem;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use serde::{Deserialize, Serialize};

use crate::server::Transport;
use crate::websocket::{ACCEPT, KEY, Opcode, write_server_head};

const LISTENER: Token = Token(usize::MAX);
/// The longest request that is accepted, in bytes.
const MAX_REQUEST_BYTES: usize = 16 << 20;
const STREAM_HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n\
    Connection: close\r\n\r\n";
const SUBSCRIBED: &str = "{\"type\":\"subscribed\",\"channel\":\"iceberg\",\"position\":\"0000000000000000-0\",\"recovered\":true}";

/// What the floor has done so far; the body of its answer to `POST`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sends {
    /// `send()` calls that took the whole event.
    pub complete: u64,
    /// Those that took nothing, since the socket was full: the event is lost for that client.
    pub would_block: u64,
    /// Those that took a part. The client's stream is broken by that, so it is closed.
    pub partial: u64,
}

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    request: Vec<u8>,
    subscribed: Option<Transport>,
}

/// The floor server.
#[derive(Debug)]
pub struct Floor {
    poll: Poll,
    listener: TcpListener,
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    sends: Sends,
    accepted: u64,
    /// The bytes of the event that is being sent, for each transport.
    sse_frame: Vec<u8>,
    websocket_frame: Vec<u8>,
}

impl Floor {
    /// Listens.
    ///
    /// # Errors
    /// When the address is taken.
    pub fn bind(address: SocketAddr) -> Result<Self> {
        let poll = Poll::new()?;
        let mut listener =
            TcpListener::bind(address).with_context(|| format!("cannot listen on {address}"))?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        Ok(Self {
            poll,
            listener,
            connections: Vec::new(),
            free: Vec::new(),
            sends: Sends::default(),
            accepted: 0,
            sse_frame: Vec::new(),
            websocket_frame: Vec::new(),
        })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn address(&self) -> Result<SocketAddr> {
        Ok(self.listener.local_addr()?)
    }

    /// Serves until the process ends.
    ///
    /// # Errors
    /// When the system refuses to wait for the sockets.
    pub fn serve(mut self) -> Result<()> {
        let mut events = Events::with_capacity(1024);
        let mut buffer = vec![0; 256 * 1024];
        loop {
            match self.poll.poll(&mut events, Some(Duration::from_secs(1))) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                result => result.context("the sockets cannot be waited for")?,
            }
            for event in &events {
                match event.token() {
                    LISTENER => self.accept()?,
                    Token(index) => {
                        if self.receive(index, &mut buffer).is_err() {
                            self.close(index);
                        }
                    }
                }
            }
        }
    }

    fn accept(&mut self) -> Result<()> {
        loop {
            let mut stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
                Err(error) => return Err(error).context("a connection cannot be accepted"),
            };
            stream.set_nodelay(true)?;
            let index = self.free.pop().unwrap_or_else(|| {
                self.connections.push(None);
                self.connections.len() - 1
            });
            self.poll.registry().register(&mut stream, Token(index), Interest::READABLE)?;
            self.connections[index] = Some(Connection { stream, request: Vec::new(), subscribed: None });
        }
    }

    fn close(&mut self, index: usize) {
        if self.connections.get_mut(index).and_then(Option::take).is_some() {
            self.free.push(index);
        }
    }

    fn receive(&mut self, index: usize, buffer: &mut [u8]) -> Result<()> {
        loop {
            let Some(Some(connection)) = self.connections.get_mut(index) else { return Ok(()) };
            match connection.stream.read(buffer) {
                Ok(0) => bail!("closed by the client"),
                Ok(_) if connection.subscribed.is_some() => continue,
                Ok(read) => connection.request.extend_from_slice(&buffer[..read]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            }
            ensure!(connection.request.len() <= MAX_REQUEST_BYTES, "the request is too long");
            let Some(head_bytes) = memmem::find(&connection.request, b"\r\n\r\n").map(|end| end + 4) else {
                continue;
            };
            if connection.request.starts_with(b"GET ") {
                self.accepted += 1;
                let request = std::mem::take(&mut connection.request);
                let (transport, answer) = subscribe(&request, self.accepted)?;
                connection.subscribed = Some(transport);
                connection.stream.write_all(&answer)?;
                continue;
            }
            let body_bytes = content_length(&connection.request[..head_bytes])?;
            if connection.request.len() < head_bytes + body_bytes {
                continue;
            }
            let request = std::mem::take(&mut connection.request);
            self.publish(&request[head_bytes..head_bytes + body_bytes])?;
            let answer = serde_json::to_string(&self.sends)?;
            let Some(Some(connection)) = self.connections.get_mut(index) else { return Ok(()) };
            write!(
                connection.stream,
                "HTTP/1.1 202 Accepted\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{answer}",
                answer.len()
            )?;
        }
    }

    /// The loop that everything is compared with.
    fn publish(&mut self, lines: &[u8]) -> Result<()> {
        for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            self.sse_frame.clear();
            write_sse_frame(&mut self.sse_frame, line)?;
            self.websocket_frame.clear();
            write_websocket_frame(&mut self.websocket_frame, line)?;
            for index in 0..self.connections.len() {
                let Some(connection) = &mut self.connections[index] else { continue };
                let frame = match connection.subscribed {
                    Some(Transport::Sse) => &self.sse_frame,
                    Some(Transport::WebSocket) => &self.websocket_frame,
                    None => continue,
                };
                match connection.stream.write(frame) {
                    Ok(written) if written == frame.len() => self.sends.complete += 1,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => self.sends.would_block += 1,
                    Ok(_) => {
                        self.sends.partial += 1;
                        self.close(index);
                    }
                    Err(_) => self.close(index),
                }
            }
        }
        Ok(())
    }
}

/// How a client subscribes by this request, and the first bytes of the answer.
fn subscribe(request: &[u8], client: u64) -> Result<(Transport, Vec<u8>)> {
    let Some(key) = header(request, "sec-websocket-key")? else {
        let event = format!(
            "retry: 3000\n\nevent: connected\ndata: {{\"clientId\": \"00000000-0000-4000-8000-{client:012x}\"}}\n\n"
        );
        return Ok((Transport::Sse, format!("{STREAM_HEAD}{event}").into_bytes()));
    };
    // One key has a known answer; computing others is no part of a fan-out.
    ensure!(key == KEY, "only the benchmark's own clients are served");
    let mut answer = format!(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: {ACCEPT}\r\n"
    );
    if let Some(protocol) = header(request, "sec-websocket-protocol")? {
        answer.push_str(&format!("Sec-WebSocket-Protocol: {protocol}\r\n"));
    }
    answer.push_str("\r\n");
    let mut answer = answer.into_bytes();
    write_server_head(&mut answer, Opcode::Text, SUBSCRIBED.len());
    answer.extend_from_slice(SUBSCRIBED.as_bytes());
    Ok((Transport::WebSocket, answer))
}

/// Appends an event as server-sent event.
fn write_sse_frame(frame: &mut Vec<u8>, event: &[u8]) -> Result<()> {
    write!(frame, "id: {}\nevent: iceberg-mutation\ndata: ", event_id(event)?)?;
    frame.extend_from_slice(event);
    frame.extend_from_slice(b"\n\n");
    Ok(())
}

/// Appends an event as WebSocket frame.
fn write_websocket_frame(frame: &mut Vec<u8>, event: &[u8]) -> Result<()> {
    let before = format!(
        "{{\"type\":\"event\",\"channel\":\"iceberg\",\"event\":\"iceberg-mutation\",\"id\":\"{}\",\"position\":\"0000000000000000-0\",\"data\":",
        event_id(event)?
    );
    write_server_head(frame, Opcode::Text, before.len() + event.len() + 1);
    frame.extend_from_slice(before.as_bytes());
    frame.extend_from_slice(event);
    frame.push(b'}');
    Ok(())
}

fn event_id(event: &[u8]) -> Result<&str> {
    let name = b"\"eventId\":\"";
    let start = memmem::find(event, name).context("an event without id")? + name.len();
    let end = memmem::find(&event[start..], b"\"").context("an id without end")?;
    Ok(std::str::from_utf8(&event[start..start + end])?)
}

/// The value of a header field, whose name is given in lower case.
fn header<'a>(head: &'a [u8], wanted: &str) -> Result<Option<&'a str>> {
    let head = std::str::from_utf8(head)?;
    let mut fields = head.split("\r\n").filter_map(|line| line.split_once(':'));
    Ok(fields.find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value.trim()))
}

fn content_length(head: &[u8]) -> Result<usize> {
    Ok(header(head, "content-length")?.context("no content length")?.parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::websocket::{Frames, Incoming, upgrade_request};

    const EVENT: &[u8] = br#"{"sentNanos":"1","eventId":"load-1","x":2}"#;

    #[test]
    fn a_frame_has_the_contract_s_fields_for_each_transport() {
        let mut bytes = Vec::new();
        write_sse_frame(&mut bytes, EVENT).unwrap();
        let expected =
            format!("id: load-1\nevent: iceberg-mutation\ndata: {}\n\n", String::from_utf8_lossy(EVENT));
        assert_eq!(bytes, expected.as_bytes());

        bytes.clear();
        write_websocket_frame(&mut bytes, EVENT).unwrap();
        let mut messages = 0;
        let read = Frames::default().feed(&bytes, |incoming| {
            let Incoming::Message(message) = incoming else { panic!("{incoming:?}") };
            let value: serde_json::Value = serde_json::from_slice(message)?;
            assert_eq!((&value["type"], &value["id"]), (&"event".into(), &"load-1".into()));
            assert_eq!(value["data"], serde_json::from_slice::<serde_json::Value>(EVENT)?);
            messages += 1;
            Ok(())
        });
        read.unwrap();
        assert_eq!(messages, 1);
    }

    #[test]
    fn the_upgrade_is_answered_with_its_key_and_protocol() {
        let request = upgrade_request("/ws", "127.0.0.1:80".parse().unwrap(), "freshet.v1");
        let (transport, answer) = subscribe(request.as_bytes(), 1).unwrap();
        assert_eq!(transport, Transport::WebSocket);
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.contains(&format!("\r\nSec-WebSocket-Accept: {ACCEPT}\r\n")), "{answer}");
        assert!(answer.contains("\r\nSec-WebSocket-Protocol: freshet.v1\r\n\r\n"), "{answer}");
        assert!(subscribe(b"GET / HTTP/1.1\r\nSec-WebSocket-Key: x\r\n\r\n", 1).is_err());
        assert_eq!(subscribe(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 1).unwrap().0, Transport::Sse);
    }

    #[test]
    fn requests_without_what_is_needed_are_refused() {
        assert!(content_length(b"POST / HTTP/1.1\r\nHost: x\r\n\r\n").is_err());
        assert!(write_sse_frame(&mut Vec::new(), b"{}").is_err());
        assert_eq!(content_length(b"POST / HTTP/1.1\r\ncontent-length: 12\r\n\r\n").unwrap(), 12);
    }
}
