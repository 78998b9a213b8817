//! Who a request is from.

use std::sync::Arc;
use std::time::Duration;

use freshet_feed::{Patterns, Principal};
use jiff::Timestamp;
use tokio::sync::{Notify, watch};

use crate::config::{Algorithm, Config, Mode};
use crate::credentials::{Credential, Credentials, CredentialsError};
use crate::fetch::FetchError;
use crate::keys::{KeyError, KeySet};
use crate::refusal::Refusal;
use crate::source::{KeySource, LoadError};
use crate::tickets::{Ticket, TicketError, TicketStore, Tickets};
use crate::token::{Rules, verify};
use crate::token_error::TokenError;

/// By which way a principal was known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// No credential, or none is asked for.
    None,
    /// The `Authorization` header.
    Header,
    /// A cookie. Browsers send it along by themselves, so what changes something needs a check of the origin too.
    Cookie,
    /// A ticket.
    Ticket,
}

/// A request whose sender is known as far as it can be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authenticated {
    /// Who it is, and what they may.
    pub principal: Principal,
    /// By which way.
    pub source: Source,
}

/// With what a session goes on when its token ends.
#[derive(Clone, Copy)]
pub enum Renewal<'a> {
    /// A fresh token.
    Token(&'a str),
    /// A fresh ticket.
    Ticket(&'a str),
}

/// Why a request is refused. What a client is told is [`Self::refusal`]; the rest is for logs
/// and metrics.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthenticationError {
    /// Several credentials, or one that cannot be used.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// The token is refused.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The ticket is refused.
    #[error(transparent)]
    Ticket(#[from] TicketError),
    /// A session can be renewed for its own subject and tenant only.
    #[error("the renewal is for another subject or tenant")]
    AnotherSubject,
}

impl AuthenticationError {
    /// The stable machine code of the error, for logs and metrics.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Credentials(error) => error.code(),
            Self::Token(error) => error.code(),
            Self::Ticket(error) => error.code(),
            Self::AnotherSubject => "renewal_another_subject",
        }
    }

    /// What a client is told.
    #[must_use]
    pub fn refusal(&self) -> Refusal {
        match self {
            Self::Token(error) => error.refusal(),
            Self::Ticket(error) => error.refusal(),
            Self::Credentials(_) | Self::AnotherSubject => Refusal::Invalid,
        }
    }
}

/// Why the room cannot be opened: a setting or a file must be changed first.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// `hmac_secret` is refused.
    #[error("hmac_secret: {0}")]
    Secret(KeyError),
    /// The public keys cannot be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// `jwks_url` cannot be used.
    #[error("jwks_url: {0}")]
    Address(FetchError),
    /// `anonymous_channels` has too many or too long patterns.
    #[error("anonymous_channels: {0}")]
    AnonymousChannels(#[from] freshet_feed::principal::TooManyPatterns),
}

/// Answers who a request is from. Clones share keys and tickets.
#[derive(Clone)]
pub struct Authenticator(Arc<Room>);

struct Room {
    config: Config,
    rules: Rules,
    key_source: Option<KeySource>,
    keys: watch::Sender<Arc<KeySet>>,
    /// A token named a key that is not known: the issuer may have changed its keys.
    unknown_key_seen: Notify,
    anonymous: Principal,
    tickets: Tickets,
}

impl Authenticator {
    /// Reads the key file, so it blocks; it is called once, when the daemon starts. Keys of an address are fetched
    /// later, by the [`crate::keeper`]; until then tokens that need them are answered with `identity_unavailable`.
    /// The configuration must have no [`Config::problems`].
    ///
    /// # Errors
    /// When a secret, a file, an address or a pattern of the configuration cannot be used.
    pub fn new(config: &Config, store: Arc<dyn TicketStore>) -> Result<Self, IdentityError> {
        let mut key_source = None;
        let mut keys = KeySet::default();
        let mut anonymous = Principal::everything();
        if config.mode == Mode::Jwt {
            key_source = KeySource::of(config).map_err(IdentityError::Address)?;
            let public = match &key_source {
                None => KeySet::default(),
                Some(source) => match source.read_file(None)? {
                    Some((keys, _)) => keys,
                    None => KeySet::awaiting_public_keys(),
                },
            };
            keys = with_secret(config, public).map_err(IdentityError::Secret)?;
            let reads = Patterns::new(&config.anonymous_channels)?;
            anonymous = Principal { reads, ..Principal::default() };
        }
        Ok(Self(Arc::new(Room {
            config: config.clone(),
            rules: Rules::new(config),
            key_source,
            keys: watch::Sender::new(Arc::new(keys)),
            unknown_key_seen: Notify::new(),
            anonymous,
            tickets: Tickets::new(
                store,
                Duration::from_secs(config.ticket_ttl_secs),
                config.tickets_per_subject_max,
            ),
        })))
    }

