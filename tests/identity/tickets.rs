//! A ticket stands for a token once, where a browser can send no header, and leaves no trace.

use futures_util::future::join_all;
use serde_json::json;

use crate::place::{ALLOWED_ORIGIN, COOKIE, Place, commit};
use crate::support::token::{SECRET, now, token};

fn refused() -> (u16, String) {
    (401, "token_invalid".to_owned())
}

#[tokio::test]
async fn a_ticket_opens_one_stream_or_one_socket_as_its_holder() {
    let place = Place::open();
    let nobody = place.nobody();
    let north = place.somebody("ada", &json!({"tenant": "north", "channels": "commits"}));
    let answer = north.post("/api/v2/tickets").await;
    assert_eq!((answer.status, answer.header("cache-control")), (201, Some("no-store")), "{}", answer.body);
    assert_eq!(answer.json()["expiresInSecs"], 30, "the default: {}", answer.body);
    let (for_stream, for_socket) = (north.ticket().await, north.ticket().await);
    assert_ne!(for_stream, for_socket);

    let (mut stream, connected) =
        nobody.stream(&format!("/events?channels=commits&ticket={for_stream}")).await;
    assert!(
        connected["expiresAt"].is_string(),
        "it ends with the token that the ticket stands for: {connected}"
    );
    let (mut socket, welcome) = nobody.socket(&format!("/ws?ticket={for_socket}")).await;
    assert_eq!(welcome["expiresAt"], connected["expiresAt"], "{welcome}");
    socket.follow("commits").await;
    place.publish("commits", &commit("south-1", "south", "production.a")).await;
    place.publish("commits", &commit("north-1", "north", "production.a")).await;
    assert_eq!(stream.next_commit().await.last_event_id, "north-1");
    assert_eq!(socket.event_id().await, "north-1");

    for ticket in [&for_stream, &for_socket] {
        let again = nobody.get(&format!("/events?channels=commits&ticket={ticket}")).await;
        assert_eq!(again.refusal(), refused(), "a replay");
        let again = nobody.get(&format!("/events?channels=news&ticket={ticket}")).await;
        assert_eq!(again.refusal(), refused(), "a replay is not nobody either");
        assert_eq!(nobody.upgrade(&format!("/ws?ticket={ticket}")).await.err(), Some(refused()), "a replay");
    }
    // It is used up by whoever asks first, even when the question is refused then.
    let ticket = north.ticket().await;
    let hidden = nobody.get(&format!("/events?channels=notes&ticket={ticket}")).await;
    assert_eq!(hidden.refusal(), (404, "unknown_channel".to_owned()));
    assert_eq!(nobody.get(&format!("/events?channels=commits&ticket={ticket}")).await.refusal(), refused());
}

#[tokio::test]
async fn of_many_that_bring_the_same_ticket_at_once_one_comes_in() {
    let place = Place::open();
    let north = place.somebody("ada", &json!({}));
    for _ in 0..4 {
        let path = format!("/events?channels=staff&ticket={}", north.ticket().await);
        let nobody = place.nobody();
        let answers = join_all((0..16).map(|_| nobody.get(&path))).await;
        let mut statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
        statuses.sort_unstable();
        assert_eq!((statuses[0], &statuses[1..]), (200, &[401; 15][..]));
    }
}

#[tokio::test]
async fn who_asks_for_too_many_tickets_waits_and_others_do_not() {
    let place = Place::open_with("tickets_per_subject_max = 2");
    let [ada, bob] = ["ada", "bob"].map(|subject| place.somebody(subject, &json!({})));
    let first = ada.ticket().await;
    ada.ticket().await;
    for _ in 0..2 {
        let answer = ada.post("/api/v2/tickets").await;
        assert_eq!(answer.refusal(), (429, "too_many_tickets".to_owned()));
    }
    bob.ticket().await;
    place.nobody().stream(&format!("/events?channels=staff&ticket={first}")).await;
}

