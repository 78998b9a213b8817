//! How sources reach the Broadcaster.

use freshet_feed::Event;
use freshet_feed::port::{Outcome, Publisher, StoreError};
use freshet_kernel::{Address, SendError};
use futures_util::future::BoxFuture;

use crate::broadcaster::{Broadcaster, Publish};

/// Publishes through the Broadcaster's address, which stays valid across its restarts.
#[derive(Clone)]
pub struct BroadcasterHandle {
    address: Address<Broadcaster>,
}

impl BroadcasterHandle {
    /// Publishes to the child at this address.
    #[must_use]
    pub fn new(address: Address<Broadcaster>) -> Self {
        Self { address }
    }
}

impl Publisher for BroadcasterHandle {
    fn publish(&self, events: Vec<Event>) -> BoxFuture<'_, Result<Vec<Outcome>, StoreError>> {
        Box::pin(async move {
            match self.address.send(Publish(events)).await {
                Ok(answer) => answer,
                Err(SendError::Restarting) => {
                    Err(StoreError::Unavailable("the broadcaster is being restarted".to_owned()))
                }
                Err(SendError::Stopped) => Err(StoreError::Stopping),
            }
        })
    }
}
