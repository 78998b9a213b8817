//! What other rooms hold of this one.

use freshet_feed::DeadLetter;
use freshet_feed::port::{DeadLetterStore, StoreError};
use freshet_kernel::{Address, SendError};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use crate::room::{Bury, CountByCode, DeadLetterRoom, Get, List};
use crate::store::{Buried, CodeCount, Heading};

/// Buries letters and reads them. Clones talk to the same room; a restart of it goes unnoticed but for the
/// message in hand.
#[derive(Clone, Debug)]
pub struct DeadLetters {
    address: Address<DeadLetterRoom>,
}

impl DeadLetters {
    /// Talks to the room behind the address.
    #[must_use]
    pub fn new(address: Address<DeadLetterRoom>) -> Self {
        Self { address }
    }

    /// Headings with an id greater than `after`, oldest first, at most `limit` and never more than
    /// [`MAX_LISTED`](crate::store::MAX_LISTED). The next page follows the last id of this one.
    ///
    /// # Errors
    /// When the file cannot be read now, or the daemon is stopping.
    pub async fn list(&self, after: Option<i64>, limit: usize) -> Result<Vec<Heading>, StoreError> {
        self.address.send(List { after, limit }).await.map_err(lost)?
    }

    /// One letter with its headers and its bytes; `None` when there is none with this id, or no more.
    ///
    /// # Errors
    /// When the file cannot be read now, or the daemon is stopping.
    pub async fn get(&self, id: i64) -> Result<Option<Buried>, StoreError> {
        self.address.send(Get(id)).await.map_err(lost)?
    }

    /// How many letters there are for each code, the most frequent first.
    ///
    /// # Errors
    /// When the file cannot be read now, or the daemon is stopping.
    pub async fn count_by_code(&self) -> Result<Vec<CodeCount>, StoreError> {
        self.address.send(CountByCode).await.map_err(lost)?
    }
}

impl DeadLetterStore for DeadLetters {
    /// Cancel safety: when the future is dropped the letters may or may not become durable. Burying them again
    /// keeps them twice.
    fn bury(&self, letters: Vec<DeadLetter>) -> BoxFuture<'_, Result<(), StoreError>> {
        async move { self.address.send(Bury(letters)).await.map_err(lost)? }.boxed()
    }
}

fn lost(error: SendError) -> StoreError {
    match error {
        SendError::Restarting => {
            StoreError::Unavailable("the dead-letter room is being restarted".to_owned())
        }
        SendError::Stopped => StoreError::Stopping,
    }
}
