//! What every event log promises, whatever it is made of. An implementation passes it by calling [`contract`]
//! with a way to make logs of its own.
#![expect(clippy::unwrap_used, reason = "every function here is part of a test")]

use freshet_feed::event::{Summary, iceberg_mutation};
use freshet_feed::port::{EventLog, Logged, Outcome, PageLimit};
use freshet_feed::{ChannelName, Commit, Event, Position};

const ALL: PageLimit = PageLimit { events: 10_000, bytes: usize::MAX };

/// Runs every case on a fresh, empty log that holds all that the case appends.
pub async fn contract<L: EventLog>(new_log: impl AsyncFn() -> L) {
    an_empty_log_has_bounds(&new_log().await).await;
    offsets_rise_by_one_and_events_come_back_exactly(&new_log().await).await;
    the_same_id_is_a_duplicate(&new_log().await).await;
    the_same_commit_by_two_ways_is_a_duplicate(&new_log().await).await;
    a_read_goes_on_after_any_offset(&new_log().await).await;
    a_page_is_bounded(&new_log().await).await;
    an_event_is_located_by_its_id(&new_log().await).await;
    two_logs_have_two_epochs(&new_log().await, &new_log().await).await;
}

fn event(event_id: &str) -> Event {
    Event {
        event_id: event_id.to_owned(),
        channel: ChannelName::iceberg(),
        name: iceberg_mutation(),
        key: None,
        room: None,
        timestamp: "2026-03-01T12:00:00.123Z".parse().unwrap(),
        source_application: None,
        commit: Some(Commit {
            table: "prod.orders".to_owned(),
            event_type: "COMMIT_SUCCESS".to_owned(),
            operation: None,
            snapshot_id: None,
            schema_changed: None,
            summary: Summary::default(),
        }),
        body: "{}".into(),
    }
}

/// The event with a change to its commit.
fn changed(mut event: Event, change: impl FnOnce(&mut Commit)) -> Event {
    change(event.commit.as_mut().unwrap());
    event
}

/// An event of another channel, without a commit.
fn message(event_id: &str, channel: &str, room: Option<&str>, key: Option<&str>) -> Event {
    Event {
        channel: ChannelName::new(channel).unwrap(),
        name: "message".into(),
        key: key.map(str::to_owned),
        room: room.map(str::to_owned),
        commit: None,
        ..event(event_id)
    }
}

fn ids(page: &[Logged]) -> Vec<&str> {
    page.iter().map(|logged| logged.event.event_id.as_str()).collect()
}

async fn an_empty_log_has_bounds(log: &impl EventLog) {
    let bounds = log.bounds().await.unwrap();
    assert_eq!((bounds.first, bounds.last), (1, 0));
    assert_eq!(log.read_after(0, ALL).await, Ok(vec![]));
    assert_eq!(log.append(vec![]).await, Ok(vec![]));
    assert_eq!(log.bounds().await, Ok(bounds));
}

