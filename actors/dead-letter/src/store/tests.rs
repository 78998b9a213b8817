use std::path::PathBuf;

use tempfile::TempDir;

use super::*;
use crate::migration::FORMAT;

const DAY_MILLIS: i64 = 24 * 60 * 60 * 1000;

fn letter(code: &str, body: &[u8]) -> DeadLetter {
    DeadLetter {
        source: "iceberg".to_owned(),
        source_position: "ID:broker-1".to_owned(),
        code: code.to_owned(),
        reason: "not one JSON value: line 1, column 1".to_owned(),
        headers: vec![
            ("destination".to_owned(), "/topic/T".to_owned()),
            ("x".to_owned(), "\0\n\"é".to_owned()),
        ],
        body: Bytes::copy_from_slice(body),
    }
}

fn file() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("dead-letters.db");
    (directory, path)
}

fn bodies(store: &Store) -> Vec<Vec<u8>> {
    let headings = store.list(None, MAX_LISTED).unwrap();
    headings.iter().map(|heading| store.get(heading.id).unwrap().unwrap().body.to_vec()).collect()
}

#[test]
fn a_letter_comes_back_byte_for_byte_after_the_file_was_closed() {
    let (_directory, path) = file();
    let body: Vec<u8> = (0..=u8::MAX).collect();
    Store::open(&path, Config::default()).unwrap().bury(&[letter("event_not_json", &body)], 42).unwrap();

    let store = Store::open(&path, Config::default()).unwrap();
    let headings = store.list(None, 10).unwrap();
    assert_eq!(
        headings,
        [Heading {
            id: 1,
            buried_at_millis: 42,
            source: "iceberg".to_owned(),
            source_position: "ID:broker-1".to_owned(),
            code: "event_not_json".to_owned(),
            reason: "not one JSON value: line 1, column 1".to_owned(),
            body_bytes: 256,
            body_truncated: false,
            headers_truncated: false,
        }]
    );
    let whole = store.get(1).unwrap().unwrap();
    assert_eq!(whole.heading, headings[0]);
    assert_eq!(whole.headers, letter("", b"").headers);
    assert_eq!(whole.body, body);
    assert_eq!(store.get(2).unwrap(), None);
}

#[test]
fn letters_are_in_the_file_before_the_answer() {
    let (_directory, path) = file();
    let mut store = Store::open(&path, Config::default()).unwrap();
    store.bury(&[letter("a", b"1"), letter("a", b"2")], 1).unwrap();
    // What a killed process leaves behind: the file and its log, never closed.
    let (_other_directory, left_behind) = file();
    std::fs::copy(&path, &left_behind).unwrap();
    std::fs::copy(path.with_extension("db-wal"), left_behind.with_extension("db-wal")).unwrap();
    assert_eq!(bodies(&Store::open(&left_behind, Config::default()).unwrap()), [b"1", b"2"]);
}

#[test]
fn pages_follow_each_other_and_codes_are_counted() {
    let (_directory, path) = file();
    let mut store = Store::open(&path, Config::default()).unwrap();
    let letters: Vec<_> = ["a", "b", "c", "b", "b", "a"].iter().map(|code| letter(code, b"x")).collect();
    store.bury(&letters, 1).unwrap();
    let ids =
        |after, limit| store.list(after, limit).unwrap().iter().map(|heading| heading.id).collect::<Vec<_>>();
    assert_eq!(ids(None, 4), [1, 2, 3, 4]);
    assert_eq!(ids(Some(4), 4), [5, 6]);
    assert_eq!(ids(Some(6), 4), [0_i64; 0]);
    let counts: Vec<_> =
        store.count_by_code().unwrap().into_iter().map(|count| (count.code, count.letters)).collect();
    assert_eq!(counts, [("b".to_owned(), 3), ("a".to_owned(), 2), ("c".to_owned(), 1)]);
}

#[test]
fn a_listing_has_an_end_whatever_is_asked() {
    let (_directory, path) = file();
    let mut store = Store::open(&path, Config::default()).unwrap();
    store.bury(&vec![letter("a", b""); MAX_LISTED + 1], 1).unwrap();
    assert_eq!(store.list(None, usize::MAX).unwrap().len(), MAX_LISTED);
}

#[test]
fn the_oldest_make_room_by_count() {
    let (_directory, path) = file();
    let mut store = Store::open(&path, Config { max_letters: 3, ..Config::default() }).unwrap();
    assert_eq!(store.bury(&[letter("a", b"1"), letter("a", b"2")], 1).unwrap(), 0);
    assert_eq!(store.bury(&[letter("a", b"3"), letter("a", b"4")], 2).unwrap(), 1);
    assert_eq!(bodies(&store), [b"2", b"3", b"4"]);
    assert_eq!(store.totals().letters, 3);
}

#[test]
fn the_oldest_make_room_by_bytes_and_the_sum_is_true_after_a_restart() {
    let (_directory, path) = file();
    let body = vec![7; 20_000];
    let config = Config { max_total_bytes: 65_536, ..Config::default() };
    let mut store = Store::open(&path, config.clone()).unwrap();
    let mut removed = 0;
    for now_millis in 0..10 {
        removed += store.bury(&[letter("a", &body)], now_millis).unwrap();
        assert!(store.totals().bytes <= 65_536);
    }
    assert_eq!((removed, store.totals().letters), (7, 3));
    let totals = store.totals();
    drop(store);
    assert_eq!(Store::open(&path, config).unwrap().totals(), totals);
}

