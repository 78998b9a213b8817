//! Many SSE clients and the publisher on one thread.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

use crate::event::write_event;
use crate::publisher::Publisher;
use crate::response::ResponseDecoder;
use crate::sse::{Kind, Scanner};
use crate::system::monotonic_nanos;
use crate::tally::{Order, Tally};

const PUBLISHER: Token = Token(usize::MAX);
/// Connections that may wait for their first event at a time: below every server's backlog.
const MAX_IN_FLIGHT: usize = 256;
/// How long all clients together may take to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);
/// The longest wait for the sockets, so that the observer is called in time.
const TURN: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Connecting,
    /// The request is written, the `connected` event has not come.
    Waiting,
    Ready,
    Closed,
}

#[derive(Debug)]
struct Client {
    stream: Option<TcpStream>,
    stage: Stage,
    decoder: ResponseDecoder,
    scanner: Scanner,
    order: Order,
    /// It stopped reading at some time, so that what it receives does not count.
    stalled: bool,
}

/// Where the clients connect, and how fast.
#[derive(Clone, Debug)]
pub struct Target {
    /// The server.
    pub address: SocketAddr,
    /// Path and query of the stream.
    pub path: String,
    /// New connections a second, at most.
    pub connects_per_second: u32,
}

/// What is published in one run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The number of the first event.
    pub first_sequence: u64,
    /// Requests.
    pub batches: u64,
    /// Events in each request.
    pub batch_events: u64,
    /// From one request to the next.
    pub interval: Duration,
    /// Size of an event.
    pub event_bytes: usize,
    /// How long to wait for late deliveries after the last request.
    pub drain: Duration,
}

/// The clients, their sockets and what they received.
#[derive(Debug)]
pub struct Swarm {
    poll: Poll,
    events: Events,
    clients: Vec<Client>,
    publisher: Option<Publisher>,
    buffer: Vec<u8>,
    tally: Tally,
    ready: usize,
    in_flight: usize,
    closed: usize,
    failures: BTreeMap<String, usize>,
}

impl Swarm {
    /// No clients yet.
    ///
    /// # Errors
    /// When the system cannot give a poll.
    pub fn new() -> Result<Self> {
        Ok(Self {
            poll: Poll::new()?,
            events: Events::with_capacity(1024),
            clients: Vec::new(),
            publisher: None,
            buffer: vec![0; 256 * 1024],
            tally: Tally::default(),
            ready: 0,
            in_flight: 0,
            closed: 0,
            failures: BTreeMap::new(),
        })
    }

    /// Connects this many clients and returns when each has had its first event.
    ///
    /// # Errors
    /// When one of them is refused or they take more than a minute.
    pub fn connect(&mut self, target: &Target, clients: usize) -> Result<()> {
        let started = Instant::now();
        while self.ready < clients {
            let elapsed = started.elapsed();
            ensure!(
                elapsed < CONNECT_TIMEOUT,
                "{} of {clients} clients are connected after a minute",
                self.ready
            );
            let allowed = elapsed.as_millis() * u128::from(target.connects_per_second) / 1000 + 1;
            while self.clients.len() < clients
                && (self.clients.len() as u128) < allowed
                && self.in_flight < MAX_IN_FLIGHT
            {
                self.open(target)?;
            }
            self.turn(Duration::from_millis(1), Some(target))?;
            ensure!(self.closed == 0, "not every client could connect: {:?}", self.failures);
        }
        Ok(())
    }

    /// Lets the clients receive for some time.
    ///
    /// # Errors
    /// When the system refuses to wait for the sockets.
    pub fn idle(&mut self, duration: Duration) -> Result<()> {
        let end = Instant::now() + duration;
        while let Some(left) = end.checked_duration_since(Instant::now()) {
            self.turn(left.min(TURN), None)?;
        }
        Ok(())
    }

    /// Starts a new tally. What was counted before is forgotten.
    pub fn count(&mut self, tally: Tally) {
        for client in &mut self.clients {
            client.order = if tally.window.end == u64::MAX {
                Order::default()
            } else {
                Order::starting_at(tally.window.start)
            };
        }
        self.tally = tally;
    }

