//! The log as the other rooms see it.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use freshet_feed::port::{Bounds, EventLog, KeyedState, Logged, NewestByKey, Outcome, PageLimit, StoreError};
use freshet_feed::{Epoch, Event, Position, Rooms};
use futures_util::future::BoxFuture;
use redis::Value;

use crate::Config;
use crate::connection::{Server, array, count, text};
use crate::decide::Append;
use crate::entry::{self, Entry};
use crate::error::Failure;
use crate::keys::{self, Keys};
use crate::scripts::{self, ScriptText};

/// The most events that one call appends.
const APPEND_EVENTS: usize = 512;
/// The most bytes of bodies that one call appends, unless one event alone has more.
const APPEND_BYTES: usize = 1024 * 1024;
/// The most entries that one command reads.
const READ_EVENTS: usize = 512;
/// The fewest, however large they are expected to be.
const READ_EVENTS_MIN: usize = 8;
/// The most keys of a channel that one call looks at: Redis serves nobody else meanwhile.
const MAX_KEYS_SCANNED: usize = 100_000;
const SECS_OF_DAY: u64 = 24 * 60 * 60;

/// The event log that several instances share. Clones share connections.
#[derive(Clone)]
pub struct RedisEventLog {
    inner: Arc<Inner>,
}

struct Inner {
    server: Server,
    keys: Keys,
    max_events: u64,
    max_age: Duration,
    window: Duration,
    same_commit_within: Duration,
}

impl RedisEventLog {
    /// A log on this server. Nothing is asked of it yet.
    #[must_use]
    pub fn new(server: Server, config: &Config) -> Self {
        let days = |days: u32| Duration::from_secs(u64::from(days) * SECS_OF_DAY);
        Self {
            inner: Arc::new(Inner {
                server,
                keys: Keys::new(&config.prefix),
                max_events: config.log_max_events,
                max_age: days(config.log_max_age_days),
                window: days(config.duplicate_window_days),
                same_commit_within: Duration::from_secs(config.same_commit_within_secs),
            }),
        }
    }

    pub(crate) fn server(&self) -> &Server {
        &self.inner.server
    }

    pub(crate) fn stream(&self) -> String {
        self.inner.keys.log()
    }

    pub(crate) async fn run(
        &self,
        script: &'static LazyLock<ScriptText>,
        further_keys: Vec<String>,
        further_arguments: Vec<Bytes>,
    ) -> Result<Value, Failure> {
        let mut keys = vec![self.inner.keys.head(), self.inner.keys.log()];
        keys.extend(further_keys);
        let mut arguments = vec![Bytes::from(Epoch(fastrand::u64(..)).to_string())];
        arguments.extend(further_arguments);
        self.inner.server.run(&script.script, &script.text, &keys, &arguments).await
    }

    /// Removes what is older than events may be, at most `most` events. Answers how many.
    pub(crate) async fn trim(&self, most: u64) -> Result<u64, Failure> {
        let arguments = vec![number(self.inner.max_age.as_micros()), number(most)];
        count(&self.run(&scripts::TRIM, Vec::new(), arguments).await?)
    }

    /// One call: the events are appended or recognised as a whole.
    async fn append_chunk(&self, events: &[Event]) -> Result<Vec<Outcome>, Failure> {
        let inner = &self.inner;
        let mut keys = Vec::with_capacity(3 * events.len());
        let keep = inner.max_age.max(inner.window);
        let mut arguments =
            vec![number(inner.window.as_millis()), number(keep.as_millis()), number(inner.max_events)];
        for event in events {
            let facts = event.commit.as_ref().map(|commit| entry::facts(event, commit));
            let commit = inner.keys.commit(event);
            let apart = match &event.commit {
                Some(commit) if commit.schema_changed != Some(true) => inner.same_commit_within,
                _ => Duration::ZERO,
            };
            let facts = if commit.is_some() { facts.unwrap_or_default() } else { String::new() };
            keys.push(inner.keys.seen(&event.event_id));
            // A name that is not used still has to be one of our keys.
            keys.push(commit.unwrap_or_else(|| inner.keys.log()));
            keys.push(inner.keys.keyed(&event.channel));
            let fields = entry::encode(event);
            arguments.push(Bytes::copy_from_slice(event.channel.as_str().as_bytes()));
            arguments.push(keys::member(event).unwrap_or_default().into());
            arguments.push(facts.into());
            arguments.push(number(apart.as_micros()));
            arguments.push(number(fields.len()));
            arguments.extend(fields);
        }
        let mut answers = array(self.run(&scripts::APPEND, keys, arguments).await?)?.into_iter();
        let epoch = epoch(answers.next())?;
        let outcomes = answers
            .map(|answer| {
                Ok(match count(&answer)? {
                    0 => Outcome::Duplicate,
                    offset => Outcome::Accepted { position: Position { epoch, offset } },
                })
            })
            .collect::<Result<Vec<_>, Failure>>()?;
        if outcomes.len() != events.len() {
            return Err(Failure::unexpected("not one answer for each event"));
        }
        Ok(outcomes)
    }

