//! The log on one real Redis: what is appended, recognised and read.

#![allow(clippy::unwrap_used, clippy::panic, reason = "the support of tests fails as tests do")]

mod support;

use std::collections::BTreeSet;
use std::time::Duration;

use freshet_feed::event::Summary;
use freshet_feed::port::{Bounds, EventLog, NewestByKey, Outcome, PageLimit};
use freshet_feed::{Event, Position, Rooms};
use freshet_kernel::task;
use freshet_redis_log::{Config, RedisEventLog, RedisStore};
use futures_util::future::join_all;
use support::{ALL, Redis, channel, commit, event, ids, keyed};

/// One Redis for all cases, each with a prefix of its own.
#[test]
fn a_log_on_redis_keeps_what_an_event_log_promises() {
    actix_rt::System::new().block_on(async {
        let redis = Redis::start("single", 16410);
        offsets_rise_by_one_and_events_come_back_exactly(&redis.log_named("exact")).await;
        known_events_are_recognised(&redis.log_named("known")).await;
        a_commit_by_two_ways_is_one(&redis.log_named("commit")).await;
        a_page_is_bounded(&redis.log_named("page")).await;
        the_newest_of_each_key_is_found(&redis.log_named("newest")).await;
        events_are_read_at_their_offsets_and_found_by_id(&redis.log_named("at")).await;
        many_events_are_appended_in_order(&redis.log_named("many")).await;
        instances_that_append_at_once_share_one_order(&redis).await;
        the_oldest_go_first(&redis).await;
        what_is_too_old_goes_and_what_is_known_is_forgotten_in_time(&redis).await;
        a_value_is_taken_once(&redis).await;
        a_full_memory_is_told(&redis).await;
    });
}

async fn accepted(log: &RedisEventLog, offset: u64) -> Outcome {
    Outcome::Accepted { position: Position { epoch: log.bounds().await.unwrap().epoch, offset } }
}