#[tokio::test]
async fn a_ticket_is_good_for_a_short_time_and_nowhere_else() {
    let place = Place::open_with("ticket_ttl_secs = 1");
    let (nobody, ada) = (place.nobody(), place.somebody("ada", &json!({"channels": "*"})));
    let late = ada.ticket().await;
    // When a session has ended whose token is good for longer than the ticket, the ticket is over too.
    let (mut clock, _) = place.somebody("clock", &json!({"exp": now() + 3})).socket("/ws").await;
    assert_eq!(clock.closes().await.1, 4501);
    let refusal = nobody.get(&format!("/events?channels=news&ticket={late}")).await;
    assert_eq!(refusal.status, 401, "{}", refusal.body);
    assert_eq!(
        nobody.upgrade(&format!("/ws?ticket={late}")).await.err().map(|(status, _)| status),
        Some(401)
    );
    let wrong =
        ["", "rubbish", "%00", "a%20b", &"A".repeat(43), &"A".repeat(8 << 10), &token("ada", &json!({}))];
    for ticket in wrong {
        let refusal = nobody.get(&format!("/events?channels=news&ticket={ticket}")).await;
        assert_eq!(refusal.refusal(), refused(), "{ticket}");
        assert_eq!(nobody.upgrade(&format!("/ws?ticket={ticket}")).await.err(), Some(refused()), "{ticket}");
    }

    let place = Place::open();
    let (nobody, ada) = (place.nobody(), place.somebody("ada", &json!({"admin": true})));
    let ticket = ada.ticket().await;
    let path = "/api/v2/events?channels=news";
    assert_eq!(place.bearer(&ticket).get(path).await.refusal(), refused());
    assert_eq!(
        nobody.clone().with("Cookie", &format!("{COOKIE}={ticket}")).get(path).await.refusal(),
        refused()
    );
    for path in ["/api/v2/events", "/api/v2/tables"] {
        let elsewhere = nobody.get(&format!("{path}?channels=news&ticket={ticket}")).await;
        assert_eq!(elsewhere.refusal(), (400, "unknown_parameter".to_owned()), "{path}");
    }
    for path in ["/actors", "/metrics", "/api/v2/sessions", "/api/v2/dead-letters"] {
        let elsewhere = nobody.get(&format!("{path}?ticket={ticket}")).await;
        assert_eq!(elsewhere.refusal(), (401, "token_required".to_owned()), "{path}");
    }
    let published = nobody.publish(&format!("news&ticket={ticket}"), &json!({"id": "x"})).await;
    assert_eq!(published.refusal(), (400, "unknown_parameter".to_owned()));
    // A ticket beside another credential, or beside another ticket: which counts would be a guess.
    let both = ada.get(&format!("/events?channels=news&ticket={ticket}")).await;
    assert_eq!(both.refusal(), refused());
    let two = nobody.get(&format!("/events?channels=news&ticket={ticket}&ticket={ticket}")).await;
    assert_eq!(two.refusal(), (400, "several_tickets".to_owned()));
    // None of this has used it up.
    nobody.stream(&format!("/events?channels=news&ticket={ticket}")).await;
}

#[tokio::test]
async fn neither_tokens_nor_tickets_leave_a_trace() {
    let place = Place::open_with("\n[log]\nlevel = \"trace\"\n");
    let (bearer, cookie, renewal) = (
        token("ada", &json!({"channels": "*", "jti": "header"})),
        token("ada", &json!({"channels": "*", "jti": "cookie"})),
        token("ada", &json!({"channels": "*", "jti": "renewal"})),
    );
    let forged = place.issuer.es256(&json!({"sub": "mallory"}));
    let ada = place.bearer(&bearer);
    let mut tickets = Vec::new();
    for _ in 0..4 {
        tickets.push(ada.ticket().await);
    }
    let nobody = place.nobody();
    let (_stream, _) = nobody.stream(&format!("/events?channels=notes&ticket={}", tickets[0])).await;
    let (mut socket, _) = nobody.socket(&format!("/ws?ticket={}", tickets[1])).await;
    for (credential, text) in [("token", &renewal), ("ticket", &tickets[2])] {
        let renewed = socket.ask(json!({"type": "renew", credential: text})).await;
        assert_eq!(renewed["type"], "renewed", "{renewed}");
    }
    let refused = socket.ask(json!({"type": "renew", "token": forged})).await;
    assert_eq!(refused["code"], "token_invalid", "{refused}");
    nobody.get(&format!("/events?ticket={}", tickets[0])).await;
    nobody.get(&format!("/api/v2/events?ticket={}", tickets[3])).await;
    place.bearer(&forged).get("/api/v2/events").await;
    let page = nobody.clone().with("Cookie", &format!("{COOKIE}={cookie}"));
    assert_eq!(page.get("/api/v2/events?channels=notes").await.status, 200);
    assert_eq!(page.with("Origin", ALLOWED_ORIGIN).post("/api/v2/tickets").await.status, 201);

    let administrator = place.administrator();
    let mut said = Vec::new();
    for path in ["/actors", "/metrics", "/api/v2/sessions"] {
        let answer = administrator.get(path).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        said.push(answer.body);
    }
    // Whoever stops it reads its last words too.
    let log = place.stop().await;
    assert!(log.iter().any(|line| line.contains("\"TRACE\"")), "the log tells everything");
    assert!(log.iter().any(|line| line.contains("a request is refused")), "refusals too");
    said.extend(log);
    // Of a token also its claims or its signature alone; its header is the same in all.
    let tokens = [&bearer, &cookie, &renewal, &forged].into_iter();
    let parts = tokens.flat_map(|token| token.split('.').skip(1)).chain(tickets.iter().map(String::as_str));
    for part in parts {
        assert_eq!(said.iter().find(|text| text.contains(part)), None, "{part}");
    }
    assert!(said.iter().all(|text| !text.contains(SECRET)));
}

#[tokio::test]
async fn a_ticket_by_another_spelling_is_never_taken_for_nothing() {
    let place = Place::open();
    let nobody = place.nobody();
    // An address may be spelt with escapes (RFC 3986, section 2.4): `%74icket` is `ticket`, and `%65vents` is `events`.
    for path in ["/events?channels=news&%74icket=rubbish", "/%65vents?channels=news&ticket=rubbish"] {
        let answer = nobody.get(path).await;
        assert!([400, 401, 404].contains(&answer.status), "{path}: {}", answer.status);
    }
    for path in ["/ws?%74icket=rubbish", "/%77s?ticket=rubbish"] {
        let refusal = nobody.upgrade(path).await.err().map(|(status, _)| status);
        assert!(refusal.is_some_and(|status| [400, 401, 404].contains(&status)), "{path}: {refusal:?}");
    }
}