    async fn append_all(&self, events: Vec<Event>) -> Result<Vec<Outcome>, Failure> {
        let mut outcomes = Vec::with_capacity(events.len());
        let mut rest = &events[..];
        while !rest.is_empty() {
            let (chunk, after) = rest.split_at(chunk_len(rest));
            outcomes.extend(self.append_chunk(chunk).await?);
            rest = after;
        }
        Ok(outcomes)
    }

    /// Entries with offsets from `first` to `last`, at most `most`.
    async fn entries(&self, first: u64, last: Option<u64>, most: usize) -> Result<Vec<Entry>, Failure> {
        let last = last.map_or_else(|| "+".to_owned(), |last| format!("{last}-0"));
        let mut command = redis::cmd("XRANGE");
        command.arg(self.stream()).arg(format!("{first}-0")).arg(last).arg("COUNT").arg(most);
        array(self.inner.server.call(&command).await?)?.into_iter().map(entry::decode).collect()
    }

    /// Whether this append still stands at its offset.
    pub(crate) async fn has(&self, append: &Append) -> Result<bool, Failure> {
        let entries = self.entries(append.offset, Some(append.offset), 1).await?;
        Ok(entries.first().is_some_and(|entry| Append::of(&entry.logged) == *append))
    }

    async fn page(&self, offset: u64, limit: PageLimit) -> Result<Vec<Logged>, Failure> {
        let mut page: Vec<Logged> = Vec::new();
        let mut bytes = 0;
        let mut after = offset;
        while page.len() < limit.events
            && let Some(first) = after.checked_add(1)
        {
            let most = read_len(limit, page.len(), bytes);
            let entries = self.entries(first, None, most).await?;
            let is_last = entries.len() < most;
            for Entry { logged, .. } in entries {
                bytes += logged.event.body.len();
                if bytes > limit.bytes && !page.is_empty() {
                    return Ok(page);
                }
                after = logged.offset;
                page.push(logged);
            }
            if is_last {
                break;
            }
        }
        Ok(page)
    }

    async fn read_bounds(&self) -> Result<Bounds, Failure> {
        let mut answer = array(self.run(&scripts::BOUNDS, Vec::new(), Vec::new()).await?)?.into_iter();
        let epoch = epoch(answer.next())?;
        let (Some(last), Some(held), None) = (answer.next(), answer.next(), answer.next()) else {
            return Err(Failure::unexpected("no bounds"));
        };
        let (last, held) = (count(&last)?, count(&held)?);
        Ok(Bounds { epoch, first: (last + 1).saturating_sub(held), last })
    }

    async fn find(&self, event_id: &str) -> Result<Option<u64>, Failure> {
        let keys = vec![self.inner.keys.seen(event_id)];
        let offset = count(&self.run(&scripts::LOCATE, keys, Vec::new()).await?)?;
        Ok((offset > 0).then_some(offset))
    }

    async fn keyed_state(&self, request: NewestByKey) -> Result<KeyedState, Failure> {
        let since =
            request.appended_since.map_or_else(String::new, |since| since.as_microsecond().to_string());
        let mut arguments = vec![since.into(), number(request.max_keys), number(MAX_KEYS_SCANNED)];
        match request.rooms {
            Rooms::All => arguments.push(Bytes::from_static(b"all")),
            Rooms::Only(rooms) => {
                arguments.push(Bytes::from_static(b"only"));
                arguments.extend(rooms.into_iter().map(|room| Bytes::from(String::from(room))));
            }
        }
        let keys = vec![self.inner.keys.keyed(&request.channel)];
        let answer = array(self.run(&scripts::NEWEST, keys, arguments).await?)?;
        let [through, is_cut, offsets @ ..] = &answer[..] else {
            return Err(Failure::unexpected("no state"));
        };
        let mut offsets = offsets.iter().map(count).collect::<Result<Vec<_>, _>>()?;
        offsets.sort_unstable();
        Ok(KeyedState { through: count(through)?, offsets, is_cut: count(is_cut)? == 1 })
    }

    async fn events_at(&self, offsets: Vec<u64>) -> Result<Vec<Logged>, Failure> {
        let mut events = Vec::with_capacity(offsets.len());
        for run in runs(&offsets) {
            for chunk in run.chunks(READ_EVENTS) {
                let [first, .., last] = chunk else {
                    let [only] = chunk else { continue };
                    events.extend(self.entries(*only, Some(*only), 1).await?);
                    continue;
                };
                events.extend(self.entries(*first, Some(*last), READ_EVENTS).await?);
            }
        }
        Ok(events.into_iter().map(|entry| entry.logged).collect())
    }
}