#[test]
fn what_was_just_buried_stays_even_beyond_the_limits() {
    let (_directory, path) = file();
    let mut store = Store::open(&path, Config { max_letters: 2, ..Config::default() }).unwrap();
    store.bury(&[letter("a", b"old")], 1).unwrap();
    assert_eq!(store.bury(&[letter("a", b"1"), letter("a", b"2"), letter("a", b"3")], 2).unwrap(), 1);
    assert_eq!(bodies(&store), [b"1", b"2", b"3"]);
}

#[test]
fn letters_go_when_they_are_too_old() {
    let (_directory, path) = file();
    let mut store = Store::open(&path, Config { max_age_days: 2, ..Config::default() }).unwrap();
    store.bury(&[letter("a", b"1")], 0).unwrap();
    store.bury(&[letter("a", b"2")], DAY_MILLIS).unwrap();
    assert_eq!(store.remove_old(2 * DAY_MILLIS).unwrap(), 0);
    assert_eq!(store.remove_old(2 * DAY_MILLIS + 1).unwrap(), 1);
    assert_eq!(bodies(&store), [b"2"]);
    assert_eq!(store.totals().letters, 1);
    assert_eq!(store.bury(&[letter("a", b"3")], 0).unwrap(), 0);
    let ids: Vec<_> = store.list(None, 10).unwrap().iter().map(|heading| heading.id).collect();
    assert_eq!(ids, [2, 3], "an id is never used again");
}

#[test]
fn of_a_body_that_is_too_long_the_beginning_and_the_length_are_kept() {
    let (_directory, path) = file();
    let mut store = Store::open(&path, Config { max_body_bytes: 1024, ..Config::default() }).unwrap();
    let body: Vec<u8> = (0..2000_u32).map(|byte| byte as u8).collect();
    store.bury(&[letter("a", &body), letter("a", &body[..1024])], 1).unwrap();
    let cut = store.get(1).unwrap().unwrap();
    assert_eq!((cut.heading.body_bytes, cut.heading.body_truncated), (2000, true));
    assert_eq!(cut.body, &body[..1024]);
    assert!(!store.get(2).unwrap().unwrap().heading.body_truncated);
}

#[test]
fn headers_and_texts_have_limits() {
    let (_directory, path) = file();
    let mut store = Store::open(&path, Config { max_headers_bytes: 1024, ..Config::default() }).unwrap();
    let long = DeadLetter {
        reason: "é".repeat(3000),
        headers: vec![
            ("a".to_owned(), "b".to_owned()),
            ("c".to_owned(), "d".repeat(1024)),
            ("e".to_owned(), "f".to_owned()),
        ],
        ..letter("a", b"x")
    };
    store.bury(&[long], 1).unwrap();
    let kept = store.get(1).unwrap().unwrap();
    assert_eq!(kept.headers, [("a".to_owned(), "b".to_owned())]);
    assert!(kept.heading.headers_truncated);
    assert_eq!(kept.heading.reason, "é".repeat(2048));
}

#[test]
fn a_full_disk_takes_all_or_none_and_works_again_when_there_is_room() {
    let (_directory, path) = file();
    let mut store = Store::open(&path, Config::default()).unwrap();
    store.bury(&[letter("a", b"before")], 1).unwrap();
    let totals = store.totals();
    store.squeeze(Some(2));
    let failure = store.bury(&[letter("a", b"small"), letter("a", &[0; 100_000])], 2).unwrap_err();
    assert_eq!(failure.class(), "full");
    assert_eq!(store.probe().unwrap_err().class(), "full");
    assert_eq!(bodies(&store), [b"before"]);
    assert_eq!(store.totals(), totals);
    store.squeeze(None);
    store.probe().unwrap();
    store.bury(&[letter("a", b"after")], 3).unwrap();
    assert_eq!(bodies(&store), [b"before".to_vec(), b"after".to_vec()]);
}

#[test]
fn a_lock_of_another_process_is_an_outage_while_it_lasts() {
    let (_directory, path) = file();
    let mut store = Store::open(&path, Config::default()).unwrap();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert_eq!(store.bury(&[letter("a", b"1")], 1).unwrap_err().class(), "locked");
    other.execute_batch("ROLLBACK").unwrap();
    store.bury(&[letter("a", b"2")], 2).unwrap();
    assert_eq!(bodies(&store), [b"2"]);
}

#[test]
fn a_file_of_a_newer_version_is_left_alone() {
    let (_directory, path) = file();
    drop(Store::open(&path, Config::default()).unwrap());
    let other = Connection::open(&path).unwrap();
    other.pragma_update(None, "user_version", FORMAT + 1).unwrap();
    drop(other);
    let before = std::fs::read(&path).unwrap();
    let failure = Store::open(&path, Config::default()).err().unwrap();
    assert_eq!(failure.class(), "newer_format");
    assert_eq!(
        failure.to_string(),
        "the file has format 2, and this version knows formats up to 1; run the newer version again or move the file away"
    );
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn rubbish_and_a_missing_directory_have_their_class() {
    let (directory, path) = file();
    std::fs::write(&path, "this is a text and no database, and it is longer than a header ".repeat(20))
        .unwrap();
    assert_eq!(Store::open(&path, Config::default()).err().unwrap().class(), "damaged");
    let nowhere = directory.path().join("missing").join("dead-letters.db");
    assert_eq!(Store::open(&nowhere, Config::default()).err().unwrap().class(), "unusable");
}

#[test]
fn commits_reach_the_disk() {
    let (_directory, path) = file();
    let store = Store::open(&path, Config::default()).unwrap();
    let mode: String = store.connection.pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
    let synchronous: i64 =
        store.connection.pragma_query_value(None, "synchronous", |row| row.get(0)).unwrap();
    // 2 is FULL in SQLite's documentation of the pragma.
    assert_eq!((&*mode, synchronous), ("wal", 2));
}
