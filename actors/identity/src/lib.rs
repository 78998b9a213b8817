//! The identity room owns the question who a client is: the keys, the tokens, the tickets.
//!
//! | module | what it gives |
//! |---|---|
//! | [`config`] | the settings, and which of them would let a client in unchecked |
//! | [`authenticator`] | a request's credentials → a principal; the door of the room |
//! | [`credentials`] | which one credential a request brings. Pure |
//! | [`token`] | a signed token → a principal. Pure |
//! | [`token_error`] | why a token is refused: the catalogue of codes |
//! | [`refusal`] | what a client is told of it |
//! | [`keys`] | key files, key sets and shared secrets → keys, each with its one algorithm. Pure |
//! | [`tickets`] | tickets of one use, and where they wait |
//! | [`keeper`] | the actor that keeps the public keys fresh |
//! | [`source`], [`fetch`] | where public keys come from |
//!
//! # What it promises
//! 1. Settings which would let a client in unchecked are reported as problems.
//! 2. A token is believed only when a configured key signed it, with that key's own algorithm. The token chooses
//!    neither.
//! 3. A wrong credential is refused, and never taken for none.
//! 4. A ticket is redeemed at most once.
//! 5. Keys that were good stay in use while their source is away.
//! 6. No token, ticket, secret or key is printed or logged.
//!
//! # What it may not touch
//! Events, the event log, sockets of clients, and what a principal may read: that is decided in
//! `freshet_feed::scope`.
//!
//! Signatures are checked by `ring`, which TLS brings along. The usual JWT library needs a second cryptographic
//! library, and what it would check besides is less strict than what a token is held to here.

pub mod authenticator;
pub mod config;
pub mod credentials;
pub mod fetch;
mod json;
mod jwks;
pub mod keeper;
pub mod keys;
mod pem;
pub mod refusal;
#[cfg(test)]
mod signing;
pub mod source;
pub mod tickets;
pub mod token;
pub mod token_error;

pub use authenticator::{Authenticated, AuthenticationError, Authenticator, IdentityError, Renewal, Source};
pub use config::Config;
pub use credentials::Credentials;
pub use keeper::KeyKeeper;
pub use keys::{KeyError, KeySet};
pub use refusal::Refusal;
pub use tickets::{MemoryTicketStore, Ticket, TicketError, TicketStore, TicketStoreError, Tickets};
pub use token::{Rules, verify};
pub use token_error::TokenError;