    /// Publishes by plan and returns the tally when all is delivered or the drain time is over. The observer is
    /// called at least each 50 milliseconds while there is time.
    ///
    /// # Errors
    /// When the server refuses an event or the publishing connection fails.
    pub fn run(
        &mut self,
        address: SocketAddr,
        plan: &Plan,
        mut observe: impl FnMut() -> Result<()>,
    ) -> Result<Tally> {
        let published = plan.batches * plan.batch_events;
        self.count(Tally::of(plan.first_sequence..plan.first_sequence + published));
        let counted_clients = self.clients.iter().filter(|client| !client.stalled).count() as u64;
        let started = Instant::now();
        let mut last_published = started;
        let mut batch = 0;
        while batch < plan.batches
            || self.tally.delivered < published * counted_clients
            || self.is_publishing()
        {
            let due = started + plan.interval * u32::try_from(batch)?;
            let now = Instant::now();
            if batch < plan.batches && due <= now && !self.is_publishing() {
                self.publish(address, plan, batch)?;
                batch += 1;
                last_published = now;
            }
            if batch == plan.batches && now > last_published + plan.drain {
                break;
            }
            let wait = if batch < plan.batches && !self.is_publishing() {
                due.saturating_duration_since(now).min(TURN)
            } else {
                TURN
            };
            self.turn(wait, None)?;
            observe()?;
        }
        Ok(std::mem::take(&mut self.tally))
    }

    /// The tally so far.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// How many deliveries below the newest number of each client have not come.
    #[must_use]
    pub fn missing(&self) -> usize {
        self.clients.iter().map(|client| client.order.missing()).sum()
    }

    /// How many clients the server has closed.
    #[must_use]
    pub fn closed(&self) -> usize {
        self.closed
    }

    /// The body of the last answer to a publishing request.
    #[must_use]
    pub fn last_answer(&self) -> &[u8] {
        self.publisher.as_ref().map_or(&[], Publisher::answer)
    }

    /// The first `clients` clients stop reading, as a frozen browser tab does, and are not counted any more.
    ///
    /// # Errors
    /// When the system refuses to forget a socket.
    pub fn stall(&mut self, clients: usize) -> Result<()> {
        for client in self.clients.iter_mut().take(clients) {
            client.stalled = true;
            if let Some(stream) = &mut client.stream {
                self.poll.registry().deregister(stream)?;
            }
        }
        Ok(())
    }

    /// The stalled clients read again for some time, which shows whom the server has closed.
    ///
    /// # Errors
    /// When the system refuses to wait for a socket.
    pub fn resume(&mut self, duration: Duration) -> Result<()> {
        for (index, client) in self.clients.iter_mut().enumerate().filter(|(_, client)| client.stalled) {
            if let Some(stream) = &mut client.stream {
                self.poll.registry().register(stream, Token(index), Interest::READABLE)?;
            }
        }
        self.idle(duration)
    }

    fn is_publishing(&self) -> bool {
        self.publisher.as_ref().is_some_and(Publisher::is_busy)
    }

    fn publish(&mut self, address: SocketAddr, plan: &Plan, batch: u64) -> Result<()> {
        let publisher = match self.publisher.take().filter(|publisher| !publisher.is_closed()) {
            Some(publisher) => publisher,
            None => Publisher::connect(address, self.poll.registry(), PUBLISHER)?,
        };
        let publisher = self.publisher.insert(publisher);
        let first = plan.first_sequence + batch * plan.batch_events;
        let timestamp = jiff::Timestamp::now();
        let sent_nanos = monotonic_nanos()?;
        let mut lines = Vec::new();
        for sequence in first..first + plan.batch_events {
            write_event(&mut lines, sequence, sent_nanos, timestamp, plan.event_bytes)?;
            lines.push(b'\n');
        }
        publisher.publish(&lines, plan.batch_events)
    }

