//! An administrator sees who is connected, and ends sessions.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::place::{Asker, Place};
use crate::support::sse::Client;
use crate::websocket::Socket;

/// Who sees whom.
async fn seen(asker: &Asker, query: &str) -> (Value, BTreeSet<String>) {
    let answer = asker.get(&format!("/api/v2/sessions{query}")).await;
    assert_eq!(answer.status, 200, "{query}: {}", answer.body);
    let answer = answer.json();
    let list = answer["list"].as_array().expect("a list");
    let ids = list.iter().map(|session| session["clientId"].as_str().expect("an id").to_owned()).collect();
    (answer, ids)
}

fn id(greeting: &Value) -> String {
    greeting["clientId"].as_str().expect("an id").to_owned()
}

async fn is_ended(stream: &mut Client, socket: &mut Socket) {
    let closing = stream.next().await.expect("the stream says why it ends");
    let data: Value = serde_json::from_str(&closing.data).expect("JSON");
    let reason = json!({"code": 4502, "reason": "disconnected_by_administrator", "reconnect": false});
    assert_eq!((closing.kind.as_str(), &data), ("close", &reason));
    assert_eq!(stream.next().await, None, "nothing follows");
    let (mut message, code) = socket.closes().await;
    assert_eq!(code, 4502);
    message.as_object_mut().expect("a message").remove("type");
    assert_eq!(message, reason);
}