impl EventLog for RedisEventLog {
    /// May be called by several at once. An append whose answer was lost may be repeated: what it did is recognised. An
    /// append of many events is made in several calls; when one fails, those before it have been made.
    fn append(&self, events: Vec<Event>) -> BoxFuture<'_, Result<Vec<Outcome>, StoreError>> {
        Box::pin(async { Ok(self.append_all(events).await?) })
    }

    fn read_after(&self, offset: u64, limit: PageLimit) -> BoxFuture<'_, Result<Vec<Logged>, StoreError>> {
        Box::pin(async move { Ok(self.page(offset, limit).await?) })
    }

    fn locate(&self, event_id: String) -> BoxFuture<'_, Result<Option<u64>, StoreError>> {
        Box::pin(async move { Ok(self.find(&event_id).await?) })
    }

    fn bounds(&self) -> BoxFuture<'_, Result<Bounds, StoreError>> {
        Box::pin(async { Ok(self.read_bounds().await?) })
    }

    /// Of a key that stands in several of the rooms the newest event counts. `max_keys` apart, the state is also cut when
    /// a channel has more than 100,000 keys to look at.
    fn newest_by_key(&self, request: NewestByKey) -> BoxFuture<'_, Result<KeyedState, StoreError>> {
        Box::pin(async { Ok(self.keyed_state(request).await?) })
    }

    fn read_at(&self, offsets: Vec<u64>) -> BoxFuture<'_, Result<Vec<Logged>, StoreError>> {
        Box::pin(async { Ok(self.events_at(offsets).await?) })
    }
}

/// The epoch that an answer begins with.
pub(crate) fn epoch(value: Option<Value>) -> Result<Epoch, Failure> {
    entry::epoch(&text(value.unwrap_or(Value::Nil))?)
        .ok_or_else(|| Failure::wrong_data("the epoch of the log is none"))
}

pub(crate) fn number(number: impl ToString) -> Bytes {
    Bytes::from(number.to_string())
}

/// How many of these events the next call appends.
fn chunk_len(events: &[Event]) -> usize {
    let mut bytes = 0;
    let fits = events.iter().take(APPEND_EVENTS).take_while(|event| {
        bytes += event.body.len();
        bytes <= APPEND_BYTES
    });
    fits.count().max(1)
}

/// How many entries to ask for next, by how large those were that the page has already.
fn read_len(limit: PageLimit, events: usize, bytes: usize) -> usize {
    let wanted = limit.events.saturating_sub(events);
    let room = limit.bytes.saturating_sub(bytes);
    let expected = match events {
        0 => READ_EVENTS_MIN,
        _ => (room / (bytes / events).max(1)).saturating_add(1),
    };
    wanted.min(expected.clamp(READ_EVENTS_MIN, READ_EVENTS))
}

/// Rising offsets as runs without holes, each of which one command reads.
fn runs(offsets: &[u64]) -> impl Iterator<Item = &[u64]> {
    offsets.chunk_by(|one, next| one.checked_add(1) == Some(*next))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::event;

    #[test]
    fn a_call_appends_so_many_events_and_bytes_and_at_least_one() {
        let sized = |bytes: usize| Event { body: vec![b'x'; bytes].into(), ..event("a", "1") };
        assert_eq!(chunk_len(&vec![sized(1); APPEND_EVENTS + 1]), APPEND_EVENTS);
        assert_eq!(chunk_len(&[sized(APPEND_BYTES), sized(0), sized(1)]), 2);
        assert_eq!(chunk_len(&[sized(APPEND_BYTES + 1), sized(1)]), 1);
        assert_eq!(chunk_len(&[sized(1)]), 1);
    }

    #[test]
    fn a_page_is_read_in_steps_by_the_size_of_its_events() {
        let limit = |events, bytes| PageLimit { events, bytes };
        assert_eq!(read_len(limit(1000, 1 << 20), 0, 0), 8);
        assert_eq!(read_len(limit(3, 1 << 20), 0, 0), 3);
        assert_eq!(read_len(limit(1000, 1 << 20), 8, 8 * 100), 512);
        assert_eq!(read_len(limit(1000, 100_000), 8, 8 * 1000), 93);
        assert_eq!(read_len(limit(1000, 100_000), 8, 99_999), 8);
        assert_eq!(read_len(limit(1000, usize::MAX), 8, 0), 512);
    }

    #[test]
    fn offsets_are_read_in_runs() {
        let found: Vec<_> = runs(&[1, 2, 3, 7, 9, 10]).collect();
        assert_eq!(found, [&[1, 2, 3][..], &[7], &[9, 10]]);
    }
}