    fn open(&mut self, target: &Target) -> Result<()> {
        let mut stream = TcpStream::connect(target.address).context("no connection")?;
        let token = Token(self.clients.len());
        self.poll.registry().register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
        self.clients.push(Client {
            stream: Some(stream),
            stage: Stage::Connecting,
            decoder: ResponseDecoder::default(),
            scanner: Scanner::default(),
            order: Order::default(),
            stalled: false,
        });
        self.in_flight += 1;
        Ok(())
    }

    fn turn(&mut self, wait: Duration, target: Option<&Target>) -> Result<()> {
        match self.poll.poll(&mut self.events, Some(wait)) {
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
            result => result.context("the sockets cannot be waited for")?,
        }
        let tokens: Vec<Token> = self.events.iter().map(|event| event.token()).collect();
        for token in tokens {
            if token == PUBLISHER {
                self.publisher.as_mut().map_or(Ok(()), Publisher::on_ready)?;
            } else if let Err(error) = self.on_ready(token.0, target) {
                self.close(token.0, &error);
            }
        }
        Ok(())
    }

    fn close(&mut self, index: usize, reason: &anyhow::Error) {
        let Some(client) = self.clients.get_mut(index) else { return };
        match std::mem::replace(&mut client.stage, Stage::Closed) {
            Stage::Closed => return,
            Stage::Ready => self.ready -= 1,
            Stage::Connecting | Stage::Waiting => self.in_flight -= 1,
        }
        client.stream = None;
        self.closed += 1;
        *self.failures.entry(format!("{reason:#}")).or_default() += 1;
    }

    fn on_ready(&mut self, index: usize, target: Option<&Target>) -> Result<()> {
        let Some(client) = self.clients.get_mut(index) else { return Ok(()) };
        let Some(stream) = &mut client.stream else { return Ok(()) };
        if client.stage == Stage::Connecting {
            if let Some(error) = stream.take_error()? {
                return Err(error).context("connecting failed");
            }
            let target = target.context("a client is late")?;
            send_request(stream, target)?;
            client.stage = Stage::Waiting;
            return Ok(self.poll.registry().reregister(stream, Token(index), Interest::READABLE)?);
        }
        loop {
            let read = match stream.read(&mut self.buffer) {
                Ok(0) => bail!("closed by the server"),
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error).context("reading failed"),
            };
            let received_nanos = monotonic_nanos()?;
            let mut input = &self.buffer[..read];
            let (mut connected, order, tally) = (false, &mut client.order, &mut self.tally);
            let counted = !client.stalled;
            while let Some(piece) = client.decoder.next_piece(&mut input)? {
                client.scanner.feed(piece, |frame| match (frame.kind, frame.sequence, frame.sent_nanos) {
                    (Kind::Connected, ..) => connected = true,
                    (Kind::Commit, Some(sequence), Some(sent_nanos)) if counted => {
                        tally.record(order, sequence, sent_nanos, received_nanos);
                    }
                    _ => tally.unknown += u64::from(counted),
                })?;
            }
            if let Some(status) = client.decoder.status().filter(|status| *status != 200) {
                return Err(anyhow!("answered with status {status}"));
            }
            ensure!(!client.decoder.is_complete(), "the stream ended");
            if connected && client.stage == Stage::Waiting {
                client.stage = Stage::Ready;
                self.in_flight -= 1;
                self.ready += 1;
            }
            // A short read has emptied the socket, and more data makes a new event (epoll(7), question 9).
            if read < self.buffer.len() {
                return Ok(());
            }
        }
    }
}

fn send_request(stream: &mut TcpStream, target: &Target) -> Result<()> {
    let request = format!(
        "GET {} HTTP/1.1\r\nHost: {}\r\nAccept: text/event-stream\r\nCache-Control: no-cache\r\n\r\n",
        target.path, target.address
    );
    // A fresh socket's buffer holds more than a request.
    stream.write_all(request.as_bytes()).context("the request cannot be written")
}