    /// Who the request is from. Without a credential it is someone unknown, who may read `anonymous_channels`;
    /// without authentication it is someone who may do everything, and credentials are not looked at.
    ///
    /// Cancel safety: a ticket may be used up when the future is dropped.
    ///
    /// # Errors
    /// When there are several credentials or the one is refused: a wrong credential is never taken for none.
    pub async fn authenticate(
        &self,
        credentials: Credentials<'_>,
        now: Timestamp,
    ) -> Result<Authenticated, AuthenticationError> {
        if self.0.config.mode == Mode::None {
            return Ok(Authenticated { principal: self.0.anonymous.clone(), source: Source::None });
        }
        let (principal, source) = match credentials.one(&self.0.config.cookie_name)? {
            Credential::None => (self.0.anonymous.clone(), Source::None),
            Credential::Header(token) => (self.verify(token, now)?, Source::Header),
            Credential::Cookie(token) => (self.verify(token, now)?, Source::Cookie),
            Credential::Ticket(ticket) => (self.0.tickets.redeem(ticket, now).await?, Source::Ticket),
        };
        Ok(Authenticated { principal, source })
    }

    fn verify(&self, token: &str, now: Timestamp) -> Result<Principal, TokenError> {
        let keys = self.keys();
        let verified = verify(token, &keys, &self.0.rules, now);
        if matches!(verified, Err(TokenError::UnknownKey | TokenError::KeysUnavailable)) {
            self.0.unknown_key_seen.notify_one();
        }
        // Who is known may read what nobody needs to be known for.
        verified
            .map(|principal| Principal { reads: principal.reads.and(&self.0.anonymous.reads), ..principal })
    }

    /// A ticket for a principal that was authenticated.
    ///
    /// # Errors
    /// When the principal is nobody (unless nobody is asked who they are), its token is over, it or all got too many
    /// tickets, or the store cannot be reached.
    pub async fn issue_ticket(&self, principal: &Principal, now: Timestamp) -> Result<Ticket, TicketError> {
        if self.0.config.mode == Mode::Jwt && principal.subject.is_none() {
            return Err(TicketError::Nobody);
        }
        self.0.tickets.issue(principal, now).await
    }

    /// How long a ticket may be redeemed.
    #[must_use]
    pub fn ticket_ttl(&self) -> Duration {
        self.0.tickets.ttl()
    }

    /// What a session may from now on, and until when. Its rights may have changed, so what it reads is checked again
    /// by the caller. It stays with its subject and tenant: what was shown to one must not go on as another's, and
    /// nobody's session has no token that ends.
    ///
    /// # Errors
    /// When the token or ticket is refused or is another's. The session keeps what it has.
    pub async fn renew(
        &self,
        current: &Principal,
        renewal: Renewal<'_>,
        now: Timestamp,
    ) -> Result<Principal, AuthenticationError> {
        if self.0.config.mode == Mode::None {
            return Ok(self.0.anonymous.clone());
        }
        let principal = match renewal {
            Renewal::Token(token) => self.verify(token, now)?,
            Renewal::Ticket(ticket) => self.0.tickets.redeem(ticket, now).await?,
        };
        let is_same = principal.subject == current.subject && principal.tenant == current.tenant;
        if is_same { Ok(principal) } else { Err(AuthenticationError::AnotherSubject) }
    }

    /// The keys in use now.
    #[must_use]
    pub fn keys(&self) -> Arc<KeySet> {
        Arc::clone(&self.0.keys.borrow())
    }

    /// Tells of each change of the keys.
    #[must_use]
    pub fn watch_keys(&self) -> watch::Receiver<Arc<KeySet>> {
        self.0.keys.subscribe()
    }

    pub(crate) fn key_source(&self) -> Option<&KeySource> {
        self.0.key_source.as_ref()
    }

    pub(crate) fn refresh_every(&self) -> Duration {
        Duration::from_secs(self.0.config.jwks_refresh_secs)
    }

    /// Waits until a token names a key that is not known, or one did since the last call ended.
    pub(crate) async fn unknown_key_seen(&self) {
        self.0.unknown_key_seen.notified().await;
    }

    /// Takes these public keys in place of those in use. The secret stays.
    pub(crate) fn replace_public_keys(&self, public: KeySet) -> Result<(), KeyError> {
        let keys = with_secret(&self.0.config, public)?;
        self.0.keys.send_replace(Arc::new(keys));
        Ok(())
    }
}

fn with_secret(config: &Config, public: KeySet) -> Result<KeySet, KeyError> {
    if !config.algorithms.contains(&Algorithm::HS256) {
        return Ok(public);
    }
    Ok(KeySet::from_hmac_secret(config.hmac_secret.expose().as_bytes())?.and(public))
}

#[cfg(test)]
#[path = "authenticator_tests.rs"]
mod tests;
