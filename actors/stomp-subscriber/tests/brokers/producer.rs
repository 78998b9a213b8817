//! A tiny STOMP producer that knows what the broker has taken.

use std::collections::BTreeSet;
use std::io;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufStream};
use tokio::net::TcpStream;

/// One connection that sends persistent messages and waits for receipts.
pub struct Producer {
    stream: BufStream<TcpStream>,
    receipts: usize,
}

impl Producer {
    pub async fn connect(port: u16) -> io::Result<Self> {
        let stream = BufStream::new(TcpStream::connect(("127.0.0.1", port)).await?);
        let mut producer = Self { stream, receipts: 0 };
        let hello = b"CONNECT\naccept-version:1.2\nhost:/\nlogin:admin\npasscode:admin\n\n\0";
        producer.stream.write_all(hello).await?;
        producer.stream.flush().await?;
        let answer = producer.frame().await?;
        assert!(answer.starts_with("CONNECTED"), "{answer}");
        Ok(producer)
    }

    /// Sends bodies to the topic, and returns when the broker has confirmed all.
    pub async fn send<'a>(
        &mut self,
        topic: &str,
        bodies: impl IntoIterator<Item = &'a [u8]>,
    ) -> io::Result<()> {
        let mut awaited = BTreeSet::new();
        for body in bodies {
            self.receipts += 1;
            let receipt = format!("r{}", self.receipts);
            let head = format!(
                "SEND\ndestination:/topic/{topic}\npersistent:true\nreceipt:{receipt}\ncontent-length:{}\n\n",
                body.len()
            );
            awaited.insert(format!("RECEIPT\nreceipt-id:{receipt}"));
            self.stream.write_all(head.as_bytes()).await?;
            self.stream.write_all(body).await?;
            self.stream.write_all(b"\0\n").await?;
        }
        self.stream.flush().await?;
        while !awaited.is_empty() {
            let answer = self.frame().await?;
            if !awaited.remove(answer.trim_end()) {
                return Err(io::Error::other(answer));
            }
        }
        Ok(())
    }

    /// The next frame without a body.
    async fn frame(&mut self) -> io::Result<String> {
        let mut frame = Vec::new();
        loop {
            frame.clear();
            self.stream.read_until(0, &mut frame).await?;
            if frame.pop() != Some(0) {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let text = String::from_utf8_lossy(&frame).trim_start().to_owned();
            if !text.is_empty() {
                return Ok(text);
            }
        }
    }
}
