//! The floor: what the kernel alone costs for a fan-out.
//!
//! One thread, and for each event one `send()` of a prepared buffer to each client. It speaks just enough HTTP to
//! be measured by the same clients: `GET` subscribes, `POST` publishes the lines of its body. The bytes that a
//! client receives for an event are those of a real server: chunk, `id`, `event`, `data`. It is no server for
//! use: a client whose socket is full misses the event.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use serde::{Deserialize, Serialize};

use crate::sse::find;

const LISTENER: Token = Token(usize::MAX);
/// The longest request that is accepted, in bytes.
const MAX_REQUEST_BYTES: usize = 16 << 20;
const STREAM_HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n\
    Transfer-Encoding: chunked\r\n\r\n";

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
    subscribed: bool,
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
    frame: Vec<u8>,
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
            frame: Vec::new(),
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
            self.connections[index] = Some(Connection { stream, request: Vec::new(), subscribed: false });
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
                Ok(read) => connection.request.extend_from_slice(&buffer[..read]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            }
            ensure!(connection.request.len() <= MAX_REQUEST_BYTES, "the request is too long");
            let Some(head_bytes) = find(&connection.request, b"\r\n\r\n").map(|end| end + 4) else {
                continue;
            };
            if connection.request.starts_with(b"GET ") {
                self.accepted += 1;
                connection.request = Vec::new();
                connection.subscribed = true;
                connection.stream.write_all(first_bytes(self.accepted).as_bytes())?;
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
            self.frame.clear();
            write_frame(&mut self.frame, line)?;
            for index in 0..self.connections.len() {
                let Some(connection) = &mut self.connections[index] else { continue };
                if !connection.subscribed {
                    continue;
                }
                match connection.stream.write(&self.frame) {
                    Ok(written) if written == self.frame.len() => self.sends.complete += 1,
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

/// The head of a stream and its `connected` event.
fn first_bytes(client: u64) -> String {
    let event = format!(
        "retry: 3000\n\nevent: connected\ndata: {{\"clientId\": \"00000000-0000-4000-8000-{client:012x}\"}}\n\n"
    );
    format!("{STREAM_HEAD}{:X}\r\n{event}\r\n", event.len())
}

/// Appends an event as one chunk of the stream.
fn write_frame(frame: &mut Vec<u8>, event: &[u8]) -> Result<()> {
    let id = event_id(event).context("an event without id")?;
    let fields_bytes = "id: \nevent: iceberg-mutation\ndata: \n\n".len() + id.len() + event.len();
    write!(frame, "{fields_bytes:X}\r\nid: {id}\nevent: iceberg-mutation\ndata: ")?;
    frame.extend_from_slice(event);
    frame.extend_from_slice(b"\n\n\r\n");
    Ok(())
}

fn event_id(event: &[u8]) -> Option<&str> {
    let name = b"\"eventId\":\"";
    let value = &event[find(event, name)? + name.len()..];
    std::str::from_utf8(&value[..find(value, b"\"")?]).ok()
}

fn content_length(head: &[u8]) -> Result<usize> {
    let head = std::str::from_utf8(head)?;
    let mut fields = head.split("\r\n").filter_map(|line| line.split_once(':'));
    let (_, value) =
        fields.find(|(name, _)| name.eq_ignore_ascii_case("content-length")).context("no content length")?;
    Ok(value.trim().parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response::ResponseDecoder;

    #[test]
    fn a_frame_is_one_chunk_with_the_contract_s_fields() {
        let event = br#"{"sentNanos":"1","eventId":"load-1","x":2}"#;
        let mut stream = STREAM_HEAD.as_bytes().to_vec();
        write_frame(&mut stream, event).unwrap();
        let mut input = stream.as_slice();
        let body = ResponseDecoder::default().next_piece(&mut input).unwrap().unwrap();
        let expected =
            format!("id: load-1\nevent: iceberg-mutation\ndata: {}\n\n", String::from_utf8_lossy(event));
        assert_eq!(body, expected.as_bytes());
        assert_eq!(input, b"\r\n");
    }

    #[test]
    fn requests_without_what_is_needed_are_refused() {
        assert!(content_length(b"POST / HTTP/1.1\r\nHost: x\r\n\r\n").is_err());
        assert!(write_frame(&mut Vec::new(), b"{}").is_err());
        assert_eq!(content_length(b"POST / HTTP/1.1\r\ncontent-length: 12\r\n\r\n").unwrap(), 12);
    }
}
