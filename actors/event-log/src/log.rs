//! The log as others hold it: appends go to the writer, reads to a few connections that only read.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use freshet_feed::Event;
use freshet_feed::port::{Bounds, EventLog, Logged, Outcome, PageLimit, StoreError};
use freshet_kernel::{Address, ChildSpec, Placement, SendError, task};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rusqlite::Connection;
use tokio::sync::Semaphore;

use crate::connection::{self, LOG_FILE};
use crate::statistics::Counters;
use crate::writer::Append;
use crate::{
    Config, DirectoryLock, OpenError, Page, Query, SearchError, Statistics, TableSummary, TablesQuery,
    Writer, error, history, read, tables,
};

/// How long the writer may take to move what is left of the WAL into the file when it stops.
const SHUTDOWN: Duration = Duration::from_secs(20);
/// How many batches may wait for the writer. There is one appender, so more would be of no use.
const MAILBOX: usize = 8;

/// Opens the log in a directory that this instance holds: makes, upgrades and checks its file. The
/// specification is to be put in the tree; appends wait until it runs, reads and searches work at once.
///
/// It blocks: after an unclean stop the whole file is read.
///
/// # Errors
/// [`OpenError::Corrupt`], [`OpenError::Newer`] or [`OpenError::Unavailable`]. No file is ever replaced.
pub fn open(config: &Config, lock: &DirectoryLock) -> Result<(ChildSpec<Writer>, SqliteEventLog), OpenError> {
    let file = lock.directory().join(LOG_FILE);
    connection::prepare(&file)?;
    let config = Arc::new(config.clone());
    let counters = Arc::new(Counters::default());
    let for_writer = (file.clone(), Arc::clone(&config), Arc::clone(&counters));
    let specification = ChildSpec::new("event-log", "EventLogWriter", move |link| {
        let (file, config, counters) = for_writer.clone();
        Writer::new(link, file, config, counters)
    })
    .mailbox(MAILBOX)
    .shutdown_within(SHUTDOWN)
    .on(Placement::OwnThread);
    let readers = Arc::new(Readers {
        file: file.clone(),
        room: Arc::new(Semaphore::new(config.readers.max(1))),
        idle: Mutex::default(),
    });
    let writer = specification.address();
    Ok((specification, SqliteEventLog { writer, readers, config, counters, file: file.into() }))
}

/// The embedded event log. Clones share everything.
#[derive(Clone)]
pub struct SqliteEventLog {
    writer: Address<Writer>,
    readers: Arc<Readers>,
    config: Arc<Config>,
    counters: Arc<Counters>,
    file: Arc<std::path::Path>,
}

impl SqliteEventLog {
    /// One page of the history, newest first. Dropping the future lets a search that has begun run to its time
    /// limit.
    ///
    /// # Errors
    /// Each of [`SearchError`].
    pub async fn search(&self, query: Query) -> Result<Page<Logged>, SearchError> {
        let config = Arc::clone(&self.config);
        let limit = self.search_time_limit();
        Readers::read(&self.readers, move |connection| {
            history::within(connection, limit, |transaction| history::search(transaction, &config, &query))
        })
        .await
    }

    /// One page of tables and what happened to them lately, by name.
    ///
    /// # Errors
    /// Each of [`SearchError`].
    pub async fn tables(&self, query: TablesQuery) -> Result<Page<TableSummary>, SearchError> {
        let config = Arc::clone(&self.config);
        let limit = self.search_time_limit();
        Readers::read(&self.readers, move |connection| {
            history::within(connection, limit, |transaction| tables::tables(transaction, &config, &query))
        })
        .await
    }

    /// The counts now. Cheap: three sizes are asked of the file system.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.counters.read(&self.file)
    }

    fn search_time_limit(&self) -> Duration {
        Duration::from_millis(self.config.search_time_limit_millis)
    }

    /// Reads without a time limit: the work is bounded by its page.
    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        Readers::read(&self.readers, move |connection| {
            work(connection).map_err(|error| ReadError(error::unavailable(&error)))
        })
        .await
        .map_err(|ReadError(error)| error)
    }
}

impl EventLog for SqliteEventLog {
    fn append(&self, events: Vec<Event>) -> BoxFuture<'_, Result<Vec<Outcome>, StoreError>> {
        async move {
            match self.writer.send(Append(events)).await {
                Ok(answer) => answer,
                Err(lost @ SendError::Restarting) => Err(StoreError::Unavailable(lost.to_string())),
                Err(SendError::Stopped) => Err(StoreError::Stopping),
            }
        }
        .boxed()
    }

    fn read_after(&self, offset: u64, limit: PageLimit) -> BoxFuture<'_, Result<Vec<Logged>, StoreError>> {
        self.read(move |connection| read::after(connection, offset, limit)).boxed()
    }

    fn locate(&self, event_id: String) -> BoxFuture<'_, Result<Option<u64>, StoreError>> {
        self.read(move |connection| read::locate(connection, &event_id)).boxed()
    }

    fn bounds(&self) -> BoxFuture<'_, Result<Bounds, StoreError>> {
        self.read(read::bounds).boxed()
    }
}

/// An error of a read, which may say that its connection is not to be trusted.
trait FromOutage: From<StoreError> {
    fn is_outage(&self) -> bool;
}

struct ReadError(StoreError);

impl From<StoreError> for ReadError {
    fn from(error: StoreError) -> Self {
        Self(error)
    }
}

impl FromOutage for ReadError {
    fn is_outage(&self) -> bool {
        true
    }
}

impl FromOutage for SearchError {
    fn is_outage(&self) -> bool {
        matches!(self, Self::Store(_))
    }
}

/// The connections that only read: as many as may read at once, opened when they are first needed.
struct Readers {
    file: PathBuf,
    room: Arc<Semaphore>,
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    /// Waits for a connection and works with it on a thread for such work. A connection that failed is closed.
    async fn read<T, E>(
        this: &Arc<Self>,
        work: impl FnOnce(&mut Connection) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: FromOutage + Send + 'static,
    {
        let stopping = |_| E::from(StoreError::Stopping);
        let place = Arc::clone(&this.room).acquire_owned().await.map_err(stopping)?;
        let readers = Arc::clone(this);
        let done = task::blocking("event-log-read", move || {
            let mut connection = readers.take().map_err(|error| E::from(error::unavailable(&error)))?;
            let answer = work(&mut connection);
            if answer.as_ref().err().is_none_or(|error| !error.is_outage()) {
                readers.idle().push(connection);
            }
            drop(place);
            answer
        });
        done.await.unwrap_or_else(|lost| Err(StoreError::Unavailable(lost.to_string()).into()))
    }

    fn take(&self) -> rusqlite::Result<Connection> {
        let idle = self.idle().pop();
        idle.map_or_else(|| connection::reader(&self.file), Ok)
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        // Nothing panics while it is held.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
