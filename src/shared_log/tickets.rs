//! Tickets that one instance gives and any instance redeems.

use std::fmt::Write as _;
use std::time::Duration;

use bytes::Bytes;
use freshet_identity::{TicketStore, TicketStoreError};
use freshet_redis_log::{Failure, RedisStore};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

/// Keeps tickets where the shared log is. Their number is bounded by each subject's and by their time to live.
pub struct SharedTickets(pub RedisStore);

impl TicketStore for SharedTickets {
    fn put(
        &self,
        hash: [u8; 32],
        principal: Vec<u8>,
        ttl: Duration,
    ) -> BoxFuture<'_, Result<(), TicketStoreError>> {
        async move { self.0.put(&name_of(hash), Bytes::from(principal), ttl).await.map_err(unavailable) }
            .boxed()
    }

    fn take(&self, hash: [u8; 32]) -> BoxFuture<'_, Result<Option<Vec<u8>>, TicketStoreError>> {
        async move {
            let principal = self.0.take(&name_of(hash)).await.map_err(unavailable)?;
            Ok(principal.map(Vec::from))
        }
        .boxed()
    }
}

fn name_of(hash: [u8; 32]) -> String {
    hash.iter().fold("ticket-".to_owned(), |mut name, byte| {
        let _a_text_takes_every_byte = write!(name, "{byte:02x}");
        name
    })
}

fn unavailable(failure: Failure) -> TicketStoreError {
    TicketStoreError::Unavailable(failure.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_ticket_is_its_hash_in_hexadecimal_digits() {
        let mut hash = [0; 32];
        (hash[0], hash[31]) = (0x0a, 0xff);
        assert_eq!(name_of(hash), format!("ticket-0a{}ff", "00".repeat(30)));
    }
}
