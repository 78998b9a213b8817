//! The inputs and right answers of `tests/cases/events`.

mod support;

use std::collections::HashSet;

use freshet_feed::cloud_events::Binding;
use freshet_feed::decode::decode_event;
use freshet_feed::ingest::{decode_message, decode_request};
use freshet_feed::{Intake, Limits, RejectionCode};
use support::{Case, cases};

fn pairs(case: &Case) -> Vec<(&str, &str)> {
    case.headers.iter().map(|(name, value)| (&**name, &**value)).collect()
}

#[test]
fn events_are_read_by_the_contract() {
    for case in cases("accepted.json") {
        case.check(decode_event(&case.input(), &Limits::default()));
    }
}

#[test]
fn what_is_no_event_is_rejected_with_its_code() {
    for case in cases("rejected.json") {
        case.check(decode_event(&case.input(), &Limits::default()));
    }
}

#[test]
fn cloud_events_carry_the_same_event() {
    for case in cases("cloud-events.json") {
        let mut answers = decode_request(
            case.content_type.as_deref(),
            pairs(&case),
            &case.input(),
            &Intake::iceberg(Limits::default()),
        )
        .unwrap_or_else(|error| panic!("{}: {error}", case.name));
        let answer = answers.pop().expect(&case.name);
        assert!(answers.is_empty(), "{}", case.name);
        case.check(answer);
    }
}

#[test]
fn a_broker_s_message_is_the_same_event() {
    for case in cases("cloud-events.json") {
        let content_type = case.content_type.as_deref();
        let limits = Limits::default();
        case.check(decode_message(
            Binding::HTTP,
            content_type,
            pairs(&case),
            &case.input(),
            &Intake::iceberg(limits.clone()),
        ));
    }
    for case in cases("accepted.json").iter().chain(&cases("rejected.json")) {
        let headers = [("content-length", "1"), ("ce-id", "other")];
        for content_type in [None, Some("text/plain"), Some("application/json")] {
            let limits = Limits::default();
            case.check(decode_message(
                Binding::KAFKA,
                content_type,
                headers,
                &case.input(),
                &Intake::iceberg(limits.clone()),
            ));
        }
    }
}

#[test]
fn requests_carry_one_event_or_many() {
    let limits = Limits { max_request_events: 4, ..Limits::default() };
    // One answer more than four fits no request; the longest mixed array is read with room for it.
    let roomy = Limits { max_request_events: 5, ..Limits::default() };
    for case in cases("requests.json") {
        let mixed = case.events.as_ref().is_some_and(|events| events.len() == 5);
        let limits = if mixed { &roomy } else { &limits };
        let found = decode_request(
            case.content_type.as_deref(),
            pairs(&case),
            &case.input(),
            &Intake::iceberg(limits.clone()),
        );
        match (&case.events, &case.refused, found) {
            (Some(expected), None, Ok(found)) => {
                assert_eq!(found.len(), expected.len(), "{}", case.name);
                for (expected, found) in expected.iter().zip(&found) {
                    assert!(expected.is(found), "{}: {found:?}", case.name);
                }
            }
            (None, Some(expected), Err(error)) => {
                assert_eq!(error.code(), expected, "{}: {error}", case.name)
            }
            (_, _, found) => panic!("{}: {found:?}", case.name),
        }
    }
}

#[test]
fn every_code_has_a_case() {
    let mut seen = HashSet::new();
    for file in ["rejected.json", "cloud-events.json"] {
        for case in cases(file) {
            let limits = Limits::default();
            let content_type = case.content_type.as_deref();
            if let Err(rejection) = decode_message(
                Binding::HTTP,
                content_type,
                pairs(&case),
                &case.input(),
                &Intake::iceberg(limits.clone()),
            ) {
                seen.insert(rejection.code);
            }
        }
    }
    let unseen: Vec<_> = RejectionCode::ALL.iter().filter(|code| !seen.contains(code)).collect();
    assert!(unseen.is_empty(), "no case for {unseen:?}");
}

#[test]
fn every_refusal_of_a_request_has_a_case() {
    let seen: HashSet<String> = cases("requests.json").into_iter().filter_map(|case| case.refused).collect();
    let catalogue: HashSet<String> =
        freshet_feed::ingest::RequestError::CODES.iter().map(|code| (*code).to_owned()).collect();
    assert_eq!(seen, catalogue);
}
