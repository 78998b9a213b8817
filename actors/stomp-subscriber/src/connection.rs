//! One session on one socket, from the first byte to the last.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use async_stomp::client::{ClientCodec, Heartbeat};
use async_stomp::{Message, ToServer};
use bytes::BytesMut;
use freshet_feed::port::{DeadLetterStore, Outcome, Publisher, StoreError};
use freshet_feed::{DeadLetter, Event};
use futures_util::FutureExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::codec::Encoder;

use crate::acknowledge::{Batch, Decode};
use crate::config::Config;
use crate::connect;
use crate::failure::{Failure, FailureClass};
use crate::frame::FrameReader;
use crate::retry::Backoff;
use crate::session::{Due, Phase, Reaction, Session};
use crate::socket::Socket;
use crate::state::Monitor;

/// How long the broker may take to confirm our goodbye. What it does not confirm it delivers again.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);

/// How much room a read finds at least, in bytes: some 100 events.
const READ_BYTES: usize = 64 * 1024;

/// The longest wait before a store that took nothing is tried again.
const STORE_BACKOFF_MAX: Duration = Duration::from_secs(5);

/// What a subscription needs of the other rooms.
#[derive(Clone)]
pub struct Ports {
    /// Takes the events.
    pub publisher: Arc<dyn Publisher>,
    /// Takes what is no event.
    pub dead_letters: Arc<dyn DeadLetterStore>,
    /// Reads an event from a message.
    pub decode: Arc<Decode>,
}

/// How a session ended.
#[derive(Debug)]
pub enum Ending {
    /// We were asked to stop. What was in hand is stored and acknowledged.
    Stopped,
    /// It broke.
    Failed {
        /// Why.
        failure: Failure,
        /// Whether the broker had confirmed the subscription.
        subscribed: bool,
    },
}

/// Holds a session on this socket until it breaks or `stop` becomes true.
///
/// Cancel safety: when the future is dropped the messages in hand are not acknowledged, and come again.
pub async fn run(
    socket: Box<dyn Socket>,
    broker_host: &str,
    config: &Config,
    ports: &Ports,
    monitor: &Monitor,
    stop: &mut watch::Receiver<bool>,
) -> Ending {
    let (reader, writer) = tokio::io::split(socket);
    let (session, hello) = Session::open(config, broker_host, Instant::now());
    let mut connection = Connection {
        config,
        ports,
        monitor,
        stop,
        session,
        reader,
        frames: FrameReader::new(config.max_frame_bytes),
        wire: Wire {
            writer,
            codec: ClientCodec::new(),
            out: BytesMut::new(),
            limit: config.connect_timeout(),
        },
        batch: Batch::new(config.prefetch as usize, config.max_batch_bytes),
        subscribed: false,
    };
    let failure = match connection.hold(hello).await {
        Ok(()) => return Ending::Stopped,
        Err(failure) => failure,
    };
    // A subscription that is not durable has no other copy of these.
    if !connection.batch.is_empty() {
        monitor.lost();
        let (events, letters, _unacknowledged) = connection.batch.hand_over();
        if store(events, letters, ports, monitor, connection.stop).await.is_err() {
            return Ending::Stopped;
        }
    }
    if *connection.stop.borrow() {
        tracing::debug!(code = failure.class.code(), reason = %failure, "the session broke while stopping");
        return Ending::Stopped;
    }
    Ending::Failed { failure, subscribed: connection.subscribed }
}

struct Connection<'a> {
    config: &'a Config,
    ports: &'a Ports,
    monitor: &'a Monitor,
    stop: &'a mut watch::Receiver<bool>,
    session: Session<'a>,
    reader: ReadHalf<Box<dyn Socket>>,
    frames: FrameReader,
    wire: Wire,
    batch: Batch,
    subscribed: bool,
}

