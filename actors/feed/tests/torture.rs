//! Hostile and damaged inputs: no panic, no copy, no digit lost.

use bytes::Bytes;
use freshet_feed::cloud_events::{Binding, decode_structured};
use freshet_feed::decode::decode_event;
use freshet_feed::ingest::decode_request;
use freshet_feed::{Intake, Limits, RejectionCode};
use proptest::prelude::*;

const EVENT: &str = r#"{"eventId":"caf\u00e9-🌊","eventTimestamp":"2023-10-27T10:25:40.123+02:00","sourceApplication":"spark","tableIdentifier":"prod.sales.orders","eventType":"COMMIT_SUCCESS","payload":{"operation":"append","snapshotId":8734628364872364872,"summary":{"added-data-files":"128","added-records":"15782093"},"schemaChanged":false,"x":[1.10,-0e1,null,{"y":"\\\""}]}}"#;

const CONTENT_TYPES: [&str; 4] = [
    "application/json",
    "application/x-ndjson",
    "application/cloudevents+json",
    "application/cloudevents-batch+json",
];

fn event_with_id(raw: &str) -> Bytes {
    format!(
        r#"{{"eventId":"e","eventTimestamp":"2023-10-27T10:25:40Z","tableIdentifier":"t","eventType":"X","payload":{{"snapshotId":{raw}}}}}"#
    )
    .into()
}

#[test]
fn each_truncation_is_rejected() {
    decode_event(&Bytes::from_static(EVENT.as_bytes()), &Limits::default()).expect("the whole is an event");
    for end in 0..EVENT.len() {
        let cut = Bytes::from_static(&EVENT.as_bytes()[..end]);
        let rejection = decode_event(&cut, &Limits::default()).expect_err("a part is no event");
        let expected =
            if std::str::from_utf8(&cut).is_ok() { RejectionCode::NotJson } else { RejectionCode::NotUtf8 };
        assert_eq!(rejection.code, expected, "cut at byte {end}");
    }
}

#[test]
fn any_byte_replaced_by_any_other_gives_an_answer() {
    let mut accepted = 0;
    for index in 0..EVENT.len() {
        for byte in 0..=u8::MAX {
            let mut damaged = EVENT.as_bytes().to_vec();
            damaged[index] = byte;
            accepted += usize::from(decode_event(&damaged.into(), &Limits::default()).is_ok());
        }
    }
    // A letter inside a text may well become another letter: both outcomes were reached.
    assert!(accepted > EVENT.len() && accepted < EVENT.len() * 256, "{accepted}");
}

