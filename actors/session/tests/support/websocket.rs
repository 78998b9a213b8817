//! A client that speaks WebSocket as RFC 6455 says, and refuses a server that does not.

use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::sse::within;

/// The example key of section 1.3, and the value that a server must answer it with.
pub const EXAMPLE_KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
pub const EXAMPLE_ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

/// The masking key of the examples in section 5.7.
const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// The bit of a message's last frame, in a frame's first byte.
pub const FINAL: u8 = 0x80;
/// The first bytes of frames that are whole messages.
pub const TEXT: u8 = FINAL | 0x1;
pub const BINARY: u8 = FINAL | 0x2;
pub const CLOSE: u8 = FINAL | 0x8;
pub const PING: u8 = FINAL | 0x9;
pub const PONG: u8 = FINAL | 0xa;
/// The first byte of a frame in the middle of a message.
pub const CONTINUATION: u8 = 0x0;

/// What a server sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    Text(String),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    /// A code, which may be absent, and a reason.
    Close(Option<u16>, String),
    /// The end of the TCP connection.
    End,
}

pub struct Client {
    pub stream: TcpStream,
    pub head: String,
}

impl Client {
    /// Asks for a WebSocket. Whether the answer is one is for the test to see.
    pub async fn ask(address: SocketAddr, headers: &str) -> Self {
        let request = format!(
            "GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: {EXAMPLE_KEY}\r\nSec-WebSocket-Version: 13\r\n{headers}\r\n"
        );
        Self::request(address, &request).await
    }

    pub async fn request(address: SocketAddr, request: &str) -> Self {
        let mut client = Self { stream: TcpStream::connect(address).await.unwrap(), head: String::new() };
        client.ask_again(request).await;
        client
    }

    /// Another request on the same connection.
    pub async fn ask_again(&mut self, request: &str) {
        self.send_bytes(request.as_bytes()).await;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(within(self.stream.read_u8()).await.unwrap());
        }
        self.head = String::from_utf8(head).unwrap();
    }

    /// A WebSocket whose welcome was read.
    pub async fn open(address: SocketAddr) -> Self {
        Self::open_with(address, "").await
    }

    pub async fn open_with(address: SocketAddr, headers: &str) -> Self {
        let mut client = Self::ask(address, headers).await;
        assert_eq!(client.status(), "101", "{}", client.head);
        assert_eq!(client.says().await["type"], "welcome");
        client
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

    /// The body of a refusal.
    pub async fn refusal(&mut self) -> Value {
        let length = self.header("content-length").unwrap().parse().unwrap();
        let mut body = vec![0; length];
        within(self.stream.read_exact(&mut body)).await.unwrap();
        serde_json::from_slice(&body).unwrap()
    }

    pub async fn send(&mut self, message: Value) {
        self.send_frame(TEXT, message.to_string().as_bytes()).await;
    }

    pub async fn send_frame(&mut self, first: u8, payload: &[u8]) {
        self.send_bytes(&masked(first, payload)).await;
    }

    pub async fn send_bytes(&mut self, bytes: &[u8]) {
        within(self.stream.write_all(bytes)).await.unwrap();
    }

    /// The next frame, which must be as a server's has to be: whole, without reserved bits, not masked, its length in
    /// the shortest form.
    pub async fn frame(&mut self) -> Frame {
        let mut head = [0; 2];
        match within(self.stream.read_exact(&mut head)).await {
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Frame::End,
            Err(error) => panic!("the connection broke: {error}"),
        }
        let length = match head[1] {
            short @ 0..=125 => u64::from(short),
            126 => u64::from(within(self.stream.read_u16()).await.unwrap()),
            127 => within(self.stream.read_u64()).await.unwrap(),
            _ => panic!("a server's frame is not masked"),
        };
        assert_eq!(head[1], shortest(length), "the length has its shortest form");
        let mut payload = vec![0; usize::try_from(length).unwrap()];
        within(self.stream.read_exact(&mut payload)).await.unwrap();
        match head[0] {
            TEXT => Frame::Text(String::from_utf8(payload).unwrap()),
            PING => Frame::Ping(payload),
            PONG => Frame::Pong(payload),
            CLOSE if payload.is_empty() => Frame::Close(None, String::new()),
            CLOSE => {
                let code = u16::from_be_bytes([payload[0], payload[1]]);
                Frame::Close(Some(code), String::from_utf8(payload[2..].to_vec()).unwrap())
            }
            other => panic!("unexpected first byte {other:#x}"),
        }
    }

    /// The next message as it stands.
    pub async fn text(&mut self) -> String {
        match self.frame().await {
            Frame::Text(text) => text,
            other => panic!("no message but {other:?}"),
        }
    }

    /// The next message.
    pub async fn says(&mut self) -> Value {
        serde_json::from_str(&self.text().await).unwrap()
    }

    /// Subscribes, and gives the answer.
    pub async fn subscribe(&mut self, channel: &str, options: Value) -> Value {
        let mut message = json!({"type": "subscribe", "channel": channel});
        message.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
        self.send(message).await;
        self.says().await
    }

    /// The ids of the next messages, all of which must be events.
    pub async fn ids(&mut self, count: usize) -> Vec<String> {
        let mut ids = Vec::new();
        while ids.len() < count {
            let event = self.says().await;
            assert_eq!(event["type"], "event", "{event}");
            ids.push(event["id"].as_str().unwrap().to_owned());
        }
        ids
    }

    /// Nothing more was said than what the test has read: the daemon answers in order.
    pub async fn has_heard_all(&mut self) {
        self.send(json!({"type": "ping", "id": "all"})).await;
        assert_eq!(self.says().await, json!({"type": "pong", "id": "all"}));
    }
}

fn shortest(length: u64) -> u8 {
    match length {
        0..=125 => u8::try_from(length).unwrap(),
        126..=65_535 => 126,
        _ => 127,
    }
}

/// A frame as a client sends it.
pub fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
    let length = payload.len() as u64;
    let mut frame = vec![first, 0x80 | shortest(length)];
    match shortest(length) {
        126 => frame.extend(u16::try_from(length).unwrap().to_be_bytes()),
        127 => frame.extend(length.to_be_bytes()),
        _ => {}
    }
    frame.extend(MASK);
    frame.extend(payload.iter().zip(MASK.iter().cycle()).map(|(byte, key)| byte ^ key));
    frame
}
