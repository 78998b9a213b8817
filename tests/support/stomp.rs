//! A producer that speaks just enough STOMP 1.2, written from the specification.

use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::PATIENCE;

/// A connected producer.
pub struct Producer {
    stream: BufReader<TcpStream>,
    sent: usize,
}

impl Producer {
    /// Connects and logs in.
    pub async fn connect(port: u16, host: &str, login: &str, passcode: &str) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).await.expect("the broker listens");
        let mut producer = Self { stream: BufReader::new(stream), sent: 0 };
        let connect = format!(
            "CONNECT\naccept-version:1.2\nhost:{host}\nlogin:{login}\npasscode:{passcode}\nheart-beat:0,0\n\n\0"
        );
        producer.write(connect.as_bytes()).await;
        assert!(producer.frame().await.starts_with("CONNECTED"), "the broker lets us in");
        producer
    }

    /// Sends a message without waiting for its receipt.
    pub async fn send(&mut self, destination: &str, headers: &[(&str, &str)], body: &[u8]) {
        let mut frame =
            format!("SEND\ndestination:{destination}\npersistent:true\ncontent-length:{}\n", body.len());
        for (name, value) in headers {
            frame.push_str(&format!("{name}:{value}\n"));
        }
        frame.push('\n');
        let mut bytes = frame.into_bytes();
        bytes.extend_from_slice(body);
        bytes.push(0);
        self.write(&bytes).await;
    }

    /// Sends a message and waits until the broker has it.
    pub async fn send_and_wait(&mut self, destination: &str, body: &[u8]) {
        self.sent += 1;
        let receipt = format!("r-{}", self.sent);
        self.send(destination, &[("receipt", &receipt)], body).await;
        let frame = self.frame().await;
        assert!(frame.starts_with("RECEIPT") && frame.contains(&format!("receipt-id:{receipt}")), "{frame}");
    }

    async fn write(&mut self, bytes: &[u8]) {
        let written = async {
            self.stream.get_mut().write_all(bytes).await?;
            self.stream.get_mut().flush().await
        };
        tokio::time::timeout(PATIENCE, written)
            .await
            .expect("the broker reads in time")
            .expect("the broker reads");
    }

    async fn frame(&mut self) -> String {
        let read = async {
            let mut frame = Vec::new();
            loop {
                let byte = self.stream.read_u8().await?;
                match byte {
                    b'\n' | b'\r' if frame.is_empty() => {}
                    0 => return std::io::Result::Ok(frame),
                    byte => frame.push(byte),
                }
            }
        };
        let frame = tokio::time::timeout(PATIENCE, read).await.expect("a frame in time").expect("a frame");
        String::from_utf8_lossy(&frame).into_owned()
    }
}
