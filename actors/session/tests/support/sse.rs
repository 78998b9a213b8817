//! A client that reads event streams as the WHATWG HTML standard says, section 9.2.6.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// What the standard dispatches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dispatched {
    pub name: String,
    pub data: String,
    pub last_event_id: String,
}

/// The interpretation of an event stream. Bytes come in any pieces.
#[derive(Default)]
pub struct Parser {
    line: Vec<u8>,
    last_was_cr: bool,
    data: String,
    name: String,
    id_buffer: String,
    /// What the client sends as `Last-Event-ID` when it reconnects.
    pub last_event_id: String,
    pub retry_millis: Option<u64>,
    pub comments: usize,
    pub dispatched: VecDeque<Dispatched>,
}

impl Parser {
    pub fn feed(&mut self, bytes: &[u8]) {
        for byte in bytes {
            let after_cr = std::mem::replace(&mut self.last_was_cr, *byte == b'\r');
            match byte {
                b'\n' if after_cr => {}
                b'\n' | b'\r' => {
                    let line = String::from_utf8(std::mem::take(&mut self.line)).unwrap();
                    self.line(&line);
                }
                other => self.line.push(*other),
            }
        }
    }

    fn line(&mut self, line: &str) {
        if line.is_empty() {
            return self.dispatch();
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "" => self.comments += 1,
            "event" => value.clone_into(&mut self.name),
            "data" => {
                self.data.push_str(value);
                self.data.push('\n');
            }
            "id" if !value.contains('\0') => value.clone_into(&mut self.id_buffer),
            "retry" if value.bytes().all(|byte| byte.is_ascii_digit()) => {
                self.retry_millis = value.parse().ok()
            }
            _ => {}
        }
    }

    fn dispatch(&mut self) {
        self.last_event_id.clone_from(&self.id_buffer);
        let (name, mut data) = (std::mem::take(&mut self.name), std::mem::take(&mut self.data));
        if data.is_empty() {
            return;
        }
        data.pop();
        let name = if name.is_empty() { "message".to_owned() } else { name };
        self.dispatched.push_back(Dispatched { name, data, last_event_id: self.last_event_id.clone() });
    }
}

/// One request by HTTP/1.0, whose body ends with the connection, as nginx asks by default.
pub struct Client {
    pub stream: TcpStream,
    pub head: String,
    pub parser: Parser,
}

impl Client {
    pub async fn get(address: SocketAddr, path: &str, headers: &str) -> Self {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.0\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(within(stream.read_u8()).await.unwrap());
        }
        Self { stream, head: String::from_utf8(head).unwrap(), parser: Parser::default() }
    }

    pub fn status(&self) -> &str {
        self.head.split(' ').nth(1).unwrap()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.head
            .lines()
            .filter_map(|line| line.split_once(": "))
            .find_map(|(found, value)| found.eq_ignore_ascii_case(name).then_some(value))
    }

    /// The next event; nothing when the stream has ended.
    pub async fn next(&mut self) -> Option<Dispatched> {
        loop {
            if let Some(event) = self.parser.dispatched.pop_front() {
                return Some(event);
            }
            if !self.read().await {
                return None;
            }
        }
    }

    /// Reads once. False when the stream has ended.
    pub async fn read(&mut self) -> bool {
        let mut bytes = vec![0; 64 << 10];
        let read = within(self.stream.read(&mut bytes)).await.unwrap();
        self.parser.feed(&bytes[..read]);
        read > 0
    }

    /// The next event, which must be `connected`.
    pub async fn connected(&mut self) -> String {
        let event = self.next().await.unwrap();
        assert_eq!(event.name, "connected");
        let data: serde_json::Value = serde_json::from_str(&event.data).unwrap();
        data["clientId"].as_str().unwrap().to_owned()
    }

    /// The ids of the next events, all of which must be commits.
    pub async fn ids(&mut self, count: usize) -> Vec<String> {
        let mut ids = Vec::new();
        while ids.len() < count {
            let event = self.next().await.unwrap();
            assert_eq!(event.name, "iceberg-mutation", "{event:?}");
            ids.push(event.last_event_id);
        }
        ids
    }

    pub async fn body(mut self) -> serde_json::Value {
        let mut body = Vec::new();
        within(self.stream.read_to_end(&mut body)).await.unwrap();
        serde_json::from_slice(&body).unwrap()
    }
}

/// A test fails rather than hangs.
pub async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future).await.expect("nothing came for 20 s")
}
