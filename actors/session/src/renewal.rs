//! The port through which a session learns that it may go on with another token.

use freshet_feed::{Principal, Secret};
use futures_util::future::LocalBoxFuture;

/// What shows who the client is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    /// A signed token.
    Token(Secret),
    /// A ticket of one use.
    Ticket(Secret),
}

/// A session cannot go on with what the client brought. It keeps what it has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{error}")]
pub struct RenewalRefused {
    /// The stable machine code.
    pub code: &'static str,
    /// A sentence for people.
    pub error: String,
}

impl RenewalRefused {
    /// The new token allows less than what the session follows.
    pub(crate) fn allows_less() -> Self {
        let error = "the new token does not allow what this session follows; connect anew with it".to_owned();
        Self { code: "renewal_allows_less", error }
    }
}

/// Judges what a client brings to go on.
pub trait Renewer: Send + Sync + 'static {
    /// Who the session of `current` belongs to from now on.
    ///
    /// # Errors
    /// When the credential is refused, or is another's.
    fn renew<'a>(
        &'a self,
        current: &'a Principal,
        credential: &'a Credential,
    ) -> LocalBoxFuture<'a, Result<Principal, RenewalRefused>>;
}
