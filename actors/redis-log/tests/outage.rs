//! A follower and its Redis that goes away, comes back, and forgets.

#![allow(clippy::unwrap_used, clippy::panic, reason = "the support of tests fails as tests do")]

mod support;

use std::path::Path;
use std::process::Command;

use freshet_feed::port::{EventLog, Outcome};
use freshet_feed::{Event, Position};
use freshet_kernel::task;
use freshet_redis_log::{Config, RedisEventLog, Server};
use support::{ALL, Redis, Said, append_until_taken, event, follow, ids, until_health};

fn numbered(from: u64, to: u64) -> Vec<Event> {
    (from..=to).map(|number| event(&number.to_string())).collect()
}

fn said(from: u64, to: u64) -> Vec<(u64, String)> {
    (from..=to).map(|number| (number, number.to_string())).collect()
}

fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-rT").arg(from).arg(to).status().unwrap().success());
}

#[test]
fn a_restart_of_redis_in_the_middle_loses_nothing_and_repeats_nothing() {
    actix_rt::System::new().block_on(async {
        const EVENTS: u64 = 600;
        let redis = Redis::start("single", 16430);
        let (tree, listener) = follow(redis.log(), &redis.config()).await;
        let log = redis.log();
        let appender = task::spawn("appender", async move {
            let mut accepted = 0;
            for number in 1..=EVENTS {
                let outcomes = append_until_taken(&log, numbered(number, number)).await;
                accepted += outcomes.iter().filter(|outcome| **outcome != Outcome::Duplicate).count() as u64;
            }
            accepted
        });
        listener.until(|listener| listener.events().len() as u64 >= EVENTS / 6).await;
        redis.does("crash").await;
        // Appends fail meanwhile, and the follower says so without a restart.
        until_health(&tree, Some("redis_unreachable")).await;
        redis.does("start").await;
        listener.until(|listener| listener.events().len() as u64 >= EVENTS / 2).await;
        redis.does("restart").await;
        // What was taken although the answer was lost is recognised when it is repeated.
        let accepted = appender.await.unwrap();
        assert!(accepted >= EVENTS - 2, "{accepted} of {EVENTS} were accepted");
        listener.until(|listener| listener.events().len() as u64 >= EVENTS).await;
        assert_eq!(listener.events(), said(1, EVENTS));
        assert_eq!(listener.positions().len(), 1);
        assert_eq!(redis.log().read_after(0, ALL).await.unwrap().len() as u64, EVENTS);
        until_health(&tree, None).await;
        tree.shutdown().await;
    });
}

#[test]
fn a_redis_that_hangs_is_an_outage_until_it_goes_on() {
    actix_rt::System::new().block_on(async {
        let redis = Redis::start("single", 16490);
        let config = Config { connect_timeout_millis: 200, call_timeout_millis: 200, ..redis.config() };
        let log = RedisEventLog::new(Server::new(&config).unwrap(), &config);
        let (tree, listener) = follow(log.clone(), &config).await;
        log.append(numbered(1, 1)).await.unwrap();
        redis.signal_first("STOP");
        let error = log.append(numbered(2, 2)).await.unwrap_err().to_string();
        assert!(error.contains("redis_timeout: no answer within 200 ms"), "{error}");
        until_health(&tree, Some("redis_timeout")).await;
        redis.signal_first("CONT");
        // Whether the append that was given up was made after all or not, the event is there once.
        append_until_taken(&log, numbered(2, 3)).await;
        listener.until(|listener| listener.events().len() == 3).await;
        assert_eq!(listener.events(), said(1, 3));
        until_health(&tree, None).await;
        tree.shutdown().await;
    });
}

#[test]
fn followers_announce_the_same_from_where_each_began() {
    actix_rt::System::new().block_on(async {
        let redis = Redis::start("single", 16440);
        let (first_tree, first) = follow(redis.log(), &redis.config()).await;
        redis.log().append(numbered(1, 300)).await.unwrap();
        first.until(|listener| listener.events().len() == 300).await;
        let (second_tree, second) = follow(redis.log(), &redis.config()).await;
        redis.log().append(numbered(301, 900)).await.unwrap();
        for listener in [&first, &second] {
            listener
                .until(|listener| listener.events().last().is_some_and(|(offset, _)| *offset == 900))
                .await;
        }
        let epoch = redis.log().bounds().await.unwrap().epoch;
        assert_eq!(second.said()[0], Said::StandsAt(Position { epoch, offset: 300 }));
        assert_eq!(first.events(), said(1, 900));
        assert_eq!(second.events(), said(301, 900));
        first_tree.shutdown().await;
        second_tree.shutdown().await;
    });
}

#[test]
fn a_log_that_was_wiped_has_another_epoch_for_all() {
    actix_rt::System::new().block_on(async {
        let redis = Redis::start("single", 16450);
        let (tree, listener) = follow(redis.log(), &redis.config()).await;
        redis.log().append(numbered(1, 20)).await.unwrap();
        listener.until(|listener| listener.events().len() == 20).await;
        // The server goes on: no connection tells of it.
        redis.command(&["FLUSHALL"]).await;
        redis.log().append(numbered(1, 30)).await.unwrap();
        listener.until(|listener| listener.events().len() == 50).await;
        let positions = listener.positions();
        let epoch = redis.log().bounds().await.unwrap().epoch;
        assert_eq!(positions.len(), 2);
        assert_ne!(positions[0].epoch, epoch);
        assert_eq!(positions[1], Position { epoch, offset: 0 });
        assert_eq!(listener.events(), [said(1, 20), said(1, 30)].concat());

        // The data is gone with its disk.
        redis.does("wipe").await;
        redis.does("start").await;
        listener.until(|listener| listener.positions().len() == 3).await;
        redis.log().append(numbered(1, 5)).await.unwrap();
        listener.until(|listener| listener.events().len() == 55).await;
        let bounds = redis.log().bounds().await.unwrap();
        assert_eq!(listener.positions()[2], Position { epoch: bounds.epoch, offset: 0 });
        assert_ne!(bounds.epoch, epoch);
        tree.shutdown().await;
    });
}

