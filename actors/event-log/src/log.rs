//! The log as others hold it: appends go to the writer, reads to a few connections that only read.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use freshet_feed::port::{Bounds, EventLog, KeyedState, Logged, NewestByKey, Outcome, PageLimit, StoreError};
use freshet_feed::{Epoch, Event};
use freshet_kernel::{Address, ChildSpec, Placement, SendError, task};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rusqlite::{Connection, Transaction};
use tokio::sync::Semaphore;

use crate::connection::{self, LOG_FILE};
use crate::statistics::Counters;
use crate::writer::{Append, Project};
use crate::{
    Config, DirectoryLock, OpenError, Page, Query, Retention, SearchError, Statistics, TableSummary,
    TablesQuery, Writer, error, history, newest, read, tables,
};

/// How long the writer may take to move what is left of the WAL into the file when it stops.
const SHUTDOWN: Duration = Duration::from_secs(20);
/// How many batches may wait for the writer. There is one appender, so more would be of no use.
const MAILBOX: usize = 8;
/// How many reads by position run at once; each is bounded by its page.
const LIVE_READERS: usize = 4;

/// Opens the log in a directory that this instance holds: makes, upgrades and checks its file. The
/// specification is to be put in the tree; appends wait until it runs, reads and searches work at once.
///
/// It blocks. After an unclean stop the whole file is read and checked: that took 10 to 17 seconds for each GiB on two
/// cores with the file in memory, and takes longer from a slow disk; the example `append_rate` measures it. A file of
/// version 1 is upgraded: that took 35 to 43 seconds for a million events in 825 MiB on two busy cores, and wanted half
/// as much room again while it lasted.
///
/// # Errors
/// [`OpenError::Corrupt`], [`OpenError::Newer`] or [`OpenError::Unavailable`]. No file is ever replaced.
pub fn open(
    config: &Config,
    retention: &Retention,
    lock: &DirectoryLock,
) -> Result<(ChildSpec<Writer>, SqliteEventLog), OpenError> {
    let file = lock.directory().join(LOG_FILE);
    connection::prepare(&file)?;
    let config = Arc::new(config.clone());
    let counters = Arc::new(Counters::default());
    let for_writer = (file.clone(), Arc::clone(&config), Arc::new(retention.clone()), Arc::clone(&counters));
    let specification = ChildSpec::new("event-log", "EventLogWriter", move |link| {
        let (file, config, retention, counters) = for_writer.clone();
        Writer::new(link, file, config, retention, counters)
    })
    .mailbox(MAILBOX)
    .shutdown_within(SHUTDOWN)
    .on(Placement::OwnThread);
    let searching = Readers::new(&file, config.readers.max(1));
    let live = Readers::new(&file, LIVE_READERS);
    let writer = specification.address();
    Ok((specification, SqliteEventLog { writer, searching, live, config, counters, file: file.into() }))
}

/// The embedded event log. Clones share everything.
#[derive(Clone)]
pub struct SqliteEventLog {
    writer: Address<Writer>,
    /// For searches and summaries, which may take as long as their limit.
    searching: Arc<Readers>,
    /// For reads by position, on which live feeds depend: no search ever holds them up.
    live: Arc<Readers>,
    config: Arc<Config>,
    counters: Arc<Counters>,
    file: Arc<Path>,
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
        Readers::read(&self.searching, move |connection| {
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
        Readers::read(&self.searching, move |connection| {
            history::within(connection, limit, |transaction| tables::tables(transaction, &config, &query))
        })
        .await
    }

    /// Takes over events of a log that several instances share, so that they can be searched here: they keep their
    /// offsets, which rise, and their epoch. Those up to the newest one that is held are passed over, so that it is
    /// safe to repeat them. Offsets that are left out stay absent. With another epoch than the one of
    /// [`bounds`](EventLog::bounds) all that is held is removed first, whoever wrote it. Nothing is deduplicated: that
    /// is done where the events were appended. Answers how many were added, when they are durable; an error means that
    /// none was.
    ///
    /// Whoever projects does not [append](EventLog::append): one file is either a log or a projection.
    ///
    /// # Errors
    /// Each of [`StoreError`].
    pub async fn project(&self, epoch: Epoch, events: Vec<Logged>) -> Result<usize, StoreError> {
        match self.writer.send(Project { epoch, events }).await {
            Ok(answer) => answer,
            Err(lost @ SendError::Restarting) => Err(StoreError::Unavailable(lost.to_string())),
            Err(SendError::Stopped) => Err(StoreError::Stopping),
        }
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
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        Readers::read(&self.live, move |connection| {
            let answer = connection.transaction().and_then(|transaction| work(&transaction));
            answer.map_err(|error| ReadError(error::unavailable(&error)))
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
        self.read(move |transaction| read::after(transaction, offset, limit)).boxed()
    }

    fn locate(&self, event_id: String) -> BoxFuture<'_, Result<Option<u64>, StoreError>> {
        self.read(move |transaction| read::locate(transaction, &event_id)).boxed()
    }

    fn bounds(&self) -> BoxFuture<'_, Result<Bounds, StoreError>> {
        self.read(|transaction| read::bounds(transaction)).boxed()
    }

    fn newest_by_key(&self, request: NewestByKey) -> BoxFuture<'_, Result<KeyedState, StoreError>> {
        self.read(move |transaction| newest::by_key(transaction, &request)).boxed()
    }

    fn read_at(&self, offsets: Vec<u64>) -> BoxFuture<'_, Result<Vec<Logged>, StoreError>> {
        self.read(move |transaction| read::at(transaction, &offsets)).boxed()
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
    fn new(file: &Path, count: usize) -> Arc<Self> {
        Arc::new(Self {
            file: file.to_owned(),
            room: Arc::new(Semaphore::new(count)),
            idle: Mutex::default(),
        })
    }

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn searches_that_take_every_connection_do_not_hold_up_the_live_path() {
        let directory = tempfile::tempdir().unwrap();
        actix_rt::System::new().block_on(async {
            let lock = DirectoryLock::acquire(directory.path()).unwrap();
            let config = Config::default();
            let (specification, log) = open(&config, &Retention::default(), &lock).unwrap();
            let tree =
                freshet_kernel::start(freshet_kernel::SupervisorSpec::new("root").child(specification));

            // As many searches as may run at once are under way, and none ends.
            let count = u32::try_from(config.readers).unwrap();
            let under_way = log.searching.room.acquire_many(count).await.unwrap();
            let live = async {
                log.append(vec![sample::event("a", "t")]).await.unwrap();
                let page = log.read_after(0, PageLimit { events: 10, bytes: 1000 }).await.unwrap();
                (page.len(), log.locate("a".to_owned()).await.unwrap(), log.bounds().await.unwrap().last)
            };
            let answers = tokio::time::timeout(Duration::from_secs(30), live).await;
            assert_eq!(answers.ok(), Some((1, Some(1), 1)));
            drop(under_way);
            assert_eq!(log.search(Query { limit: 1, ..Query::default() }).await.unwrap().items.len(), 1);
            tree.shutdown().await;
        });
    }
}
