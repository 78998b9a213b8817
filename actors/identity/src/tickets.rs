//! Tickets: proof of who a client is, for transports that cannot send a header. Of one use, and short-lived.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use freshet_feed::Principal;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use tokio::time::Instant;

use crate::keys::decode_base64url;
use crate::refusal::Refusal;

/// How much of a ticket cannot be guessed, in bytes.
pub const TICKET_BYTES: usize = 32;

/// The most subjects whose tickets are counted at once. They are forgotten after a ticket's time to live.
const MAX_COUNTED_SUBJECTS: usize = 100_000;

/// Why a store of tickets cannot do what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TicketStoreError {
    /// It holds as many tickets as it may, and none has expired.
    #[error("too many tickets wait to be redeemed")]
    Full,
    /// It cannot be reached. The reason is for operators and holds no ticket.
    #[error("ticket store unavailable: {0}")]
    Unavailable(String),
}

/// Keeps principals until their tickets are redeemed. It never sees a ticket, only the ticket's SHA-256.
pub trait TicketStore: Send + Sync + 'static {
    /// Keeps a principal under a hash for so long and no longer.
    ///
    /// Cancel safety: when the future is dropped the principal may or may not be kept; nobody knows its ticket.
    fn put(
        &self,
        hash: [u8; 32],
        principal: Vec<u8>,
        ttl: Duration,
    ) -> BoxFuture<'_, Result<(), TicketStoreError>>;

    /// Gives the principal of a hash and forgets it, in one step: of two callers at most one gets it. Nothing when
    /// the hash is not known, was taken, or is too old.
    ///
    /// Cancel safety: when the future is dropped the ticket may be lost, never redeemed twice.
    fn take(&self, hash: [u8; 32]) -> BoxFuture<'_, Result<Option<Vec<u8>>, TicketStoreError>>;
}

/// The tickets of one daemon, in memory. They do not survive it.
pub struct MemoryTicketStore {
    tickets_max: usize,
    waiting: Mutex<HashMap<[u8; 32], Waiting>>,
}

struct Waiting {
    principal: Vec<u8>,
    until: Instant,
}

impl MemoryTicketStore {
    /// Holds at most so many tickets.
    #[must_use]
    pub fn new(tickets_max: usize) -> Self {
        Self { tickets_max, waiting: Mutex::default() }
    }

    /// How many tickets wait, those included that are too old and not yet removed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether no ticket waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Nothing that holds the lock can panic half-way.
    fn lock(&self) -> MutexGuard<'_, HashMap<[u8; 32], Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put_now(&self, hash: [u8; 32], principal: Vec<u8>, ttl: Duration) -> Result<(), TicketStoreError> {
        let now = Instant::now();
        let mut waiting = self.lock();
        if waiting.len() >= self.tickets_max {
            waiting.retain(|_, ticket| ticket.until > now);
        }
        if waiting.len() >= self.tickets_max {
            return Err(TicketStoreError::Full);
        }
        waiting.insert(hash, Waiting { principal, until: now + ttl });
        Ok(())
    }

    fn take_now(&self, hash: [u8; 32]) -> Option<Vec<u8>> {
        let ticket = self.lock().remove(&hash)?;
        (ticket.until > Instant::now()).then_some(ticket.principal)
    }
}

impl TicketStore for MemoryTicketStore {
    fn put(
        &self,
        hash: [u8; 32],
        principal: Vec<u8>,
        ttl: Duration,
    ) -> BoxFuture<'_, Result<(), TicketStoreError>> {
        std::future::ready(self.put_now(hash, principal, ttl)).boxed()
    }

    fn take(&self, hash: [u8; 32]) -> BoxFuture<'_, Result<Option<Vec<u8>>, TicketStoreError>> {
        std::future::ready(Ok(self.take_now(hash))).boxed()
    }
}

/// A ticket that was just issued. It is not printed; [`Self::expose`] gives the text for the one answer that carries it.
pub struct Ticket(String);

impl Ticket {
    /// The text: 43 characters of base64url.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("[redacted]")
    }
}

/// Why no ticket is issued, or one is not redeemed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TicketError {
    /// No ticket, one that was used or is too old, or a text that never was one. Nobody can tell which.
    #[error("the ticket is not known")]
    Unknown,
    /// The token behind the ticket is over.
    #[error("the token behind the ticket has expired")]
    Expired,
    /// Nobody proved who they are, so there is nobody to issue a ticket for.
    #[error("a ticket needs somebody who was authenticated")]
    Nobody,
    /// The subject got as many tickets as it may in this time.
    #[error("the subject asks for too many tickets")]
    SubjectFull,
    /// The store cannot answer.
    #[error(transparent)]
    Store(#[from] TicketStoreError),
    /// The operating system gives no random numbers.
    #[error("no random numbers")]
    NoRandomness,
    /// What the store gave is no principal: another version of the daemon wrote it.
    #[error("the stored principal cannot be read")]
    Unreadable,
}