async fn offsets_rise_by_one_and_events_come_back_exactly(log: &RedisEventLog) {
    let bounds = log.bounds().await.unwrap();
    assert_eq!((bounds.first, bounds.last), (1, 0));
    assert_eq!(log.read_after(0, ALL).await, Ok(vec![]));
    assert_eq!(log.append(vec![]).await, Ok(vec![]));
    let mut full = commit("full \u{0} é", i64::MIN);
    full.key = Some(String::new());
    full.room = Some("a:b|".to_owned());
    full.timestamp = "2026-03-01T12:00:00.123456789Z".parse().unwrap();
    full.source_application = Some("spark".to_owned());
    full.body = b"{\"unknown\" : 1.0,\xff\x00\r\n}".as_slice().into();
    if let Some(commit) = &mut full.commit {
        commit.schema_changed = Some(true);
        commit.summary =
            Summary { added_records: Some(i64::MAX), deleted_records: Some(0), ..Summary::default() };
    }
    let events = vec![event("plain"), full, keyed("keyed", "k", Some("r"))];
    assert_eq!(log.append(events[..1].to_vec()).await, Ok(vec![accepted(log, 1).await]));
    let outcomes = log.append(events[1..].to_vec()).await;
    assert_eq!(outcomes, Ok(vec![accepted(log, 2).await, accepted(log, 3).await]));
    let page = log.read_after(0, ALL).await.unwrap();
    assert_eq!(page.iter().map(|logged| logged.offset).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(page.iter().map(|logged| logged.event.clone()).collect::<Vec<_>>(), events);
    assert!(page.is_sorted_by_key(|logged| logged.appended_at));
    assert_eq!(log.bounds().await, Ok(Bounds { epoch: bounds.epoch, first: 1, last: 3 }));
}

async fn known_events_are_recognised(log: &RedisEventLog) {
    let batch = vec![event("a"), event("a"), event("b")];
    let outcomes = log.append(batch.clone()).await;
    assert_eq!(outcomes, Ok(vec![accepted(log, 1).await, Outcome::Duplicate, accepted(log, 2).await]));
    assert_eq!(log.append(batch).await, Ok(vec![Outcome::Duplicate; 3]));
    let elsewhere = Event { channel: channel("other"), ..event("a") };
    assert_eq!(log.append(vec![elsewhere]).await, Ok(vec![accepted(log, 3).await]));
    assert_eq!(log.locate("a".to_owned()).await, Ok(Some(3)));
}

async fn a_commit_by_two_ways_is_one(log: &RedisEventLog) {
    let changed = |event_id: &str, change: &dyn Fn(&mut Event)| {
        let mut event = commit(event_id, 7);
        change(&mut event);
        event
    };
    let counted = |added| {
        changed(&format!("counted {added}"), &|event| {
            event.commit.as_mut().unwrap().summary.added_records = Some(added);
        })
    };
    let operation = |event_id: &str, operation: Option<&str>| {
        changed(event_id, &|event| event.commit.as_mut().unwrap().operation = operation.map(str::to_owned))
    };
    let later = |event_id: &str, secs: i64| {
        changed(event_id, &|event| event.timestamp += Duration::from_secs(secs.unsigned_abs()))
    };
    let schema = |event_id: &str, changes: bool| {
        changed(event_id, &|event| event.commit.as_mut().unwrap().schema_changed = Some(changes))
    };
    log.append(vec![counted(5)]).await.unwrap();
    for same in [
        changed("by http", &|_| ()),
        operation("without an operation", None),
        later("five minutes later", 300),
        schema("no change of schema", false),
    ] {
        assert_eq!(log.append(vec![same.clone()]).await, Ok(vec![Outcome::Duplicate]), "{}", same.event_id);
    }
    let different = vec![
        later("much later", 301),
        counted(6),
        operation("another operation", Some("re|place")),
        schema("a change of schema", true),
        changed("another room", &|event| event.room = Some("b".to_owned())),
        commit("another snapshot", 8),
        event("no commit"),
    ];
    for event in &different {
        let outcomes = log.append(vec![event.clone()]).await.unwrap();
        assert!(matches!(outcomes[..], [Outcome::Accepted { .. }]), "{}", event.event_id);
    }
    let again = operation("the other operation again", Some("re|place"));
    assert_eq!(log.append(vec![again]).await, Ok(vec![Outcome::Duplicate]));
    assert_eq!(log.bounds().await.unwrap().last, 8);
}

async fn a_page_is_bounded(log: &RedisEventLog) {
    let sized = |event_id: &str, bytes| Event { body: vec![b'x'; bytes].into(), ..event(event_id) };
    log.append(vec![sized("a", 100), sized("b", 100), sized("c", 1000), sized("d", 1)]).await.unwrap();
    for (after, events, bytes, expected) in [
        (0, 2, usize::MAX, vec!["a", "b"]),
        (0, 10, 200, vec!["a", "b"]),
        (0, 10, 199, vec!["a"]),
        (2, 10, 50, vec!["c"]),
        (2, 10, 1001, vec!["c", "d"]),
        (4, 10, 1000, vec![]),
        (u64::MAX - 1, 10, 1000, vec![]),
        (u64::MAX, 10, 1000, vec![]),
    ] {
        let page = log.read_after(after, PageLimit { events, bytes }).await.unwrap();
        assert_eq!(ids(&page), expected, "after {after}: {events} events, {bytes} bytes");
    }
}

async fn the_newest_of_each_key_is_found(log: &RedisEventLog) {
    let early = vec![
        keyed("1", "x", None),
        keyed("2", "x", Some("a")),
        keyed("3", "y", Some("a")),
        keyed("4", "x", Some("b")),
        event("5"),
        Event { channel: channel("other"), ..keyed("6", "z", None) },
    ];
    log.append(early).await.unwrap();
    log.append(vec![keyed("7", "x", Some("a:1"))]).await.unwrap();
    let since = log.read_at(vec![7]).await.unwrap()[0].appended_at;
    let only = |rooms: &[&str]| Rooms::Only(rooms.iter().map(|room| (*room).into()).collect());
    for (rooms, appended_since, max_keys, expected, is_cut) in [
        (Rooms::All, None, 10, vec![3, 7], false),
        (only(&["a"]), None, 10, vec![2, 3], false),
        (only(&["b"]), None, 10, vec![4], false),
        (only(&["a", "b"]), None, 10, vec![3, 4], false),
        (only(&["c"]), None, 10, vec![], false),
        (Rooms::All, Some(since), 10, vec![7], false),
        (Rooms::All, Some(since + Duration::from_secs(60)), 10, vec![], false),
        (Rooms::All, None, 1, vec![7], true),
        (Rooms::All, None, 2, vec![3, 7], false),
    ] {
        let request = NewestByKey { channel: channel("stock"), rooms, appended_since, max_keys };
        let state = log.newest_by_key(request.clone()).await.unwrap();
        assert_eq!((state.through, state.offsets, state.is_cut), (7, expected, is_cut), "{request:?}");
    }
}

async fn events_are_read_at_their_offsets_and_found_by_id(log: &RedisEventLog) {
    log.append((1..=9).map(|number| event(&number.to_string())).collect()).await.unwrap();
    let found = log.read_at(vec![0, 1, 2, 3, 7, 9, 10, 99]).await.unwrap();
    assert_eq!(ids(&found), ["1", "2", "3", "7", "9"]);
    assert_eq!(log.locate("7".to_owned()).await, Ok(Some(7)));
    assert_eq!(log.locate("10".to_owned()).await, Ok(None));
}

async fn many_events_are_appended_in_order(log: &RedisEventLog) {
    let body = vec![b'x'; 10_000];
    let events: Vec<_> = (1..=1300)
        .map(|number: u32| Event { body: body.clone().into(), ..event(&number.to_string()) })
        .collect();
    let outcomes = log.append(events.clone()).await.unwrap();
    let epoch = log.bounds().await.unwrap().epoch;
    let expected: Vec<_> =
        (1..=1300).map(|offset| Outcome::Accepted { position: Position { epoch, offset } }).collect();
    assert_eq!(outcomes, expected);
    let page = log.read_after(0, ALL).await.unwrap();
    assert_eq!(
        page.iter().map(|logged| &logged.event).collect::<Vec<_>>(),
        events.iter().collect::<Vec<_>>()
    );
}

async fn instances_that_append_at_once_share_one_order(redis: &Redis) {
    const INSTANCES: usize = 6;
    const BATCHES: usize = 20;
    // Each event is appended by two instances, as by two brokers that deliver the same.
    let appenders = (0..INSTANCES).map(|instance| {
        let log = redis.log_named("shared");
        task::spawn("appender", async move {
            let mut taken = Vec::new();
            for batch in 0..BATCHES {
                let source = instance / 2;
                let events: Vec<_> =
                    (0..10).map(|number| event(&format!("{source} {batch:02} {number}"))).collect();
                let outcomes = log.append(events.clone()).await.unwrap();
                taken.extend(outcomes.into_iter().zip(events).filter_map(|(outcome, event)| match outcome {
                    Outcome::Accepted { position } => Some((position.offset, event.event_id)),
                    Outcome::Duplicate => None,
                }));
            }
            taken
        })
    });
    let taken: BTreeSet<(u64, String)> =
        join_all(appenders).await.into_iter().flat_map(|taken| taken.unwrap()).collect();
    let page = redis.log_named("shared").read_after(0, ALL).await.unwrap();
    let stored: BTreeSet<_> =
        page.iter().map(|logged| (logged.offset, logged.event.event_id.clone())).collect();
    assert_eq!(stored, taken);
    let events = (INSTANCES / 2 * BATCHES * 10) as u64;
    assert_eq!(page.iter().map(|logged| logged.offset).collect::<Vec<_>>(), (1..=events).collect::<Vec<_>>());
    let distinct: BTreeSet<_> = ids(&page).into_iter().collect();
    assert_eq!(distinct.len() as u64, events);
    for source in ["0 ", "1 ", "2 "] {
        let own: Vec<_> = ids(&page).into_iter().filter(|id| id.starts_with(source)).collect();
        assert!(own.is_sorted(), "{own:?}");
    }
}

async fn the_oldest_go_first(redis: &Redis) {
    let config = Config { prefix: "few".to_owned(), log_max_events: 200, ..redis.config() };
    let log = RedisEventLog::new(redis.server(), &config);
    let events = (1..=1000).map(|number: u32| keyed(&number.to_string(), &number.to_string(), None));
    log.append(events.collect()).await.unwrap();
    let Bounds { first, last, .. } = log.bounds().await.unwrap();
    assert_eq!(last, 1000);
    assert!((701..=801).contains(&first), "the oldest is {first}");
    let page = log.read_after(0, ALL).await.unwrap();
    assert_eq!(page[0].offset, first);
    assert_eq!(log.locate((first - 1).to_string()).await, Ok(None));
    assert_eq!(log.locate(first.to_string()).await, Ok(Some(first)));
    let request =
        NewestByKey { channel: channel("stock"), rooms: Rooms::All, appended_since: None, max_keys: 1000 };
    let state = log.newest_by_key(request).await.unwrap();
    assert_eq!(state.offsets, (first..=1000).collect::<Vec<_>>());
    // An event that is gone is recognised all the same.
    assert_eq!(log.append(vec![event("1")]).await, Ok(vec![Outcome::Duplicate]));
}

async fn what_is_too_old_goes_and_what_is_known_is_forgotten_in_time(redis: &Redis) {
    const DAY_MILLIS: i64 = 24 * 60 * 60 * 1000;
    let config =
        Config { prefix: "old".to_owned(), log_max_age_days: 2, duplicate_window_days: 3, ..redis.config() };
    let log = RedisEventLog::new(redis.server(), &config);
    let epoch = log.bounds().await.unwrap().epoch.to_string();
    // Only the clock of Redis makes events old, so these are written as it wrote them the day before last.
    let now = jiff::Timestamp::now().as_microsecond();
    for (id, age_millis) in [("1-0", 2 * DAY_MILLIS + 60_000), ("2-0", 2 * DAY_MILLIS - 600_000)] {
        let appended_at = (now - age_millis * 1000).to_string();
        let parts = ["i", id, "c", "stock", "n", "stock:update", "t", "2026-03-01T12:00:00Z", "b", "{}"];
        let head = ["XADD", "{old}:log", id, "v", "1", "e", &epoch, "a", &appended_at];
        redis.command(&[&head[..], &parts].concat()).await;
    }
    redis.command(&["HSET", "{old}:head", "last", "2"]).await;
    log.append(vec![keyed("new", "k", None), commit("commit", 7)]).await.unwrap();
    assert_eq!(log.bounds().await.unwrap().first, 1);

    let (tree, _) = support::follow(log.clone(), &config).await;
    support::until("the oldest is gone", async || log.bounds().await.unwrap().first == 2).await;
    assert_eq!(ids(&log.read_after(0, ALL).await.unwrap()), ["2-0", "new", "commit"]);
    tree.shutdown().await;
    let redis::Value::Array(names) = redis.command(&["KEYS", "{old}:*"]).await else { panic!() };
    assert_eq!(names.len(), 6, "head, log, two ids, a commit and the keys of a channel: {names:?}");
    for name in names {
        let redis::Value::BulkString(name) = name else { panic!() };
        let name = String::from_utf8(name).unwrap();
        let redis::Value::Int(left) = redis.command(&["PTTL", &name]).await else { panic!() };
        let expected = match name.as_str() {
            // For ever.
            "{old}:head" | "{old}:log" => -1..=-1,
            _ => 3 * DAY_MILLIS - 60_000..=3 * DAY_MILLIS,
        };
        assert!(expected.contains(&left), "{name}: {left} ms");
    }
}

async fn a_value_is_taken_once(redis: &Redis) {
    let store = RedisStore::new(redis.server(), &redis.config());
    let other_instance = RedisStore::new(redis.server(), &redis.config());
    let value = bytes::Bytes::from_static(b"a ticket \x00\xff");
    store.put("digest", value.clone(), Duration::from_secs(60)).await.unwrap();
    assert_eq!(other_instance.take("digest").await, Ok(Some(value.clone())));
    assert_eq!(store.take("digest").await, Ok(None));
    store.put("digest", value, Duration::from_secs(30)).await.unwrap();
    let redis::Value::Int(left) = redis.command(&["PTTL", "{freshet}:once:digest"]).await else { panic!() };
    assert!((1..=30_000).contains(&left), "{left} ms");
    let large = bytes::Bytes::from(vec![0; 64 * 1024 + 1]);
    let failure = store.put("digest", large, Duration::from_secs(1)).await.unwrap_err();
    assert_eq!(failure.class, "value_too_large");
}

async fn a_full_memory_is_told(redis: &Redis) {
    let log = redis.log_named("full");
    log.append(vec![event("a")]).await.unwrap();
    redis.command(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let error = log.append(vec![event("b")]).await.unwrap_err();
    assert_eq!(error.code(), "store_unavailable");
    assert!(error.to_string().contains("redis_out_of_memory"), "{error}");
    assert_eq!(ids(&log.read_after(0, ALL).await.unwrap()), ["a"]);
    redis.command(&["CONFIG", "SET", "maxmemory", "0"]).await;
    assert_eq!(log.append(vec![event("b")]).await, Ok(vec![accepted(&log, 2).await]));
}