#[test]
fn a_log_whose_stream_alone_is_gone_goes_on_in_another_epoch() {
    actix_rt::System::new().block_on(async {
        let redis = Redis::start("single", 16460);
        let log = redis.log();
        log.append(numbered(1, 3)).await.unwrap();
        let epoch = log.bounds().await.unwrap().epoch;
        redis.command(&["DEL", "{freshet}:log"]).await;
        let bounds = log.bounds().await.unwrap();
        assert_eq!((bounds.first, bounds.last), (4, 3));
        assert_ne!(bounds.epoch, epoch);
        assert_eq!(log.bounds().await, Ok(bounds));
        log.append(numbered(4, 5)).await.unwrap();
        redis.command(&["DEL", "{freshet}:head"]).await;
        let again = log.bounds().await.unwrap();
        assert_eq!((again.first, again.last), (4, 5));
        assert_ne!(again.epoch, bounds.epoch);
        log.append(numbered(6, 6)).await.unwrap();
        assert_eq!(ids(&log.read_after(0, ALL).await.unwrap()), ["4", "5", "6"]);
    });
}

#[test]
fn a_lost_tail_is_noticed_and_offsets_are_not_given_twice_in_one_epoch() {
    actix_rt::System::new().block_on(async {
        let redis = Redis::start("single", 16470);
        let (tree, listener) = follow(redis.log(), &redis.config()).await;
        let (other_tree, other) = follow(redis.log(), &redis.config()).await;
        redis.log().append(numbered(1, 10)).await.unwrap();
        let epoch = redis.log().bounds().await.unwrap().epoch;
        let kept = tempfile::tempdir().unwrap();
        copy(&redis.data(), kept.path());
        redis.log().append(numbered(11, 20)).await.unwrap();
        listener.until(|listener| listener.events().len() == 20).await;
        other.until(|listener| listener.events().len() == 20).await;

        // A disk that forgets its last writes. The follower is behind nobody: the offset is lower than it knows.
        redis.does("crash").await;
        std::fs::remove_dir_all(redis.data()).unwrap();
        copy(kept.path(), &redis.data());
        redis.does("start").await;
        listener.until(|listener| listener.positions().len() == 2).await;
        let second = listener.positions()[1];
        assert_eq!(second.offset, 10);
        assert_ne!(second.epoch, epoch);

        // The same events come again, and get their positions in the new epoch.
        redis.log().append(numbered(11, 20)).await.unwrap();
        listener.until(|listener| listener.events().len() == 30).await;
        assert_eq!(listener.events(), [said(1, 20), said(11, 20)].concat());
        assert_eq!(redis.log().bounds().await.unwrap().epoch, second.epoch);
        // Both noticed, and one epoch came of it.
        other.until(|listener| listener.events().len() == 30).await;
        assert_eq!(other.said(), listener.said());
        tree.shutdown().await;
        other_tree.shutdown().await;
    });
}

#[test]
fn a_lost_tail_is_noticed_when_the_same_events_have_taken_its_place() {
    actix_rt::System::new().block_on(async {
        let redis = Redis::start("single", 16480);
        redis.log().append(numbered(1, 10)).await.unwrap();
        let kept = tempfile::tempdir().unwrap();
        copy(&redis.data(), kept.path());
        let (tree, listener) = follow(redis.log(), &redis.config()).await;
        redis.log().append(numbered(11, 20)).await.unwrap();
        listener.until(|listener| listener.events().len() == 10).await;
        let epoch = listener.positions()[0].epoch;

        // Another instance appends the same again, before the follower is back: it cannot reach Redis meanwhile.
        let log = redis.log();
        redis.does("crash").await;
        std::fs::remove_dir_all(redis.data()).unwrap();
        copy(kept.path(), &redis.data());
        let appender =
            task::spawn("appender", async move { append_until_taken(&log, numbered(11, 21)).await });
        redis.does("start").await;
        assert_eq!(appender.await.unwrap().len(), 11);
        listener.until(|listener| listener.positions().len() == 2).await;
        let second = listener.positions()[1];
        assert_ne!(second.epoch, epoch);
        assert_eq!(second.offset, 10);
        // Whoever came first: what was appended before the loss was noticed is announced too, in the new epoch.
        redis.log().append(numbered(22, 22)).await.unwrap();
        listener.until(|listener| listener.events().last().is_some_and(|(offset, _)| *offset == 22)).await;
        let after: Vec<_> =
            listener.said().into_iter().skip_while(|said| *said != Said::StandsAt(second)).skip(1).collect();
        let position = |offset| Position { epoch: second.epoch, offset };
        let expected: Vec<_> =
            (11..=22).map(|number| Said::Event(position(number), number.to_string())).collect();
        assert_eq!(after, expected);
        tree.shutdown().await;
    });
}