#[tokio::test]
async fn an_administrator_sees_who_follows_what() {
    let place = Place::open();
    let administrator = place.administrator();
    let nothing = seen(&administrator, "").await;
    assert_eq!((&nothing.0["sessions"], &nothing.0["list"]), (&json!(0), &json!([])), "{}", nothing.0);

    let north = place.somebody("ada", &json!({"tenant": "north", "channels": "*"}));
    let south = place.somebody("bob", &json!({"tenant": "south", "channels": "*"}));
    let (_one, north_stream) = north.stream("/events?channels=commits,orders").await;
    let (mut socket, north_socket) = north.socket("/ws").await;
    socket.follow("orders").await;
    socket.follow("notes").await;
    let (_two, south_stream) = south.stream("/events?channels=commits").await;
    let (_three, nobodys) = place.nobody().stream("/events?channels=news").await;
    let [north_stream, north_socket, south_stream, nobodys] =
        [north_stream, north_socket, south_stream, nobodys].map(|greeting| id(&greeting));
    let set = |ids: &[&String]| ids.iter().map(|id| (*id).clone()).collect::<BTreeSet<_>>();

    let (all, ids) = seen(&administrator, "").await;
    assert_eq!(ids, set(&[&north_stream, &north_socket, &south_stream, &nobodys]));
    assert_eq!(
        (&all["sessions"], &all["transports"]),
        (&json!(4), &json!({"sse": 3, "websocket": 1})),
        "{all}"
    );
    let channels = json!([
        {"channel": "commits", "sessions": 2}, {"channel": "news", "sessions": 1},
        {"channel": "notes", "sessions": 1}, {"channel": "orders", "sessions": 2},
    ]);
    assert_eq!(all["channels"], channels);
    assert_eq!(all["truncated"], false);
    let counted = |list: &str, member: Value| all[list].as_array().expect("a list").contains(&member);
    assert!(counted("rooms", json!({"channel": "orders", "room": "north", "sessions": 2})), "{all}");
    assert!(counted("rooms", json!({"channel": "commits", "room": "south", "sessions": 1})), "{all}");
    assert!(counted("subjects", json!({"tenant": "north", "subject": "ada", "sessions": 2})), "{all}");
    assert!(counted("subjects", json!({"subject": null, "sessions": 1})), "{all}");

    for (query, expected) in [
        ("?subject=ada", set(&[&north_stream, &north_socket])),
        ("?subject=bob", set(&[&south_stream])),
        ("?subject=eve", set(&[])),
        ("?channel=commits", set(&[&north_stream, &south_stream])),
        ("?channel=notes", set(&[&north_socket])),
        ("?channel=nowhere", set(&[])),
        ("?room=north", set(&[&north_stream, &north_socket])),
        ("?channel=commits&room=north", set(&[&north_stream])),
        ("?channel=notes&room=north", set(&[])),
        ("?channel=commits&subject=bob&room=south", set(&[&south_stream])),
        ("?channel=commits&subject=bob&room=north", set(&[])),
        ("?tenant=north", set(&[&north_stream, &north_socket])),
    ] {
        let (answer, ids) = seen(&administrator, query).await;
        assert_eq!(ids, expected, "{query}");
        assert_eq!(answer["sessions"], expected.len(), "{query}");
    }
    let (first, ids) = seen(&administrator, "?limit=1").await;
    assert_eq!((&first["sessions"], ids.len()), (&json!(4), 1), "all are counted, one is listed");
    let misspelt = administrator.get("/api/v2/sessions?subjects=ada").await;
    assert_eq!(misspelt.refusal(), (400, "unknown_parameter".to_owned()));

    let (answer, _) = seen(&administrator, "?channel=notes").await;
    let session = &answer["list"][0];
    assert_eq!((&session["subject"], &session["tenant"]), (&json!("ada"), &json!("north")), "{session}");
    assert_eq!(session["transport"], "websocket");
    let follows = json!([{"channel": "notes"}, {"channel": "orders", "rooms": ["north"]}]);
    assert_eq!(session["follows"], follows);
    assert!(session["connectedAt"].is_string() && session["expiresAt"].is_string(), "{session}");

    // Who leaves is not seen any more.
    drop(socket);
    crate::support::eventually("the session is gone", || async {
        seen(&administrator, "?channel=notes").await.1.is_empty().then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_administrator_ends_one_session_and_all_of_a_subject() {
    let place = Place::open();
    let administrator = place.administrator();
    let [ada, bob] = ["ada", "bob"].map(|subject| place.somebody(subject, &json!({"channels": "notes"})));
    let (mut one_stream, stream_greeting) = ada.stream("/events?channels=notes").await;
    let (mut one_socket, socket_greeting) = ada.socket("/ws").await;
    let (mut stream, _) = ada.stream("/events?channels=notes").await;
    let (mut socket, _) = ada.socket("/ws").await;
    socket.follow("notes").await;
    let (mut others_stream, _) = bob.stream("/events?channels=notes").await;
    let (mut others_socket, others) = bob.socket("/ws").await;
    others_socket.follow("notes").await;

    // Nobody but administrators, not even one's own.
    let own = format!("/api/v2/sessions/{}", id(&stream_greeting));
    assert_eq!(ada.delete(&own).await.refusal(), (404, "not_found".to_owned()));
    let answer = ada.delete("/api/v2/sessions?subject=bob").await;
    assert_eq!(answer.refusal(), (404, "not_found".to_owned()));
    assert_eq!(place.nobody().delete(&own).await.refusal(), (401, "token_required".to_owned()));

    for greeting in [&stream_greeting, &socket_greeting] {
        let path = format!("/api/v2/sessions/{}", id(greeting));
        let answer = administrator.delete(&path).await;
        assert_eq!((answer.status, answer.json()), (200, json!({"disconnected": 1})));
    }
    // Whether or not the clients have taken their leave yet.
    assert_eq!(seen(&administrator, "?subject=ada").await.0["sessions"], 2);
    is_ended(&mut one_stream, &mut one_socket).await;
    assert_eq!(administrator.delete(&own).await.refusal(), (404, "not_found".to_owned()));

    let answer = administrator.delete("/api/v2/sessions?subject=ada").await;
    assert_eq!((answer.status, answer.json()), (200, json!({"disconnected": 2})));
    is_ended(&mut stream, &mut socket).await;

    for path in ["/api/v2/sessions", "/api/v2/sessions?subject="] {
        let answer = administrator.delete(path).await;
        assert_eq!(answer.refusal(), (400, "missing_parameter".to_owned()), "{path}: not all by mistake");
    }
    for path in ["/api/v2/sessions?subject=eve", "/api/v2/sessions/nonsense"] {
        assert_eq!(administrator.delete(path).await.refusal(), (404, "not_found".to_owned()), "{path}");
    }
    place.publish("notes", &json!({"id": "n1"})).await;
    assert_eq!(others_stream.next().await.expect("it goes on").last_event_id, "n1");
    assert_eq!(others_socket.event_id().await, "n1");
    assert!(seen(&administrator, "?subject=bob").await.1.contains(&id(&others)));
}
