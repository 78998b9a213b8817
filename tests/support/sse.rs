//! An EventSource as the HTML standard describes it, over a plain HTTP stream.

use std::collections::HashMap;
use std::io::Write;

use flate2::write::GzDecoder;
use futures_util::StreamExt;
use reqwest::header::HeaderMap;

/// A dispatched event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The event's type; `message` when the stream named none.
    pub kind: String,
    /// The data lines, joined by line feeds.
    pub data: String,
    /// The last event id when it was dispatched.
    pub last_event_id: String,
}

/// The parser of the HTML standard, section 9.2.6.
#[derive(Default)]
pub struct Parser {
    line: Vec<u8>,
    after_carriage_return: bool,
    kind: String,
    data: Option<String>,
    last_event_id: String,
    /// The reconnection time in milliseconds, once the stream has given one.
    pub retry_millis: Option<u64>,
    /// How many comments came.
    pub comments: usize,
}

impl Parser {
    /// Takes bytes as they come and gives the events that they complete.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<Message> {
        let mut dispatched = Vec::new();
        for &byte in bytes {
            match byte {
                b'\n' if self.after_carriage_return => self.after_carriage_return = false,
                b'\n' | b'\r' => {
                    self.after_carriage_return = byte == b'\r';
                    let line =
                        String::from_utf8(std::mem::take(&mut self.line)).expect("the stream is UTF-8");
                    dispatched.extend(self.line(&line));
                }
                _ => {
                    self.after_carriage_return = false;
                    self.line.push(byte);
                }
            }
        }
        dispatched
    }

    fn line(&mut self, line: &str) -> Option<Message> {
        if line.is_empty() {
            let kind = std::mem::take(&mut self.kind);
            return self.data.take().map(|data| Message {
                kind: if kind.is_empty() { "message".to_owned() } else { kind },
                data,
                last_event_id: self.last_event_id.clone(),
            });
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "" => self.comments += 1,
            "event" => self.kind = value.to_owned(),
            "data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            },
            "id" if !value.contains('\0') => self.last_event_id = value.to_owned(),
            "retry" if value.bytes().all(|digit| digit.is_ascii_digit()) => {
                self.retry_millis = value.parse().ok()
            }
            _ => {}
        }
        None
    }
}

/// A connected client.
pub struct Client {
    chunks: futures_util::stream::BoxStream<'static, reqwest::Result<bytes::Bytes>>,
    parser: Parser,
    arrived: std::collections::VecDeque<Message>,
    /// Set when a proxy compresses the stream. What it has decoded is taken after each chunk, as browsers do.
    decoder: Option<GzDecoder<Vec<u8>>>,
    /// The headers of the answer.
    pub headers: HeaderMap,
}

impl Client {
    /// Connects, with the last event id of an earlier connection if there was one.
    pub async fn connect(url: &str, last_event_id: Option<&str>) -> Self {
        let mut headers = HashMap::new();
        if let Some(id) = last_event_id {
            headers.insert("Last-Event-ID", id);
        }
        Self::connect_with(url, &headers).await
    }

    /// Connects with headers of the caller's choice.
    pub async fn connect_with(url: &str, headers: &HashMap<&str, &str>) -> Self {
        let response = Self::request(url, headers).await.expect("the feed answers");
        Self::over(response)
    }

    /// Connects as an EventSource comes back: nothing when the connection failed, which it tries again. It would give
    /// up for good at any status but 200, so that is a failure.
    pub async fn reconnect(url: &str, last_event_id: Option<&str>) -> Option<Self> {
        let headers = last_event_id.map(|id| ("Last-Event-ID", id)).into_iter().collect();
        Self::request(url, &headers).await.ok().map(Self::over)
    }

    async fn request(url: &str, headers: &HashMap<&str, &str>) -> reqwest::Result<reqwest::Response> {
        let mut request = reqwest::Client::new().get(url).header("Accept", "text/event-stream");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        tokio::time::timeout(super::PATIENCE, request.send()).await.expect("the feed answers in time")
    }

    fn over(response: reqwest::Response) -> Self {
        assert_eq!(response.status(), 200, "the feed opens");
        let headers = response.headers().clone();
        let decoder = headers.get("content-encoding").map(|encoding| {
            assert_eq!(encoding, "gzip");
            GzDecoder::new(Vec::new())
        });
        Self {
            decoder,
            chunks: response.bytes_stream().boxed(),
            parser: Parser::default(),
            arrived: std::collections::VecDeque::new(),
            headers,
        }
    }

    /// The next event, or nothing when the stream ended or broke.
    pub async fn next(&mut self) -> Option<Message> {
        let wait_until = tokio::time::Instant::now() + super::PATIENCE;
        while self.arrived.is_empty() {
            let chunk = tokio::time::timeout_at(wait_until, self.chunks.next())
                .await
                .expect("an event arrives in time, or the end")?;
            let chunk = chunk.ok()?;
            let plain = match &mut self.decoder {
                None => chunk.to_vec(),
                Some(decoder) => {
                    decoder.write_all(&chunk).expect("it is gzip");
                    decoder.flush().expect("it is gzip");
                    std::mem::take(decoder.get_mut())
                }
            };
            self.arrived.extend(self.parser.feed(&plain));
        }
        self.arrived.pop_front()
    }

    /// The next commit; other events are passed over, the end of the stream fails.
    pub async fn next_commit(&mut self) -> Message {
        loop {
            let message = self.next().await.expect("the stream goes on");
            if message.kind == "iceberg-mutation" {
                return message;
            }
        }
    }

    /// The reconnection time that the stream asked for, in milliseconds.
    pub fn retry_millis(&self) -> Option<u64> {
        self.parser.retry_millis
    }

    /// What an EventSource would send as `Last-Event-ID` now.
    pub fn last_event_id(&self) -> &str {
        &self.parser.last_event_id
    }
}