impl Connection<'_> {
    /// Ends without a failure only because we were asked to stop.
    async fn hold(&mut self, hello: Message<ToServer>) -> Result<(), Failure> {
        self.send(hello).await?;
        loop {
            if *self.stop.borrow() && self.batch.is_empty() {
                match self.session.phase() {
                    Phase::Opening | Phase::Subscribing | Phase::Closed => return Ok(()),
                    Phase::Subscribed => {
                        self.monitor.stopping();
                        let goodbye = self.session.close(Instant::now(), CLOSE_WITHIN);
                        self.send(goodbye).await?;
                    }
                    Phase::Closing => {}
                }
            }
            self.take_frames().await?;
            if self.session.phase() == Phase::Closed {
                return Ok(());
            }
            if !self.batch.is_empty() && (self.batch.is_full() || !self.read_what_is_here()?) {
                self.settle().await?;
                continue;
            }
            if !self.batch.is_empty() {
                continue;
            }
            self.wait().await?;
        }
    }

    /// Takes the frames that are here, up to a full batch.
    async fn take_frames(&mut self) -> Result<(), Failure> {
        while !self.batch.is_full() {
            let Some(frame) = self.frames.next_frame()? else { break };
            match self.session.frame(frame, Instant::now())? {
                Reaction::None => {}
                Reaction::Closed => break,
                Reaction::Send(frame) => self.send(frame).await?,
                Reaction::Subscribed => {
                    self.subscribed = true;
                    self.monitor.subscribed();
                }
                Reaction::Deliver(delivery) => {
                    self.monitor.received(delivery.redelivered());
                    self.batch.take(delivery, &self.config.name, self.ports.decode.as_ref());
                }
            }
        }
        Ok(())
    }

    /// Reads without waiting, so that one batch takes what has come already. False when there was nothing.
    fn read_what_is_here(&mut self) -> Result<bool, Failure> {
        self.frames.buffer().reserve(READ_BYTES);
        match self.reader.read_buf(self.frames.buffer()).now_or_never() {
            None => Ok(false),
            Some(read) => self.note_read(read).map(|()| true),
        }
    }

    /// Waits for bytes, for the clock, or for the wish to stop.
    async fn wait(&mut self) -> Result<(), Failure> {
        if self.session.tick(Instant::now())? == Due::Beat {
            return self.beat().await;
        }
        self.frames.buffer().reserve(READ_BYTES);
        let closing = self.session.phase() == Phase::Closing;
        let due = sleep_until(self.session.due_at());
        tokio::select! {
            read = self.reader.read_buf(self.frames.buffer()) => self.note_read(read),
            () = due => Ok(()),
            () = stop_wanted(self.stop), if !closing => Ok(()),
        }
    }

    fn note_read(&mut self, read: std::io::Result<usize>) -> Result<(), Failure> {
        match read {
            Ok(0) => Err(self.session.closed()),
            Ok(_) => {
                self.session.received(Instant::now());
                Ok(())
            }
            Err(error) => Err(Failure::from_io(&error)),
        }
    }

    /// Stores the batch and acknowledges it. Meanwhile nothing is read, and heart-beats go on.
    async fn settle(&mut self) -> Result<(), Failure> {
        let (events, letters, unsettled) = self.batch.hand_over();
        self.session.reading_paused();
        let mut broken = None;
        let stored = {
            let mut storing = pin!(store(events, letters, self.ports, self.monitor, self.stop));
            // A future of its own, so that a broker which takes no bytes does not hold up the store. When it is dropped
            // in the middle of a write, the rest leaves before the acknowledgements.
            let mut beating = pin!(beat_until_broken(&mut self.session, &mut self.wire));
            loop {
                tokio::select! {
                    biased;
                    stored = &mut storing => break stored,
                    failure = &mut beating, if broken.is_none() => {
                        // It does not matter to the store.
                        self.monitor.lost();
                        broken = Some(failure);
                    }
                }
            }
        };
        if stored.is_err() {
            // Nothing was acknowledged; the next connection gets the messages again.
            return Err(Failure::new(FailureClass::ConnectionClosed, "stopped while the store took nothing"));
        }
        if let Some(failure) = broken {
            return Err(failure);
        }
        self.session.resumed(Instant::now());
        let acks = unsettled.settled();
        let messages = acks.len();
        for ack in acks {
            self.wire.add(connect::acknowledge(ack))?;
        }
        self.wire.flush().await?;
        self.session.sent(Instant::now());
        self.monitor.acknowledged(messages);
        Ok(())
    }

    async fn beat(&mut self) -> Result<(), Failure> {
        self.wire.send(Heartbeat).await?;
        self.session.sent(Instant::now());
        Ok(())
    }

    async fn send(&mut self, frame: Message<ToServer>) -> Result<(), Failure> {
        self.wire.send(frame).await?;
        self.session.sent(Instant::now());
        Ok(())
    }
}