impl TicketError {
    /// The stable machine code of the error, for logs and metrics.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unknown => "ticket_unknown",
            Self::Expired => "ticket_token_expired",
            Self::Nobody => "ticket_for_nobody",
            Self::SubjectFull => "tickets_subject_full",
            Self::Store(TicketStoreError::Full) => "tickets_full",
            Self::Store(TicketStoreError::Unavailable(_)) => "ticket_store_unavailable",
            Self::NoRandomness => "ticket_no_randomness",
            Self::Unreadable => "ticket_unreadable",
        }
    }

    /// What a client is told.
    #[must_use]
    pub fn refusal(&self) -> Refusal {
        match self {
            Self::Unknown | Self::Unreadable | Self::Nobody => Refusal::Invalid,
            Self::Expired => Refusal::Expired,
            Self::SubjectFull => Refusal::TooManyTickets,
            Self::Store(_) | Self::NoRandomness => Refusal::Unavailable,
        }
    }
}

/// Issues tickets and redeems each once.
pub struct Tickets {
    store: Arc<dyn TicketStore>,
    ttl: Duration,
    per_subject_max: usize,
    issued: Mutex<Issued>,
    random: SystemRandom,
}

/// How many tickets each subject got since a moment that is at most a ticket's time to live ago.
struct Issued {
    since: Instant,
    by_subject: HashMap<Arc<str>, usize>,
}

impl Tickets {
    /// Tickets that may be redeemed for `ttl`, in which time one subject gets at most `per_subject_max` (twice as many
    /// where two such times meet).
    #[must_use]
    pub fn new(store: Arc<dyn TicketStore>, ttl: Duration, per_subject_max: usize) -> Self {
        let issued = Issued { since: Instant::now(), by_subject: HashMap::new() };
        Self { store, ttl, per_subject_max, issued: Mutex::new(issued), random: SystemRandom::new() }
    }

    /// How long a ticket may be redeemed.
    #[must_use]
    pub fn ttl(&self) -> Duration {
        self.ttl
    }

    /// A fresh ticket for this principal. Those without a subject, which only a daemon without authentication knows,
    /// are not counted.
    ///
    /// # Errors
    /// When the principal's own token is over, its subject got too many, or the store takes no ticket now.
    pub async fn issue(&self, principal: &Principal, now: Timestamp) -> Result<Ticket, TicketError> {
        if has_expired(principal, now) {
            return Err(TicketError::Expired);
        }
        if let Some(subject) = &principal.subject {
            self.count(subject)?;
        }
        let mut secret = [0; TICKET_BYTES];
        self.random.fill(&mut secret).map_err(|_| TicketError::NoRandomness)?;
        let stored = serde_json::to_vec(principal).map_err(|_| TicketError::Unreadable)?;
        self.store.put(hash(&secret), stored, self.ttl).await?;
        Ok(Ticket(URL_SAFE_NO_PAD.encode(secret)))
    }

    fn count(&self, subject: &Arc<str>) -> Result<(), TicketError> {
        // Nothing that holds the lock can panic half-way.
        let mut issued = self.issued.lock().unwrap_or_else(PoisonError::into_inner);
        if issued.since.elapsed() >= self.ttl {
            *issued = Issued { since: Instant::now(), by_subject: HashMap::new() };
        }
        if issued.by_subject.len() >= MAX_COUNTED_SUBJECTS && !issued.by_subject.contains_key(subject) {
            return Err(TicketStoreError::Full.into());
        }
        let count = issued.by_subject.entry(Arc::clone(subject)).or_default();
        if *count >= self.per_subject_max {
            return Err(TicketError::SubjectFull);
        }
        *count += 1;
        Ok(())
    }

    /// Who the ticket was issued for. It cannot be redeemed again, whatever the answer.
    ///
    /// # Errors
    /// When it is not known (any more), the token behind it is over, or the store cannot answer.
    pub async fn redeem(&self, ticket: &str, now: Timestamp) -> Result<Principal, TicketError> {
        let secret = decode_base64url(ticket.as_bytes()).filter(|secret| secret.len() == TICKET_BYTES);
        let secret = secret.ok_or(TicketError::Unknown)?;
        let stored = self.store.take(hash(&secret)).await?.ok_or(TicketError::Unknown)?;
        let principal: Principal = serde_json::from_slice(&stored).map_err(|_| TicketError::Unreadable)?;
        if has_expired(&principal, now) { Err(TicketError::Expired) } else { Ok(principal) }
    }
}

fn has_expired(principal: &Principal, now: Timestamp) -> bool {
    principal.expires_at.is_some_and(|end| end <= now)
}

fn hash(secret: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, secret).as_ref());
    hash
}

#[cfg(test)]
#[path = "tickets_tests.rs"]
mod tests;
