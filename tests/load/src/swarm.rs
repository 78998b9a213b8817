//! Many clients and the publisher on one thread.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use mio::{Events, Poll, Token};

use crate::client::{Client, Pace, Shared, Stage, Target};
use crate::event::{Mark, MarkFinder, write_event};
use crate::publisher::{Many, Publication, Publisher};
use crate::system::monotonic_nanos;
use crate::tally::{Order, Tally};

const PUBLISHER: Token = Token(usize::MAX);
/// Connections that may wait to be ready at a time: below every server's backlog.
const MAX_IN_FLIGHT: usize = 256;
/// How long all clients together may take to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);
/// The longest wait for the sockets, so that the observer is called in time.
const TURN: Duration = Duration::from_millis(20);
/// While events are published one after the other, the publisher is looked after each time that so many clients have
/// read: otherwise the distance of two events would depend on how long all clients take.
const CLIENTS_BETWEEN_LOOKS: usize = 64;
/// How often and how much a slow client reads.
const SIP_INTERVAL: Duration = Duration::from_secs(1);
const SIP_BYTES: usize = 1024;

/// What is published in one run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How events reach the server.
    pub publication: Publication,
    /// The number of the first event.
    pub first_sequence: u64,
    /// Requests, or groups of requests when the server takes one event each.
    pub batches: u64,
    /// Events in each.
    pub batch_events: u64,
    /// From one batch to the next.
    pub interval: Duration,
    /// Size of an event.
    pub event_bytes: usize,
    /// How long to wait for late deliveries after the last request.
    pub drain: Duration,
}

impl Plan {
    fn events(&self) -> u64 {
        self.batches * self.batch_events
    }
}

/// The clients, their sockets and what they received.
#[derive(Debug)]
pub struct Swarm {
    poll: Poll,
    events: Events,
    target: Target,
    clients: Vec<Client>,
    publisher: Option<Publisher>,
    /// The number of the next event, and how many of its batch are to follow.
    next_sequence: u64,
    left_in_batch: u64,
    shared: Shared,
    ready: usize,
    in_flight: usize,
    closed: usize,
    failures: BTreeMap<String, usize>,
    /// When the slow clients, if there are any, read next.
    next_sip: Option<Instant>,
}

impl Swarm {
    /// No clients yet.
    ///
    /// # Errors
    /// When the system cannot give a poll.
    pub fn new(target: Target) -> Result<Self> {
        let shared =
            Shared { buffer: vec![0; 256 * 1024], finder: MarkFinder::default(), tally: Tally::default() };
        Ok(Self {
            poll: Poll::new()?,
            events: Events::with_capacity(1024),
            target,
            clients: Vec::new(),
            publisher: None,
            next_sequence: 0,
            left_in_batch: 0,
            shared,
            ready: 0,
            in_flight: 0,
            closed: 0,
            failures: BTreeMap::new(),
            next_sip: None,
        })
    }

