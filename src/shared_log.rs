//! The log that several instances share, and this instance's searchable copy of it.
//!
//! Who follows the log announces everyone's events to the live stream. The copy is not on that way: its
//! [projector](projector::Projector) goes after the stream from where the copy stands, so that a slow disk delays the
//! history and no client.

mod projector;
mod tickets;

use std::sync::Arc;

use freshet_broadcaster::Live;
use freshet_event_log::SqliteEventLog;
use freshet_feed::port::{Announce, EventLog};
use freshet_identity::TicketStore;
use freshet_kernel::SupervisorSpec;
use freshet_redis_log::{Config, Failure, Follower, RedisEventLog, RedisStore, Server};

use tickets::SharedTickets;

/// A log in a Redis, as it is configured.
pub struct SharedLog {
    config: Config,
    server: Server,
    log: RedisEventLog,
}

impl SharedLog {
    /// Nothing when no Redis is configured. It is not asked for anything yet: it may be away.
    ///
    /// # Errors
    /// When the settings cannot work.
    pub fn configured(config: &Config) -> Result<Option<Self>, Failure> {
        if !config.is_used() {
            return Ok(None);
        }
        let server = Server::new(config)?;
        let log = RedisEventLog::new(server.clone(), config);
        Ok(Some(Self { config: config.clone(), server, log }))
    }

    /// The log, to append to and to read by position.
    pub fn log(&self) -> Arc<dyn EventLog> {
        Arc::new(self.log.clone())
    }

    /// Tickets that every instance redeems.
    pub fn tickets(&self) -> Arc<dyn TicketStore> {
        Arc::new(SharedTickets(RedisStore::new(self.server.clone(), &self.config)))
    }

    /// Adds what follows the log: to the live stream, and into the copy.
    pub fn follow(self, group: SupervisorSpec, live: &Arc<Live>, copy: SqliteEventLog) -> SupervisorSpec {
        let projector = projector::child(Arc::clone(live), self.log(), copy);
        let announce: Arc<dyn Announce> = live.clone();
        group.child(Follower::specification("follower", self.log, &self.config, announce)).child(projector)
    }
}
