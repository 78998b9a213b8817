//! A session ends with the token that it began with, unless its holder brings another in time.

use serde_json::{Value, json};

use crate::place::{Place, soon};
use crate::support::sse::{Client, Message};
use crate::support::token::{now, token};

/// The close code of a session whose token is over; the client is not to come back with the same.
fn token_expired() -> Value {
    json!({"code": 4501, "reason": "token_expired", "reconnect": false})
}

/// As the daemon writes the end of a token.
fn written(second: i64) -> Value {
    json!(jiff::Timestamp::from_second(second).expect("a time").to_string())
}

async fn ends(stream: &mut Client) -> Value {
    let Message { kind, data, .. } = stream.next().await.expect("the stream says why it ends");
    assert_eq!(kind, "close", "{data}");
    assert_eq!(stream.next().await, None, "nothing follows");
    serde_json::from_str(&data).expect("JSON")
}

#[tokio::test]
async fn sessions_end_with_their_token_and_go_on_with_another() {
    let place = Place::open();
    let (end, later) = (soon(), now() + 600);
    let ada = place.somebody("ada", &json!({"exp": end, "tenant": "north", "channels": "notes"}));
    let longer = json!({"exp": later, "tenant": "north", "channels": "notes"});
    let (mut ending_stream, connected) = ada.stream("/events?channels=notes").await;
    assert_eq!(connected["expiresAt"], written(end), "the client is told when");
    let (mut ending_socket, welcome) = ada.socket("/ws").await;
    assert_eq!(welcome["expiresAt"], written(end), "{welcome}");
    let (mut renewed_stream, renewed) = ada.stream("/events?channels=notes").await;
    let (mut renewed_socket, _) = ada.socket("/ws").await;
    renewed_socket.follow("notes").await;

    let path = format!("/api/v2/sessions/{}/renew", renewed["clientId"].as_str().expect("an id"));
    let answer = place.somebody("ada", &longer).post(&path).await;
    assert_eq!((answer.status, answer.json()), (200, json!({"expiresAt": written(later)})));
    let answer =
        renewed_socket.ask(json!({"type": "renew", "id": "r", "token": token("ada", &longer)})).await;
    assert_eq!(answer, json!({"type": "renewed", "id": "r", "expiresAt": written(later)}));

    assert_eq!(ends(&mut ending_stream).await, token_expired());
    let (mut message, code) = ending_socket.closes().await;
    assert_eq!(code, 4501);
    message.as_object_mut().expect("a message").remove("type");
    assert_eq!(message, token_expired());
    assert!(now() >= end, "no session ends before its token");
    assert_eq!(ada.get("/events?channels=notes").await.refusal(), (401, "token_expired".to_owned()));
    assert_eq!(ada.upgrade("/ws").await.err(), Some((401, "token_expired".to_owned())));

    place.publish("notes", &json!({"id": "after the first end"})).await;
    let message = renewed_stream.next().await.expect("it goes on");
    assert_eq!(message.last_event_id, "after the first end", "{}", message.data);
    assert_eq!(renewed_socket.event_id().await, "after the first end");
}

#[tokio::test]
async fn nobody_elses_token_and_no_lesser_one_lets_a_session_go_on() {
    let place = Place::open();
    let end = soon();
    let own = json!({"exp": end, "tenant": "north", "channels": "notes"});
    let ada = place.somebody("ada", &own);
    let (mut stream, connected) = ada.stream("/events?channels=notes").await;
    let (mut socket, _) = ada.socket("/ws").await;
    socket.follow("notes").await;
    let path = format!("/api/v2/sessions/{}/renew", connected["clientId"].as_str().expect("an id"));

    // Another's session is one that does not exist.
    let nowhere = "/api/v2/sessions/6f1f6c3e-2b44-4a53-9c58-0d6a3d2f9b01/renew";
    let wrong = [
        ("bob", json!({"tenant": "north", "channels": "*"})),
        ("ada", json!({"tenant": "south", "channels": "*"})),
        ("ada", json!({"channels": "*"})),
        ("root", json!({"admin": true})),
    ];
    for (subject, claims) in wrong {
        let asker = place.somebody(subject, &claims);
        let answer = asker.post(&path).await;
        assert_eq!(answer.refusal(), (404, "not_found".to_owned()), "{subject} {claims}");
        assert_eq!(answer.seen(), asker.post(nowhere).await.seen(), "{subject} {claims}");
        for credential in [("token", token(subject, &claims)), ("ticket", asker.ticket().await)] {
            let answer = socket.ask(json!({"type": "renew", credential.0: credential.1})).await;
            assert_eq!(answer["code"], "token_invalid", "{subject} {claims}: {answer}");
        }
    }
    // One that is over, or is forged, or allows less than what the session follows.
    let over = token("ada", &json!({"exp": now() - 1, "tenant": "north", "channels": "notes"}));
    assert_eq!(place.bearer(&over).post(&path).await.refusal(), (401, "token_expired".to_owned()));
    let answer = socket.ask(json!({"type": "renew", "token": over})).await;
    assert_eq!(answer["code"], "token_expired", "{answer}");
    let answer = socket.ask(json!({"type": "renew", "token": "rubbish"})).await;
    assert_eq!(answer["code"], "token_invalid", "{answer}");
    let answer = socket.ask(json!({"type": "renew"})).await;
    assert_eq!(answer["code"], "missing_field", "{answer}");
    let answer = socket.ask(json!({"type": "renew", "token": token("ada", &own), "ticket": "rubbish"})).await;
    assert_eq!(answer["code"], "invalid_field", "{answer}");
    let lesser = json!({"tenant": "north", "channels": "other"});
    let answer = place.somebody("ada", &lesser).post(&path).await;
    assert_eq!(answer.refusal(), (409, "renewal_allows_less".to_owned()));
    let answer = socket.ask(json!({"type": "renew", "token": token("ada", &lesser)})).await;
    assert_eq!(answer["code"], "renewal_allows_less", "{answer}");
    assert_eq!(place.nobody().post(&path).await.refusal(), (401, "token_required".to_owned()));

    // The sessions have kept what they had, and end when they would have.
    place.publish("notes", &json!({"id": "n1"})).await;
    assert_eq!(stream.next().await.expect("it goes on").last_event_id, "n1");
    assert_eq!(socket.event_id().await, "n1");
    assert_eq!(ends(&mut stream).await, token_expired());
    assert_eq!(socket.closes().await.1, 4501);
    assert!(now() >= end, "no session ends before its token");
}

#[tokio::test]
async fn nobodys_session_has_no_end_and_becomes_nobody_elses() {
    let place = Place::open();
    let (_stream, connected) = place.nobody().stream("/events?channels=news").await;
    let (mut socket, _) = place.nobody().socket("/ws").await;
    let path = format!("/api/v2/sessions/{}/renew", connected["clientId"].as_str().expect("an id"));
    let answer = place.somebody("ada", &json!({})).post(&path).await;
    assert_eq!(answer.refusal(), (404, "not_found".to_owned()));
    let answer = socket.ask(json!({"type": "renew", "token": token("ada", &json!({"channels": "*"}))})).await;
    assert_eq!(answer["code"], "token_invalid", "{answer}");
    let answer = socket.subscribe("notes", &json!({})).await;
    assert_eq!(answer["code"], "unknown_channel", "{answer}");
}
