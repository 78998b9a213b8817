//! Values that live for a while and are taken once, such as tickets.

use std::time::Duration;

use bytes::Bytes;
use redis::Value;

use crate::Config;
use crate::connection::Server;
use crate::error::Failure;
use crate::keys::Keys;

/// The longest name, in bytes.
const MAX_NAME_BYTES: usize = 256;
/// The largest value, in bytes.
const MAX_VALUE_BYTES: usize = 64 * 1024;

/// Values that all instances share. Clones share the connection of the log.
#[derive(Clone)]
pub struct RedisStore {
    server: Server,
    keys: Keys,
}

impl RedisStore {
    /// On this server. Nothing is asked of it yet.
    #[must_use]
    pub fn new(server: Server, config: &Config) -> Self {
        Self { server, keys: Keys::new(&config.prefix) }
    }

    /// Keeps a value under a name until it is taken or its time is over. The name is stored as it is: give a digest of
    /// what must not be read there.
    ///
    /// # Errors
    /// When Redis does not take it, with `value_too_large` for more than 64 KiB or a name of more than 256 bytes.
    pub async fn put(&self, name: &str, value: Bytes, time_to_live: Duration) -> Result<(), Failure> {
        if name.len() > MAX_NAME_BYTES || value.len() > MAX_VALUE_BYTES {
            return Err(Failure::new("value_too_large", "at most 64 KiB under a name of at most 256 bytes"));
        }
        let mut command = redis::cmd("SET");
        let millis =
            u64::try_from(time_to_live.as_millis()).unwrap_or(u64::MAX).clamp(1, i64::MAX as u64 / 2);
        command.arg(self.keys.once(name)).arg(&value[..]).arg("PX").arg(millis);
        self.server.call(&command).await.map(drop)
    }

    /// The value, for the one caller that asks first. When its answer is lost, so is the value: nobody gets it twice.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn take(&self, name: &str) -> Result<Option<Bytes>, Failure> {
        let mut command = redis::cmd("GETDEL");
        command.arg(self.keys.once(name));
        match self.server.call(&command).await? {
            Value::BulkString(value) => Ok(Some(value.into())),
            Value::Nil => Ok(None),
            _ => Err(Failure::unexpected("no value")),
        }
    }
}
