use freshet_feed::Epoch;
use freshet_feed::filter::Glob;
use proptest::prelude::*;

use super::*;

fn message_of(text: &str) -> ClientMessage {
    let request = read(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(request.id, None);
    request.message
}

fn subscribe(text: &str) -> Subscribe {
    match message_of(text) {
        ClientMessage::Subscribe(subscribe) => *subscribe,
        other => panic!("{text} is {other:?}"),
    }
}

fn code(text: &str) -> &'static str {
    read(text.as_bytes()).expect_err(text).problem.code()
}

#[test]
fn a_subscription_starts_now_and_wants_everything_unless_it_says_more() {
    assert_eq!(
        subscribe(r#"{"type":"subscribe","channel":"products:eu"}"#),
        Subscribe {
            channel: ChannelName::new("products:eu").unwrap(),
            from: Start::Now,
            rooms: vec![],
            filter: EventFilter::default(),
            window: None,
            max_rate_per_sec: None,
        }
    );
}

#[test]
fn a_subscription_says_all_that_it_may() {
    let text = r#" {"window":65536,"maxRate":1000,"room":["b","a"],"from":{"position":"00c0ffee00c0ffee-18446744073709551615"},
        "filter":{"table":["prod.*","a,b"],"operation":["append"],"application":["x"],"schemaChanged":true},
        "channel":"iceberg","type":"subscribe"} "#;
    let position = Position { epoch: Epoch(0x00c0_ffee_00c0_ffee), offset: u64::MAX };
    assert_eq!(
        subscribe(text),
        Subscribe {
            channel: ChannelName::iceberg(),
            from: Start::Position(position),
            rooms: vec!["b".to_owned(), "a".to_owned()],
            filter: EventFilter {
                tables: ["a", "b", "prod.*"].map(Glob::new).to_vec(),
                operations: vec!["append".to_owned()],
                applications: vec!["x".to_owned()],
                schema_changed: Some(true),
            },
            window: Some(65_536),
            max_rate_per_sec: Some(1000),
        }
    );
}

