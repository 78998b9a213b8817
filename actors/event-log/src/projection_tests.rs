use std::path::PathBuf;

use freshet_feed::Event;
use freshet_feed::port::PageLimit;
use jiff::ToSpan;

use super::*;
use crate::sample::{commit, event, message, noon};
use crate::store::Store;
use crate::{Config, Query, Retention, TablesQuery, connection, history, read, tables};

const SHARED: Epoch = Epoch(u64::MAX);

struct Projection {
    _directory: tempfile::TempDir,
    file: PathBuf,
    store: Store,
}

impl Projection {
    fn new(config: &Config) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join(connection::LOG_FILE);
        connection::prepare(&file).unwrap();
        let store = Store::open(&file, config, &Retention::default()).unwrap();
        Self { _directory: directory, file, store }
    }

    fn project(&mut self, epoch: Epoch, events: &[Logged]) -> usize {
        self.store.project(epoch, events, noon()).unwrap()
    }

    fn reading<T>(&self, work: impl FnOnce(&Transaction<'_>) -> T) -> T {
        work(&connection::reader(&self.file).unwrap().transaction().unwrap())
    }

    fn held(&self) -> Vec<Logged> {
        let limit = PageLimit { events: 10_000, bytes: usize::MAX };
        self.reading(|transaction| read::after(transaction, 0, limit).unwrap())
    }

    fn offsets(&self) -> Vec<u64> {
        self.held().into_iter().map(|logged| logged.offset).collect()
    }

    fn found(&self, text: &str) -> Vec<u64> {
        let query = Query { text: Some(text.to_owned()), limit: 100, ..Query::default() };
        let page =
            self.reading(|transaction| history::search(transaction, &Config::default(), &query).unwrap());
        page.items.into_iter().map(|logged| logged.offset).collect()
    }

    fn tables(&self) -> Vec<String> {
        let query = TablesQuery { scope: None, tables: vec![], cursor: None, limit: 10, now: noon() };
        let page =
            self.reading(|transaction| tables::tables(transaction, &Config::default(), &query).unwrap());
        page.items.into_iter().map(|summary| summary.table).collect()
    }

    fn bounds(&self) -> (Epoch, u64, u64) {
        let bounds = self.reading(|transaction| read::bounds(transaction).unwrap());
        (bounds.epoch, bounds.first, bounds.last)
    }
}

fn logged(offset: u64, event: Event) -> Logged {
    Logged { offset, appended_at: noon() - 1.hours(), event }
}

fn shared(offsets: std::ops::RangeInclusive<u64>) -> Vec<Logged> {
    offsets.map(|offset| logged(offset, event(&format!("e{offset}"), "shared"))).collect()
}

#[test]
fn a_projection_holds_what_the_shared_log_holds() {
    let mut projection = Projection::new(&Config::default());
    let events = [
        logged(7, commit("seven", "prod.orders", 7)),
        logged(8, message("eight", "stock", Some("north"), Some("a"))),
    ];
    assert_eq!(projection.project(SHARED, &events), 2);
    assert_eq!(projection.held(), events);
    assert_eq!(projection.bounds(), (SHARED, 7, 8));
    assert_eq!(projection.found("seven"), [7]);
    assert_eq!(projection.tables(), ["prod.orders"]);
    let log = projection.store.log();
    assert_eq!((log.first, log.last, log.held_events(), log.held_bytes), (7, 8, 2, 4));
}

#[test]
fn a_follower_may_begin_anew_anywhere() {
    let mut projection = Projection::new(&Config::default());
    assert_eq!(projection.project(SHARED, &shared(1..=5)), 5);
    assert_eq!(projection.project(SHARED, &shared(1..=5)), 0);
    assert_eq!(projection.project(SHARED, &shared(3..=7)), 2);
    assert_eq!(projection.project(SHARED, &[]), 0);
    assert_eq!(projection.offsets(), [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(projection.found("shared").len(), 7);
    // It goes on after a restart too.
    let Projection { _directory, file, store } = projection;
    drop(store);
    let store = Store::open(&file, &Config::default(), &Retention::default()).unwrap();
    let mut projection = Projection { _directory, file, store };
    assert_eq!(projection.project(SHARED, &shared(6..=8)), 1);
    assert_eq!(projection.bounds(), (SHARED, 1, 8));
}

#[test]
fn another_epoch_is_another_log() {
    let mut projection = Projection::new(&Config::default());
    projection.store.append(&[event("before", "own")], noon()).unwrap();
    projection.project(SHARED, &shared(1..=3));
    assert_eq!((projection.found("own"), projection.tables()), (vec![], vec!["shared".to_owned()]));
    let other = [logged(2, event("e1", "other"))];
    assert_eq!(projection.project(Epoch(5), &other), 1);
    assert_eq!(projection.held(), other);
    assert_eq!(projection.bounds(), (Epoch(5), 2, 2));
    assert_eq!((projection.found("shared"), projection.found("other")), (vec![], vec![2]));
    assert_eq!(projection.tables(), ["other"]);
    // A log that is empty removes all, too.
    assert_eq!(projection.project(Epoch(6), &[]), 0);
    assert_eq!((projection.offsets(), projection.bounds()), (vec![], (Epoch(6), 1, 0)));
}

#[test]
fn what_the_shared_log_took_is_not_judged_again() {
    let mut projection = Projection::new(&Config::default());
    let events =
        [logged(1, commit("a", "t", 1)), logged(2, commit("a", "t", 1)), logged(3, commit("b", "t", 1))];
    assert_eq!(projection.project(SHARED, &events), 3);
    assert_eq!(projection.offsets(), [1, 2, 3]);
    assert_eq!(projection.reading(|transaction| read::locate(transaction, "a").unwrap()), Some(2));
}

#[test]
fn missed_offsets_stay_absent_and_retention_passes_over_them() {
    let mut projection = Projection::new(&Config { retention_days: 1, ..Config::default() });
    projection.project(SHARED, &shared(1..=3));
    projection.project(SHARED, &shared(1000..=1002));
    assert_eq!(projection.offsets(), [1, 2, 3, 1000, 1001, 1002]);
    let later = [Logged { appended_at: noon() + 48.hours(), ..shared(1003..=1003).remove(0) }];
    projection.store.project(SHARED, &later, noon() + 48.hours()).unwrap();
    assert_eq!(projection.offsets(), [1003]);
    assert_eq!(projection.found("shared"), [1003]);
    let log = projection.store.log();
    assert_eq!((log.first, log.held_events(), log.held_bytes), (1003, 1, 2));
}

#[test]
fn an_event_that_the_shared_log_no_longer_shows_is_a_place_here_too() {
    let mut projection = Projection::new(&Config::default());
    let blank =
        Event { event_id: String::new(), body: Vec::new().into(), ..message("", "stock", None, None) };
    let events = [logged(1, blank.clone()), logged(2, blank), logged(3, event("e3", "shared"))];
    assert_eq!(projection.project(SHARED, &events), 3);
    assert_eq!(projection.held(), events);
    let everything = Query { limit: 10, ..Query::default() };
    let page = projection
        .reading(|transaction| history::search(transaction, &Config::default(), &everything).unwrap());
    assert_eq!(page.items.into_iter().map(|logged| logged.offset).collect::<Vec<_>>(), [3]);
    assert_eq!(projection.reading(|transaction| read::at(transaction, &[1, 2]).unwrap()), []);
    assert_eq!(projection.reading(|transaction| read::locate(transaction, "").unwrap()), None);
}
