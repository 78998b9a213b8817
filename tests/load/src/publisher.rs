//! The connection that publishes: one request at a time over one kept-alive connection, as a broker delivers.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;

use anyhow::{Context, Result, bail, ensure};
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};

use crate::response::ResponseDecoder;

/// The most bytes that are kept of an answer.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// How a server takes several events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Many {
    /// As lines of JSON in one request.
    OneRequest,
    /// Each in a request of its own, the next as soon as the last is answered.
    BackToBack,
}

/// How events are put into a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publication {
    /// The path that takes them.
    pub path: String,
    /// More header fields, each with its line end.
    pub headers: String,
    /// What stands before an event.
    pub before: String,
    /// What stands behind it.
    pub behind: String,
    /// How several are published.
    pub many: Many,
}

/// Publishes over one connection.
#[derive(Debug)]
pub struct Publisher {
    stream: TcpStream,
    address: SocketAddr,
    request: Vec<u8>,
    written: usize,
    decoder: ResponseDecoder,
    answer: Vec<u8>,
    busy: bool,
    closed: bool,
}

impl Publisher {
    /// Connects, and reports to this token.
    ///
    /// # Errors
    /// When the connection cannot be made.
    pub fn connect(address: SocketAddr, registry: &Registry, token: Token) -> Result<Self> {
        let mut stream = TcpStream::connect(address)?;
        registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
        Ok(Self {
            stream,
            address,
            request: Vec::new(),
            written: 0,
            decoder: ResponseDecoder::default(),
            answer: Vec::new(),
            busy: false,
            closed: false,
        })
    }

    /// Whether a request waits for its answer.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.busy
    }

    /// Whether the server has closed the connection between two requests, as it may after some idle time.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// The body of the last answer, its first 64 KiB.
    #[must_use]
    pub fn answer(&self) -> &[u8] {
        &self.answer
    }

    /// Starts to publish events, one a line: a single one as JSON, several as NDJSON.
    ///
    /// # Errors
    /// When the last request is not answered yet, or the connection fails.
    pub fn publish(&mut self, publication: &Publication, lines: &[u8], events: u64) -> Result<()> {
        ensure!(!self.busy, "the last request is not answered yet");
        let Publication { path, headers, before, behind, .. } = publication;
        let content_type = if events == 1 { "application/json" } else { "application/x-ndjson" };
        self.request.clear();
        write!(
            self.request,
            "POST {path} HTTP/1.1\r\nHost: {}\r\n{headers}Content-Type: {content_type}\r\nContent-Length: {}\r\n\r\n{before}",
            self.address,
            before.len() + lines.len() + behind.len()
        )?;
        self.request.extend_from_slice(lines);
        self.request.extend_from_slice(behind.as_bytes());
        self.written = 0;
        self.decoder = ResponseDecoder::default();
        self.answer.clear();
        self.busy = true;
        self.write()
    }

    /// Goes on when the connection may be written or read.
    ///
    /// # Errors
    /// When the connection fails, or the answer is not a 2xx.
    pub fn on_ready(&mut self) -> Result<()> {
        if let Some(error) = self.stream.take_error()? {
            return Err(error).context("the publishing connection failed");
        }
        self.write()?;
        self.read()
    }

    fn write(&mut self) -> Result<()> {
        while self.written < self.request.len() {
            match self.stream.write(&self.request[self.written..]) {
                Ok(0) => bail!("the publishing connection takes no bytes"),
                Ok(written) => self.written += written,
                // Not connected yet: the event that says so comes here again.
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected) => {
                    break;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("a request cannot be written"),
            }
        }
        Ok(())
    }

    fn read(&mut self) -> Result<()> {
        let mut buffer = [0; 16 * 1024];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) if self.busy => bail!("the server closed the connection before it answered a request"),
                Ok(0) => {
                    self.closed = true;
                    return Ok(());
                }
                Ok(read) => self.take(&buffer[..read])?,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected) => {
                    break;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("an answer cannot be read"),
            }
        }
        Ok(())
    }

    fn take(&mut self, mut bytes: &[u8]) -> Result<()> {
        while let Some(piece) = self.decoder.next_piece(&mut bytes)? {
            let kept = piece.len().min(MAX_ANSWER_BYTES - self.answer.len());
            self.answer.extend_from_slice(&piece[..kept]);
        }
        if self.decoder.is_complete() {
            self.busy = false;
            let status = self.decoder.status().unwrap_or_default();
            let beginning = String::from_utf8_lossy(&self.answer[..self.answer.len().min(300)]);
            // Centrifugo answers 200 to what it refuses.
            let is_taken = (200..300).contains(&status) && !self.answer.starts_with(b"{\"error\"");
            ensure!(is_taken, "the server refused events with {status}: {beginning}");
        }
        Ok(())
    }
}