/// The half of the socket that we write to.
struct Wire {
    writer: WriteHalf<Box<dyn Socket>>,
    codec: ClientCodec,
    out: BytesMut,
    limit: Duration,
}

impl Wire {
    fn add<T>(&mut self, item: T) -> Result<(), Failure>
    where
        ClientCodec: Encoder<T>,
        <ClientCodec as Encoder<T>>::Error: std::fmt::Display,
    {
        let encoded = self.codec.encode(item, &mut self.out);
        encoded.map_err(|error| Failure::new(FailureClass::FrameMalformed, error.to_string()))
    }

    async fn flush(&mut self) -> Result<(), Failure> {
        let writing = async {
            self.writer.write_all_buf(&mut self.out).await?;
            self.writer.flush().await
        };
        match tokio::time::timeout(self.limit, writing).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(Failure::from_io(&error)),
            Err(_) => {
                let reason = format!("the broker took nothing for {} ms", self.limit.as_millis());
                Err(Failure::new(FailureClass::WriteStalled, reason))
            }
        }
    }

    async fn send<T>(&mut self, item: T) -> Result<(), Failure>
    where
        ClientCodec: Encoder<T>,
        <ClientCodec as Encoder<T>>::Error: std::fmt::Display,
    {
        self.add(item)?;
        self.flush().await
    }
}

/// Sends a heart-beat whenever one is due, until that fails.
async fn beat_until_broken(session: &mut Session<'_>, wire: &mut Wire) -> Failure {
    loop {
        sleep_until(session.beat_due()).await;
        if let Err(failure) = wire.send(Heartbeat).await {
            return failure;
        }
        session.sent(Instant::now());
    }
}

/// The daemon stops and the store took nothing.
struct GivenUp;

/// Makes events and letters durable, and tries again until it is done or the daemon stops.
async fn store(
    events: Vec<Event>,
    letters: Vec<DeadLetter>,
    ports: &Ports,
    monitor: &Monitor,
    stop: &mut watch::Receiver<bool>,
) -> Result<(), GivenUp> {
    let mut backoff = Backoff::new(Duration::from_millis(100), STORE_BACKOFF_MAX, fastrand::u64(..));
    let buried = letters.len();
    let mut duplicates = 0;
    if !events.is_empty() {
        let outcomes =
            persist(|| ports.publisher.publish(events.clone()), &mut backoff, monitor, stop).await?;
        duplicates = outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Duplicate)).count();
    }
    if !letters.is_empty() {
        persist(|| ports.dead_letters.bury(letters.clone()), &mut backoff, monitor, stop).await?;
    }
    monitor.stored(buried, duplicates);
    Ok(())
}

async fn persist<'a, T>(
    attempt: impl Fn() -> Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>,
    backoff: &mut Backoff,
    monitor: &Monitor,
    stop: &mut watch::Receiver<bool>,
) -> Result<T, GivenUp> {
    loop {
        match attempt().await {
            Ok(done) => return Ok(done),
            Err(StoreError::Stopping) => return Err(GivenUp),
            Err(error @ StoreError::Unavailable(_)) => {
                monitor.store_failed(error.code(), &error.to_string());
                tokio::select! {
                    () = stop_wanted(stop) => return Err(GivenUp),
                    () = tokio::time::sleep(backoff.next_delay()) => {}
                }
            }
        }
    }
}

/// Resolves when we are to stop, also when nobody is left to say so.
pub(crate) async fn stop_wanted(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|&stop| stop).await;
}

async fn sleep_until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}
