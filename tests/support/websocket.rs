//! A WebSocket client as RFC 6455 describes it, which refuses a server that does not keep to it.

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::PATIENCE;

/// The example key of section 1.3, and the value that a server must answer it with.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
/// The masking key of the examples in section 5.7.
const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];
/// The first bytes of frames that are whole messages.
const TEXT: u8 = 0x81;
const CLOSE: u8 = 0x88;
const PING: u8 = 0x89;
const PONG: u8 = 0x8a;
/// What a balancer answers when no instance takes the client.
const NOT_NOW: [&str; 3] = ["502", "503", "504"];

/// An open connection.
pub struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    /// Connects to `/ws` on this port of the loopback interface; nothing when the connection breaks or when it is
    /// refused for now. Any other answer is a failure.
    pub async fn connect(port: u16) -> Option<Self> {
        let opened = tokio::time::timeout(PATIENCE, Self::handshake(port)).await;
        opened.expect("the handshake is answered in time").ok().flatten()
    }

    async fn handshake(port: u16) -> std::io::Result<Option<Self>> {
        let mut stream = BufReader::new(TcpStream::connect(("127.0.0.1", port)).await?);
        let request = format!(
            "GET /ws HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: {KEY}\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: freshet.v1\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await?;
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head).await? == 0 {
                return Ok(None);
            }
        }
        let status = head.split(' ').nth(1).expect("a status");
        if NOT_NOW.contains(&status) {
            return Ok(None);
        }
        assert_eq!(status, "101", "{head}");
        let header = |name: &str| {
            head.lines()
                .filter_map(|line| line.split_once(':'))
                .find_map(|(found, value)| found.eq_ignore_ascii_case(name).then_some(value.trim()))
        };
        assert_eq!(header("sec-websocket-accept"), Some(ACCEPT), "{head}");
        assert_eq!(header("sec-websocket-protocol"), Some("freshet.v1"), "{head}");
        Ok(Some(Self { stream }))
    }

    /// Sends a message. Whether the connection still takes it shows when it is read.
    pub async fn send(&mut self, message: &Value) {
        let _ = self.send_frame(TEXT, message.to_string().as_bytes()).await;
    }

    /// The next message, or nothing when the connection was closed or broke. Pings are answered, and so is a close.
    pub async fn next(&mut self) -> Option<String> {
        let read = async {
            loop {
                let (first, payload) = self.frame().await?;
                match first {
                    TEXT => return std::io::Result::Ok(Some(payload)),
                    PING => self.send_frame(PONG, &payload).await?,
                    PONG => {}
                    CLOSE => {
                        self.send_frame(CLOSE, payload.get(..2).unwrap_or_default()).await?;
                        return Ok(None);
                    }
                    other => panic!("unexpected first byte {other:#x}"),
                }
            }
        };
        let payload = tokio::time::timeout(PATIENCE, read).await.expect("a message in time, or the end");
        Some(String::from_utf8(payload.ok()??).expect("a text is UTF-8"))
    }

    /// One frame: its first byte and its payload. A server's is not masked.
    async fn frame(&mut self) -> std::io::Result<(u8, Vec<u8>)> {
        let first = self.stream.read_u8().await?;
        let length = match self.stream.read_u8().await? {
            short @ 0..=125 => u64::from(short),
            126 => u64::from(self.stream.read_u16().await?),
            127 => self.stream.read_u64().await?,
            _ => panic!("a server's frame is not masked"),
        };
        let mut payload = vec![0; usize::try_from(length).expect("a length")];
        self.stream.read_exact(&mut payload).await?;
        Ok((first, payload))
    }

    async fn send_frame(&mut self, first: u8, payload: &[u8]) -> std::io::Result<()> {
        let length = u16::try_from(payload.len()).expect("a short message");
        let mut frame = vec![first];
        if length < 126 {
            frame.push(0x80 | u8::try_from(length).expect("below 126"));
        } else {
            frame.push(0x80 | 126);
            frame.extend(length.to_be_bytes());
        }
        frame.extend(MASK);
        frame.extend(payload.iter().zip(MASK.iter().cycle()).map(|(byte, key)| byte ^ key));
        self.stream.write_all(&frame).await
    }
}