async fn offsets_rise_by_one_and_events_come_back_exactly(log: &impl EventLog) {
    let full = Event {
        source_application: Some("spark \u{0} é".to_owned()),
        timestamp: "2026-03-01T12:00:00.123456789Z".parse().unwrap(),
        key: Some("a key \u{0} é".to_owned()),
        room: Some("a room \u{0} é".to_owned()),
        body: b"{\"unknown\" : 1.0,\xff\x00}".as_slice().into(),
        ..changed(event("full"), |commit| {
            commit.operation = Some("append".to_owned());
            commit.snapshot_id = Some(i64::MAX);
            commit.schema_changed = Some(false);
            commit.summary = Summary {
                added_records: Some(15_782_093),
                deleted_records: Some(0),
                added_data_files: Some(i64::MAX),
                deleted_data_files: None,
            };
        })
    };
    let negative = changed(event("negative"), |commit| commit.snapshot_id = Some(i64::MIN));
    let events = vec![event("plain"), full, negative, message("message", "a.channel", Some(""), Some(""))];
    let epoch = log.bounds().await.unwrap().epoch;
    let accepted = |offset| Outcome::Accepted { position: Position { epoch, offset } };
    assert_eq!(log.append(events[..1].to_vec()).await, Ok(vec![accepted(1)]));
    assert_eq!(log.append(events[1..].to_vec()).await, Ok(vec![accepted(2), accepted(3), accepted(4)]));
    let held = log.read_after(0, ALL).await.unwrap();
    let bounds = log.bounds().await.unwrap();
    assert_eq!((bounds.epoch, bounds.first, bounds.last), (epoch, 1, 4));
    assert_eq!(held.iter().map(|logged| logged.offset).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert!(held.windows(2).all(|pair| pair[0].appended_at <= pair[1].appended_at), "appended in this order");
    assert_eq!(held.into_iter().map(|logged| logged.event).collect::<Vec<_>>(), events);
}

async fn the_same_id_is_a_duplicate(log: &impl EventLog) {
    let epoch = log.bounds().await.unwrap().epoch;
    let accepted = |offset| Outcome::Accepted { position: Position { epoch, offset } };
    let batch = vec![event("a"), event("a"), event("b")];
    assert_eq!(log.append(batch.clone()).await, Ok(vec![accepted(1), Outcome::Duplicate, accepted(2)]));
    assert_eq!(log.append(batch).await, Ok(vec![Outcome::Duplicate; 3]));
    assert_eq!(log.append(vec![event("c")]).await, Ok(vec![accepted(3)]));
    assert_eq!(ids(&log.read_after(0, ALL).await.unwrap()), ["a", "b", "c"]);
}

async fn the_same_commit_by_two_ways_is_a_duplicate(log: &impl EventLog) {
    let commit = |event_id: &str, table: &str, operation: Option<&str>| {
        changed(event(event_id), |commit| {
            commit.table = table.to_owned();
            commit.snapshot_id = Some(7);
            commit.operation = operation.map(str::to_owned);
        })
    };
    let append = Some("append");
    log.append(vec![commit("by stomp", "prod.orders", append)]).await.unwrap();
    let by_http = commit("by http", "prod.orders", append);
    assert_eq!(log.append(vec![by_http]).await, Ok(vec![Outcome::Duplicate]));
    let sparse = commit("without an operation", "prod.orders", None);
    assert_eq!(log.append(vec![sparse]).await, Ok(vec![Outcome::Duplicate]));
    let another_table = commit("another table", "prod.items", append);
    let another_operation = commit("another operation", "prod.orders", Some("replace"));
    log.append(vec![another_table, another_operation]).await.unwrap();
    assert_eq!(
        ids(&log.read_after(0, ALL).await.unwrap()),
        ["by stomp", "another table", "another operation"]
    );
}

async fn a_read_goes_on_after_any_offset(log: &impl EventLog) {
    log.append((1..=5).map(|number| event(&number.to_string())).collect()).await.unwrap();
    assert_eq!(ids(&log.read_after(3, ALL).await.unwrap()), ["4", "5"]);
    for beyond in [5, 6, u64::MAX] {
        assert_eq!(log.read_after(beyond, ALL).await, Ok(vec![]));
    }
}

async fn a_page_is_bounded(log: &impl EventLog) {
    let sized = |event_id: &str, bytes| Event { body: vec![b'x'; bytes].into(), ..event(event_id) };
    log.append(vec![sized("a", 100), sized("b", 100), sized("c", 1000), sized("d", 1)]).await.unwrap();
    for (after, events, bytes, expected) in [
        (0, 2, usize::MAX, vec!["a", "b"]),
        (0, 10, 200, vec!["a", "b"]),
        (0, 10, 199, vec!["a"]),
        (2, 10, 50, vec!["c"]),
        (2, 10, 1001, vec!["c", "d"]),
    ] {
        let page = log.read_after(after, PageLimit { events, bytes }).await.unwrap();
        assert_eq!(ids(&page), expected, "after {after}: {events} events, {bytes} bytes");
    }
}

async fn an_event_is_located_by_its_id(log: &impl EventLog) {
    log.append(vec![event("a"), event("b")]).await.unwrap();
    assert_eq!(log.locate("b".to_owned()).await, Ok(Some(2)));
    assert_eq!(log.locate("c".to_owned()).await, Ok(None));
}

async fn two_logs_have_two_epochs(one: &impl EventLog, other: &impl EventLog) {
    assert_ne!(one.bounds().await.unwrap().epoch, other.bounds().await.unwrap().epoch);
}