#[test]
fn ten_megabytes_of_brackets_are_refused_on_a_small_stack() {
    let limits = Limits { max_event_bytes: usize::MAX, max_request_bytes: usize::MAX, ..Limits::default() };
    let no_depth = Limits { max_event_depth: usize::MAX, ..limits.clone() };
    let open = Bytes::from("[".repeat(10_000_000));
    let closed = Bytes::from(format!(r#"{{"x":{}{}}}"#, "[".repeat(5_000_000), "]".repeat(5_000_000)));
    for input in [&open, &closed] {
        let rejection = decode_event(input, &limits).expect_err("too deep");
        assert_eq!(rejection.code, RejectionCode::TooDeep);
    }
    // The stack does not depend on the limit: a test's thread has 2 MiB.
    assert_eq!(decode_event(&open, &no_depth).expect_err("cut off").code, RejectionCode::NotJson);
    assert_eq!(decode_event(&closed, &no_depth).expect_err("no fields").code, RejectionCode::MissingField);
    assert_eq!(
        decode_structured(&open, &Intake::iceberg(limits.clone())).expect_err("cut off").code,
        RejectionCode::InvalidEnvelope
    );
    for content_type in CONTENT_TYPES {
        for input in [&open, &closed] {
            let answer = decode_request(Some(content_type), [], input, &Intake::iceberg(limits.clone()));
            assert!(answer.is_err() || answer.is_ok_and(|items| items[0].is_err()), "{content_type}");
        }
    }
}

#[test]
fn the_body_is_the_memory_that_came() {
    let request = Bytes::from(format!("[ {EVENT} , {EVENT} ]"));
    let items = decode_request(Some("application/json"), [], &request, &Intake::iceberg(Limits::default()))
        .expect("an array");
    for item in items {
        let body = item.expect("an event").body;
        assert_eq!(body, EVENT);
        assert!(request.as_ptr_range().contains(&body.as_ptr()), "copied");
    }
}

#[test]
fn a_rejection_tells_nothing_of_the_contents() {
    for secret_input in [
        r#"{"eventId":"hunter2"}"#,
        r#"{"hunter2":1,"hunter2":2}"#,
        r#"{"eventId": hunter2}"#,
        r#"{"eventId":{"hunter2":1}}"#,
        r#"{"eventId":"e","eventTimestamp":"hunter2"}"#,
    ] {
        let rejection = decode_event(&secret_input.into(), &Limits::default()).expect_err("no event");
        assert!(!format!("{rejection} {rejection:?}").contains("hunter2"), "{rejection:?}");
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_give_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
        let bytes = Bytes::from(bytes);
        let _ = decode_event(&bytes, &Limits::default());
        for content_type in CONTENT_TYPES {
            let _ = decode_request(Some(content_type), [("ce-specversion", "1.0")], &bytes, &Intake::iceberg(Limits::default()));
            let _ = decode_request(Some(content_type), [], &bytes, &Intake::iceberg(Limits::default()));
        }
    }

    #[test]
    fn almost_json_gives_an_answer(text in r#"[\[\]{}",:\\0-9eu.\-\n tn]{0,200}"#) {
        let bytes = Bytes::from(text);
        for content_type in CONTENT_TYPES {
            let _ = decode_request(Some(content_type), [], &bytes, &Intake::iceberg(Limits::default()));
        }
    }

    #[test]
    fn arbitrary_headers_give_an_answer(name in "ce-(id|source|type|time|subject|specversion)", value in ".{0,40}") {
        let headers = [("ce-specversion", "1.0"), (&*name, &*value)];
        let _ = freshet_feed::cloud_events::decode_binary(Binding::HTTP, headers, None, &"{}".into(), &Intake::iceberg(Limits::default()));
    }

    #[test]
    fn each_snapshot_id_survives_as_number_and_as_text(id in any::<i64>()) {
        for raw in [id.to_string(), format!("\"{id}\"")] {
            let bytes = event_with_id(&raw);
            let event = decode_event(&bytes, &Limits::default()).expect("an event");
            prop_assert_eq!(event.commit.expect("a commit").snapshot_id, Some(id));
            prop_assert_eq!(event.body, bytes);
        }
    }

    #[test]
    fn no_float_is_an_id(id in any::<f64>().prop_filter("JSON has no others", |id| id.is_finite())) {
        // Rust's debug form keeps the point or the exponent of a float.
        for raw in [format!("{id:?}"), format!("\"{id:?}\""), format!("{id:e}")] {
            let rejection = decode_event(&event_with_id(&raw), &Limits::default()).expect_err("a float");
            prop_assert_eq!(rejection.code, RejectionCode::InexactId);
        }
    }

    #[test]
    fn filling_leaves_the_data_as_it_was(spaces in "[ \n\t]{0,3}", extra in any::<i64>()) {
        let data = format!("{{{spaces}\"x\"{spaces}:{spaces}[{extra},1.10]{spaces}}}");
        let envelope = format!(r#"{{"specversion":"1.0","id":"e","source":"s","type":"X","subject":"t","time":"2023-10-27T10:25:40Z","data":{data}}}"#);
        let event = decode_structured(&envelope.into(), &Intake::iceberg(Limits::default())).expect("an event");
        let body = std::str::from_utf8(&event.body).expect("utf-8");
        prop_assert!(body.ends_with(&data[1..]), "{}", body);
    }
}