#[test]
fn a_subscription_starts_where_it_says() {
    for (from, expected) in [
        (r#""now""#, Start::Now),
        (r#""snapshot""#, Start::Snapshot),
        (r#"{"position":"0000000000000001-0"}"#, Start::Position(Position { epoch: Epoch(1), offset: 0 })),
        (r#"{"eventId":"e\u002d1"}"#, Start::EventId("e-1".to_owned())),
    ] {
        let text = format!(r#"{{"type":"subscribe","channel":"iceberg","from":{from}}}"#);
        assert_eq!(subscribe(&text).from, expected);
    }
}

#[test]
fn the_other_messages_are_read() {
    let channel = ChannelName::iceberg();
    let position = Position { epoch: Epoch(1), offset: 7 };
    for (text, expected) in [
        (r#"{"type":"ping"}"#, ClientMessage::Ping),
        (
            r#"{"type":"unsubscribe","channel":"iceberg"}"#,
            ClientMessage::Unsubscribe { channel: channel.clone() },
        ),
        (
            r#"{"type":"ack","channel":"iceberg","position":"0000000000000001-7"}"#,
            ClientMessage::Ack { channel, position },
        ),
        (
            r#"{"type":"renew","token":"a.b.c"}"#,
            ClientMessage::Renew(Credential::Token(Secret::new("a.b.c"))),
        ),
        (r#"{"type":"renew","ticket":"t"}"#, ClientMessage::Renew(Credential::Ticket(Secret::new("t")))),
    ] {
        assert_eq!(message_of(text), expected);
    }
}

#[test]
fn an_id_comes_back_with_the_request() {
    let longest = "é".repeat(32);
    for id in ["", "1", &longest] {
        let request = read(format!(r#"{{"type":"ping","id":"{id}"}}"#).as_bytes()).unwrap();
        assert_eq!(request.id.as_deref(), Some(id));
    }
}

#[test]
fn each_wrong_message_has_its_code() {
    let subscribe = |rest: &str| format!(r#"{{"type":"subscribe","channel":"iceberg",{rest}}}"#);
    let list = |count: usize| vec!["\"x\""; count].join(",");
    let long_value = "x".repeat(1025);
    let long_secret = "x".repeat(MAX_CREDENTIAL_BYTES + 1);
    let cases = [
        ("".to_owned(), "invalid_json"),
        ("subscribe".to_owned(), "invalid_json"),
        (r#"{"type":"ping"}{"type":"ping"}"#.to_owned(), "invalid_json"),
        (r#"{"type":"ping",}"#.to_owned(), "invalid_json"),
        (r#"{"type":'ping'}"#.to_owned(), "invalid_json"),
        ("\u{feff}{\"type\":\"ping\"}".to_owned(), "invalid_json"),
        (r#"[{"type":"ping"}]"#.to_owned(), "not_an_object"),
        ("null".to_owned(), "not_an_object"),
        ("\"ping\"".to_owned(), "not_an_object"),
        (r#"{"type":"ping","type":"ping"}"#.to_owned(), "duplicate_field"),
        (r#"{"type":"ping","\u0074ype":"renew"}"#.to_owned(), "duplicate_field"),
        (subscribe(r#""from":{"eventId":"a","eventId":"b"}"#), "duplicate_field"),
        (subscribe(r#""filter":{"table":["a"],"table":["b"]}"#), "duplicate_field"),
        ("{}".to_owned(), "missing_field"),
        (r#"{"type":"subscribe"}"#.to_owned(), "missing_field"),
        (r#"{"type":"unsubscribe"}"#.to_owned(), "missing_field"),
        (r#"{"type":"ack","channel":"iceberg"}"#.to_owned(), "missing_field"),
        (r#"{"type":"renew"}"#.to_owned(), "missing_field"),
        (r#"{"type":"publish","channel":"iceberg"}"#.to_owned(), "unknown_type"),
        (r#"{"type":"Ping"}"#.to_owned(), "unknown_type"),
        (r#"{"type":1}"#.to_owned(), "invalid_field"),
        (r#"{"type":null}"#.to_owned(), "invalid_field"),
        (r#"{"type":"ping","channel":"iceberg"}"#.to_owned(), "unknown_field"),
        (subscribe(r#""form":"now""#), "unknown_field"),
        (subscribe(r#""from":{"offset":1}"#), "unknown_field"),
        (subscribe(r#""filter":{"tables":["a"]}"#), "unknown_field"),
        (r#"{"type":"subscribe","channel":7}"#.to_owned(), "invalid_field"),
        (r#"{"type":"subscribe","channel":"a b"}"#.to_owned(), "unknown_channel"),
        (format!(r#"{{"type":"subscribe","channel":"{}"}}"#, "x".repeat(65)), "unknown_channel"),
        (format!(r#"{{"type":"ping","id":"{}"}}"#, "x".repeat(65)), "invalid_field"),
        (r#"{"type":"ping","id":5}"#.to_owned(), "invalid_field"),
        (r#"{"type":"ping","id":null}"#.to_owned(), "invalid_field"),
        (subscribe(r#""from":"then""#), "invalid_field"),
        (subscribe(r#""from":5"#), "invalid_field"),
        (subscribe(r#""from":null"#), "invalid_field"),
        (subscribe(r#""from":[]"#), "invalid_field"),
        (subscribe(r#""from":{}"#), "invalid_field"),
        (subscribe(r#""from":{"eventId":5}"#), "invalid_field"),
        (subscribe(r#""from":{"eventId":""}"#), "invalid_field"),
        (subscribe(&format!(r#""from":{{"eventId":"{long_value}"}}"#)), "invalid_field"),
        (subscribe(r#""from":{"eventId":"e","position":"0000000000000001-7"}"#), "invalid_field"),
        (subscribe(r#""from":{"position":7}"#), "invalid_field"),
        (subscribe(r#""from":{"position":"7"}"#), "invalid_position"),
        (r#"{"type":"ack","channel":"iceberg","position":"1-7"}"#.to_owned(), "invalid_position"),
        (r#"{"type":"ack","channel":"iceberg","position":7}"#.to_owned(), "invalid_field"),
        (subscribe(r#""room":"a""#), "invalid_field"),
        (subscribe(r#""room":[]"#), "invalid_field"),
        (subscribe(r#""room":[7]"#), "invalid_field"),
        (subscribe(&format!(r#""room":[{}]"#, list(65))), "invalid_field"),
        (subscribe(r#""filter":[]"#), "invalid_field"),
        (subscribe(r#""filter":{"table":"prod.*"}"#), "invalid_field"),
        (subscribe(r#""filter":{"table":[]}"#), "invalid_field"),
        (subscribe(r#""filter":{"table":["a"," , "]}"#), "invalid_field"),
        (subscribe(r#""filter":{"schemaChanged":"true"}"#), "invalid_field"),
        (subscribe(&format!(r#""filter":{{"table":[{}]}}"#, list(33))), "invalid_filter"),
        (subscribe(&format!(r#""filter":{{"operation":["{long_value}"]}}"#)), "invalid_filter"),
        (r#"{"type":"renew","token":""}"#.to_owned(), "invalid_field"),
        (r#"{"type":"renew","token":"a","ticket":"b"}"#.to_owned(), "invalid_field"),
        (format!(r#"{{"type":"renew","token":"{long_secret}"}}"#), "invalid_field"),
    ];
    for (text, expected) in cases {
        assert_eq!(code(&text), expected, "{text}");
    }
    let most = subscribe(&format!(r#""room":[{}],"filter":{{"table":[{}]}}"#, list(64), list(32)));
    assert!(read(most.as_bytes()).is_ok());
}

#[test]
fn numbers_are_exact_and_in_range() {
    for (number, valid) in [
        ("1", true),
        ("1000", true),
        ("0", false),
        ("-1", false),
        ("1.0", false),
        ("1e2", false),
        ("\"5\"", false),
        ("null", false),
        ("65537", false),
        ("4294967297", false),
        ("18446744073709551617", false),
    ] {
        for field in ["window", "maxRate"] {
            let text = format!(r#"{{"type":"subscribe","channel":"iceberg","{field}":{number}}}"#);
            assert_eq!(read(text.as_bytes()).is_ok(), valid, "{text}");
        }
    }
    assert_eq!(code(r#"{"type":"subscribe","channel":"iceberg","maxRate":1001}"#), "invalid_field");
}

#[test]
fn a_refusal_keeps_the_id_and_the_channel_where_they_can_be_read() {
    let iceberg = Some(ChannelName::iceberg());
    let id = Some("7".to_owned());
    for (text, expected_id, expected_channel) in [
        (r#"{"type":"subscribe","channel":"iceberg","id":"7","from":5}"#, id.clone(), iceberg.clone()),
        (r#"{"type":"publish","channel":"iceberg","id":"7"}"#, id.clone(), iceberg.clone()),
        (r#"{"id":"7","type":"subscribe","channel":"a b"}"#, id.clone(), None),
        (r#"{"id":7,"type":"subscribe","channel":"iceberg"}"#, None, iceberg),
        (r#"{"id":"7"}"#, id, None),
        (r#"{"id":"7","#, None, None),
    ] {
        let error = read(text.as_bytes()).unwrap_err();
        assert_eq!((error.id, error.channel), (expected_id, expected_channel), "{text}");
    }
}

#[test]
fn hostile_messages_end_soon() {
    let deep = "[".repeat(30_000);
    for text in [
        deep.clone(),
        format!(r#"{{"type":"subscribe","channel":"iceberg","room":{deep}}}"#),
        format!(r#"{{"type":"subscribe","channel":"iceberg","from":{}{}}}"#, deep, "]".repeat(30_000)),
        format!(r#"{{"a":{}1{}}}"#, r#"{"a":"#.repeat(10_000), "}".repeat(10_000)),
    ] {
        assert!(read(text.as_bytes()).is_err());
    }
    let many: String = (0..6_000).map(|number| format!(r#","m{number}":0"#)).collect();
    assert_eq!(code(&format!(r#"{{"type":"ping"{many}}}"#)), "unknown_field");
    let broken_after_many = format!(r#"{{"type":"ping"{many}"#);
    assert_eq!(code(&broken_after_many), "invalid_json");
}

#[test]
fn a_credential_is_never_printed() {
    let request = read(br#"{"type":"renew","token":"hunter2"}"#).unwrap();
    assert!(!format!("{request:?}").contains("hunter2"));
    let error = read(br#"{"type":"renew","token":"hunter2","ticket":"hunter2"}"#).unwrap_err();
    assert!(!format!("{error:?} {error}").contains("hunter2"));
}

proptest! {
    #[test]
    fn no_bytes_break_the_reader(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = read(&bytes);
    }

    #[test]
    fn whatever_the_values_a_message_is_read_or_refused_with_a_code(
        name in prop::sample::select(vec!["type", "id", "channel", "from", "room", "filter", "window", "maxRate"]),
        value in "[\\[\\]{}\",:0-9a-z.\\-]{0,20}",
    ) {
        let text = format!(r#"{{"type":"subscribe","channel":"iceberg","{name}":{value}}}"#);
        if let Err(error) = read(text.as_bytes()) {
            prop_assert!(!error.problem.code().is_empty());
        } else {
            prop_assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok());
        }
    }
}