    /// Connects this many clients and returns when each is ready.
    ///
    /// # Errors
    /// When one of them is refused or they take more than a minute.
    pub fn connect(&mut self, clients: usize) -> Result<()> {
        let started = Instant::now();
        while self.ready < clients {
            let elapsed = started.elapsed();
            ensure!(
                elapsed < CONNECT_TIMEOUT,
                "{} of {clients} clients are connected after a minute",
                self.ready
            );
            let allowed = elapsed.as_millis() * u128::from(self.target.connects_per_second) / 1000 + 1;
            while self.clients.len() < clients
                && (self.clients.len() as u128) < allowed
                && self.in_flight < MAX_IN_FLIGHT
            {
                let token = Token(self.clients.len());
                self.clients.push(Client::open(&self.target, self.poll.registry(), token)?);
                self.in_flight += 1;
            }
            self.turn(Duration::from_millis(1), None)?;
            ensure!(
                self.closed == 0,
                "not every client could connect, but {}: {}",
                self.ready,
                self.failures_in_words()
            );
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
        self.shared.tally = tally;
    }

    /// Publishes by plan and returns the tally when all is delivered or the drain time is over. The observer is
    /// called at least each 50 milliseconds while there is time.
    ///
    /// # Errors
    /// When the server refuses an event or the publishing connection fails.
    pub fn run(&mut self, plan: &Plan, mut observe: impl FnMut() -> Result<()>) -> Result<Tally> {
        self.count(Tally::of(plan.first_sequence..plan.first_sequence + plan.events()));
        self.next_sequence = plan.first_sequence;
        let started = Instant::now();
        let mut last_published = started;
        let mut batch = 0;
        loop {
            let is_publishing = self.is_publishing();
            let counted_clients =
                self.clients.iter().filter(|client| client.pace == Pace::Full).count() as u64;
            if batch == plan.batches
                && !is_publishing
                && self.shared.tally.delivered >= plan.events() * counted_clients
            {
                break;
            }
            let due = started + plan.interval * u32::try_from(batch)?;
            let now = Instant::now();
            if batch < plan.batches && due <= now && !is_publishing {
                self.left_in_batch = plan.batch_events;
                self.publish(plan)?;
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
            self.turn(wait, Some(plan))?;
            observe()?;
        }
        Ok(std::mem::take(&mut self.shared.tally))
    }

    /// The tally so far.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.shared.tally
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

    /// Why clients were closed, with the number of each reason; empty when none was.
    #[must_use]
    pub fn failures_in_words(&self) -> String {
        let reasons: Vec<String> =
            self.failures.iter().map(|(reason, clients)| format!("{reason} ({clients} times)")).collect();
        reasons.join(", ")
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
        self.clients.iter_mut().take(clients).try_for_each(|client| client.lag(self.poll.registry(), false))
    }

    /// The first `clients` clients read 1 KiB a second from now on, with the least receive buffer, and are not counted
    /// any more.
    ///
    /// # Errors
    /// When the system refuses to forget a socket.
    pub fn slow_down(&mut self, clients: usize) -> Result<()> {
        self.next_sip = Some(Instant::now() + SIP_INTERVAL);
        self.clients.iter_mut().take(clients).try_for_each(|client| client.lag(self.poll.registry(), true))
    }

    /// The stalled clients read again for some time, which shows whom the server has closed.
    ///
    /// # Errors
    /// When the system refuses to wait for a socket.
    pub fn resume(&mut self, duration: Duration) -> Result<()> {
        let lagging = self.clients.iter_mut().enumerate().filter(|(_, client)| client.pace == Pace::Lagging);
        for (index, client) in lagging {
            if let Some(stream) = &mut client.stream {
                self.poll.registry().register(stream, Token(index), mio::Interest::READABLE)?;
            }
        }
        self.idle(duration)
    }

    fn is_publishing(&self) -> bool {
        self.left_in_batch > 0 || self.publisher.as_ref().is_some_and(Publisher::is_busy)
    }

    /// Publishes what the server takes in one request.
    fn publish(&mut self, plan: &Plan) -> Result<()> {
        let publisher = match self.publisher.take().filter(|publisher| !publisher.is_closed()) {
            Some(publisher) => publisher,
            None => Publisher::connect(self.target.address, self.poll.registry(), PUBLISHER)?,
        };
        let publisher = self.publisher.insert(publisher);
        let events = match plan.publication.many {
            Many::OneRequest => self.left_in_batch,
            Many::BackToBack => 1,
        };
        let mut lines = Vec::new();
        let timestamp = jiff::Timestamp::now();
        let sent_nanos = monotonic_nanos()?;
        for sequence in self.next_sequence..self.next_sequence + events {
            write_event(&mut lines, Mark { sequence, sent_nanos }, timestamp, plan.event_bytes)?;
            if events > 1 {
                lines.push(b'\n');
            }
        }
        self.next_sequence += events;
        self.left_in_batch -= events;
        publisher.publish(&plan.publication, &lines, events)
    }

    /// Takes the answer to the last request when it has come, and publishes what is left of the batch.
    fn look_after_publisher(&mut self, plan: Option<&Plan>) -> Result<()> {
        let Some(publisher) = &mut self.publisher else { return Ok(()) };
        publisher.on_ready()?;
        match plan {
            Some(plan) if self.left_in_batch > 0 && !publisher.is_busy() => self.publish(plan),
            _ => Ok(()),
        }
    }

    fn turn(&mut self, wait: Duration, plan: Option<&Plan>) -> Result<()> {
        match self.poll.poll(&mut self.events, Some(wait)) {
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
            result => result.context("the sockets cannot be waited for")?,
        }
        let tokens: Vec<Token> = self.events.iter().map(|event| event.token()).collect();
        for (place, token) in tokens.into_iter().enumerate() {
            let looks_between = self.left_in_batch > 0 && place % CLIENTS_BETWEEN_LOOKS == 0;
            if token == PUBLISHER || looks_between {
                self.look_after_publisher(plan)?;
            }
            if token != PUBLISHER {
                self.on_ready(token.0);
            }
        }
        self.sip()
    }

    fn on_ready(&mut self, index: usize) {
        let Some(client) = self.clients.get_mut(index) else { return };
        let was_ready = client.stage == Stage::Ready;
        let result = client.on_ready(&mut self.shared, &self.target, self.poll.registry(), Token(index));
        if client.stage == Stage::Ready && !was_ready {
            self.in_flight -= 1;
            self.ready += 1;
        }
        if let Err(error) = result {
            self.close(index, &error);
        }
    }

    /// The slow clients read a little when it is time.
    fn sip(&mut self) -> Result<()> {
        let now = Instant::now();
        if self.next_sip.is_none_or(|next| now < next) {
            return Ok(());
        }
        self.next_sip = Some(now + SIP_INTERVAL);
        let mut buffer = [0; SIP_BYTES];
        for index in 0..self.clients.len() {
            let client = &mut self.clients[index];
            if client.pace == Pace::Lagging
                && let Err(error) = client.sip(&mut buffer)
            {
                self.close(index, &error);
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
}
