//! What every event log promises, whatever it is made of. An implementation passes it by calling [`contract`]
//! with a way to make logs of its own.
#![expect(clippy::unwrap_used, reason = "every function here is part of a test")]

use freshet_feed::event::{Summary, iceberg_mutation};
use freshet_feed::port::{EventLog, KeyedState, Logged, NewestByKey, Outcome, PageLimit};
use freshet_feed::{ChannelName, Commit, Event, Position, Rooms};
use jiff::Timestamp;

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
    two_channels_have_ids_and_commits_of_their_own(&new_log().await).await;
    the_newest_event_of_each_key_is_the_state(&new_log().await).await;
    a_state_is_narrowed_to_rooms_and_to_young_events(&new_log().await).await;
    a_state_with_too_many_keys_is_cut(&new_log().await).await;
    events_are_read_at_their_offsets(&new_log().await).await;
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

async fn two_channels_have_ids_and_commits_of_their_own(log: &impl EventLog) {
    let epoch = log.bounds().await.unwrap().epoch;
    let accepted = |offset| Outcome::Accepted { position: Position { epoch, offset } };
    let commit = changed(event("a"), |commit| commit.snapshot_id = Some(7));
    let elsewhere = Event { channel: ChannelName::new("other").unwrap(), ..commit.clone() };
    let batch = vec![commit, elsewhere, message("a", "third", None, None)];
    assert_eq!(log.append(batch.clone()).await, Ok(vec![accepted(1), accepted(2), accepted(3)]));
    assert_eq!(log.append(batch).await, Ok(vec![Outcome::Duplicate; 3]));
    // Of several events with one id the newest is meant.
    assert_eq!(log.locate("a".to_owned()).await, Ok(Some(3)));
}

fn state_of(channel: &str) -> NewestByKey {
    NewestByKey {
        channel: ChannelName::new(channel).unwrap(),
        rooms: Rooms::All,
        appended_since: None,
        max_keys: 100,
    }
}

fn only(rooms: &[&str]) -> Rooms {
    Rooms::Only(rooms.iter().map(|room| (*room).into()).collect())
}

async fn the_newest_event_of_each_key_is_the_state(log: &impl EventLog) {
    let nothing = KeyedState { through: 0, offsets: vec![], is_cut: false };
    assert_eq!(log.newest_by_key(state_of("stock")).await, Ok(nothing));
    let stock = |event_id: &str, key: &str| message(event_id, "stock", None, Some(key));
    log.append(vec![stock("1", "b"), stock("2", "a"), message("3", "stock", None, None), stock("4", "é")])
        .await
        .unwrap();
    log.append(vec![stock("5", ""), stock("6", "b"), message("7", "prices", None, Some("a"))]).await.unwrap();
    let state = KeyedState { through: 7, offsets: vec![2, 4, 5, 6], is_cut: false };
    assert_eq!(log.newest_by_key(state_of("stock")).await, Ok(state));
    let state = KeyedState { through: 7, offsets: vec![7], is_cut: false };
    assert_eq!(log.newest_by_key(state_of("prices")).await, Ok(state));
    let state = KeyedState { through: 7, offsets: vec![], is_cut: false };
    assert_eq!(log.newest_by_key(state_of("iceberg")).await, Ok(state));
}

async fn a_state_is_narrowed_to_rooms_and_to_young_events(log: &impl EventLog) {
    let in_room = |event_id: &str, room: &str, key: &str| message(event_id, "stock", Some(room), Some(key));
    log.append(vec![in_room("1", "north", "a"), in_room("2", "south", "a"), in_room("3", "south", "b")])
        .await
        .unwrap();
    log.append(vec![in_room("4", "north", "b"), message("5", "stock", None, Some("c"))]).await.unwrap();
    for (rooms, expected) in [
        (Rooms::All, vec![2, 4, 5]),
        (only(&["north"]), vec![1, 4]),
        (only(&["south"]), vec![2, 3]),
        (only(&["north", "south"]), vec![2, 4]),
        (only(&["west"]), vec![]),
        (only(&[]), vec![]),
    ] {
        let state =
            log.newest_by_key(NewestByKey { rooms: rooms.clone(), ..state_of("stock") }).await.unwrap();
        assert_eq!((state.through, state.offsets, state.is_cut), (5, expected, false), "{rooms:?}");
    }
    let last = log.read_after(4, ALL).await.unwrap().remove(0).appended_at;
    for (since, held) in [(Timestamp::MIN, true), (last, true), (Timestamp::MAX, false)] {
        let request = NewestByKey { appended_since: Some(since), ..state_of("stock") };
        let state = log.newest_by_key(request).await.unwrap();
        assert_eq!(state.offsets.contains(&5), held, "since {since}");
    }
}

async fn a_state_with_too_many_keys_is_cut(log: &impl EventLog) {
    let stock = |number: u32, room: &str| {
        message(&format!("{room} {number}"), "stock", Some(room), Some(&format!("key {}", number % 3)))
    };
    log.append((0..6).map(|number| stock(number, "north")).collect()).await.unwrap();
    log.append((0..6).map(|number| stock(number, "south")).collect()).await.unwrap();
    for rooms in [Rooms::All, only(&["north", "south"])] {
        for max_keys in [0, 1, 2, 3, 4, usize::MAX] {
            let request = NewestByKey { max_keys, rooms: rooms.clone(), ..state_of("stock") };
            let state = log.newest_by_key(request).await.unwrap();
            assert_eq!((state.offsets.len(), state.is_cut), (max_keys.min(3), max_keys < 3), "{max_keys}");
            let is_newest = |offset: &u64| (10..=12).contains(offset);
            assert!(state.offsets.is_sorted() && state.offsets.iter().all(is_newest), "{:?}", state.offsets);
        }
    }
}

async fn events_are_read_at_their_offsets(log: &impl EventLog) {
    assert_eq!(log.read_at(vec![1]).await, Ok(vec![]));
    log.append(vec![event("a"), message("b", "stock", Some("north"), Some("k")), event("c")]).await.unwrap();
    let all = log.read_after(0, ALL).await.unwrap();
    assert_eq!(log.read_at(vec![]).await, Ok(vec![]));
    assert_eq!(log.read_at(vec![2]).await, Ok(all[1..2].to_vec()));
    assert_eq!(log.read_at(vec![0, 1, 3, 4, u64::MAX]).await, Ok(vec![all[0].clone(), all[2].clone()]));
}

async fn two_logs_have_two_epochs(one: &impl EventLog, other: &impl EventLog) {
    assert_ne!(one.bounds().await.unwrap().epoch, other.bounds().await.unwrap().epoch);
}
