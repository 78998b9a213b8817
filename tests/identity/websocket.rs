//! A WebSocket client that chooses its own headers, with the frames of a library.

use actix_http::ws::{Codec, Frame, Message};
use bytes::BytesMut;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::codec::{Decoder, Encoder};

use crate::support::PATIENCE;

/// An open WebSocket.
pub struct Socket {
    stream: TcpStream,
    codec: Codec,
    unread: BytesMut,
}

impl Socket {
    /// Opens one, or tells status and code of the refusal.
    pub async fn open(url: &str, path: &str, headers: &[(String, String)]) -> Result<Self, (u16, String)> {
        let address = url.strip_prefix("http://").expect("an address");
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        let mut head = format!(
            "GET {path} HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: freshet.v1\r\n"
        );
        if !headers.iter().any(|(name, _)| name == "Host") {
            head.push_str(&format!("Host: {address}\r\n"));
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        stream.write_all(head.as_bytes()).await.expect("it reads");
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            answer.push(stream.read_u8().await.expect("it answers"));
        }
        let answer = String::from_utf8(answer).expect("text");
        let status: u16 = answer.split(' ').nth(1).expect("a status").parse().expect("a number");
        if status == 101 {
            let codec = Codec::new().client_mode();
            return Ok(Self { stream, codec, unread: BytesMut::new() });
        }
        let length = answer.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("content-length").then(|| value.parse().expect("a length"))
        });
        let mut body = vec![0; length.unwrap_or(0)];
        stream.read_exact(&mut body).await.expect("the refusal arrives");
        let body: Value = serde_json::from_slice(&body).expect("refusals are JSON");
        Err((status, body["code"].as_str().expect("a code").to_owned()))
    }

    pub async fn send(&mut self, message: &Value) {
        self.write(Message::Text(message.to_string().into())).await;
    }

    /// Sends a message and gives what is said next.
    pub async fn ask(&mut self, message: Value) -> Value {
        self.send(&message).await;
        self.says().await
    }

    /// Subscribes with these members besides, and gives the answer.
    pub async fn subscribe(&mut self, channel: &str, more: &Value) -> Value {
        let mut message = json!({"type": "subscribe", "channel": channel});
        for (name, value) in more.as_object().expect("members") {
            message[name] = value.clone();
        }
        self.ask(message).await
    }

    /// Subscribes, which is granted.
    pub async fn follow(&mut self, channel: &str) {
        let answer = self.subscribe(channel, &json!({})).await;
        assert_eq!(answer["type"], "subscribed", "{answer}");
    }

    /// The next message.
    pub async fn says(&mut self) -> Value {
        match self.frame().await {
            Frame::Text(text) => serde_json::from_slice(&text).expect("messages are JSON"),
            other => panic!("no message but {other:?}"),
        }
    }

    /// The id of the next event.
    pub async fn event_id(&mut self) -> String {
        let message = self.says().await;
        assert_eq!(message["type"], "event", "{message}");
        message["id"].as_str().expect("an id").to_owned()
    }

    /// The last message and the code of the close frame behind it, which is answered as the RFC asks.
    pub async fn closes(&mut self) -> (Value, u16) {
        let message = self.says().await;
        assert_eq!(message["type"], "close", "{message}");
        match self.frame().await {
            Frame::Close(Some(reason)) => {
                let code = reason.code.into();
                self.write(Message::Close(Some(reason))).await;
                (message, code)
            }
            other => panic!("no close frame but {other:?}"),
        }
    }

    async fn write(&mut self, message: Message) {
        let mut frame = BytesMut::new();
        self.codec.encode(message, &mut frame).expect("a frame");
        self.stream.write_all(&frame).await.expect("it reads");
    }

    async fn frame(&mut self) -> Frame {
        let wait_until = tokio::time::Instant::now() + PATIENCE;
        loop {
            if let Some(frame) = self.codec.decode(&mut self.unread).expect("frames of RFC 6455") {
                return frame;
            }
            let read = tokio::time::timeout_at(wait_until, self.stream.read_buf(&mut self.unread));
            let count = read.await.expect("a frame arrives in time").expect("the connection holds");
            assert!(count > 0, "the connection ended without a close frame");
        }
    }
}
