//! Without a token there is only what is public; and who is no administrator sees nothing of the daemon.

use serde_json::{Value, json};

use crate::place::{Asker, Place, commit};

/// A channel that does not exist.
const NOWHERE: &str = "nowhere";

fn note(id: &str) -> Value {
    json!({"id": id, "text": "a note"})
}

/// Asks for the channel by every way and gives all that is answered, the name of the channel left out.
async fn answers(asker: &Asker, channel: &str) -> Vec<String> {
    let mut answers = Vec::new();
    for path in ["/events?channels=", "/api/v2/events?channels=", "/api/v2/tables?channels="] {
        answers.push(format!("{:?}", asker.get(&format!("{path}{channel}")).await.seen()));
    }
    let (mut socket, _) = asker.socket("/ws").await;
    let mut answer = socket.subscribe(channel, &json!({"id": "1"})).await;
    assert_eq!(answer["channel"].take(), channel);
    answers.push(answer.to_string());
    answers
}

fn refused_as_unknown(answers: &[String]) -> bool {
    let streams = answers.iter().take(3);
    streams.clone().all(|answer| answer.starts_with("(404,"))
        && answers.iter().all(|answer| answer.contains("unknown_channel"))
}

#[tokio::test]
async fn nobody_reads_what_is_public_and_the_rest_is_not_there() {
    let place = Place::open();
    place.publish("news", &note("n1")).await;
    place.publish("status", &note("s1")).await;
    place.publish("staff", &note("t1")).await;
    place.publish("notes", &note("o1")).await;
    place.publish("iceberg", &commit("c1", "north", "production.a")).await;
    place.publish("commits", &commit("c2", "north", "production.b")).await;
    place.publish("orders", &json!({"id": "d1", "tenant": "north"})).await;

    let nobody = place.nobody();
    assert_eq!(nobody.history("/api/v2/events?channels=news").await, ["n1"]);
    assert_eq!(nobody.history("/api/v2/events?channels=status,news").await, ["s1", "n1"]);
    let (_stream, connected) = nobody.stream("/events?channels=news,status").await;
    assert_eq!(connected.get("expiresAt"), None, "nobody's session has no end");
    let (mut socket, _) = nobody.socket("/ws").await;
    socket.follow("news").await;
    socket.follow("status").await;
    place.publish("news", &note("n2")).await;
    assert_eq!(socket.event_id().await, "n2");

    let nowhere = answers(&nobody, NOWHERE).await;
    assert!(refused_as_unknown(&nowhere), "{nowhere:#?}");
    for channel in ["iceberg", "staff", "notes", "commits", "orders"] {
        assert_eq!(answers(&nobody, channel).await, nowhere, "{channel}");
        let mixed = nobody.get(&format!("/api/v2/events?channels=news,{channel}")).await;
        assert_eq!(mixed.refusal(), (404, "unknown_channel".to_owned()), "{channel}");
    }
    assert_eq!(nobody.get("/api/v2/events").await.refusal(), (404, "unknown_channel".to_owned()));
    assert_eq!(nobody.get("/events").await.refusal(), (404, "unknown_channel".to_owned()));
    let path = "/api/v2/tables/production.a/events";
    assert_eq!(nobody.get(path).await.seen(), nobody.get(&format!("{path}?channels={NOWHERE}")).await.seen());

    // Somebody has what is for everybody who is known, and no more.
    let somebody = place.somebody("ada", &json!({}));
    assert_eq!(somebody.history("/api/v2/events?channels=staff").await, ["t1"]);
    let nowhere = answers(&somebody, NOWHERE).await;
    assert!(refused_as_unknown(&nowhere), "{nowhere:#?}");
    for channel in ["iceberg", "notes", "commits", "orders"] {
        assert_eq!(answers(&somebody, channel).await, nowhere, "{channel}");
    }
}

#[tokio::test]
async fn who_may_not_publish_finds_no_channel_to_publish_to() {
    let place = Place::open();
    let reader = place.somebody("ada", &json!({"channels": "*", "publish": "notes"}));
    for asker in [place.nobody(), reader.clone()] {
        let nowhere = asker.publish(NOWHERE, &note("x1")).await;
        assert_eq!(nowhere.refusal(), (404, "unknown_channel".to_owned()));
        for channel in ["news", "status", "staff", "iceberg", "commits", "orders"] {
            assert_eq!(asker.publish(channel, &note("x2")).await.seen(), nowhere.seen(), "{channel}");
        }
    }
    assert_eq!(reader.publish("notes", &note("x3")).await.status, 200);
    let everything = place.administrator();
    let all = "/api/v2/events?channels=news,status,staff,iceberg,notes,commits,orders";
    assert_eq!(everything.history(all).await, ["x3"], "nothing else was taken");
}

#[tokio::test]
async fn the_daemon_itself_is_for_administrators() {
    let place = Place::open();
    let (nobody, administrator) = (place.nobody(), place.administrator());
    let somebody =
        place.somebody("ada", &json!({"channels": "*", "publish": "*", "tenant": "north", "admin": false}));
    for path in ["/livez", "/readyz"] {
        assert_eq!(nobody.get(path).await.status, 200, "{path}");
        assert_eq!(place.bearer("rubbish").get(path).await.status, 200, "{path}: a probe may bring anything");
    }
    // RFC 9110, section 15.5.2.
    assert_eq!(nobody.get("/actors").await.header("www-authenticate"), Some("Bearer"));
    let nothing = somebody.get("/api/v2/nothing").await;
    assert_eq!(nothing.refusal(), (404, "not_found".to_owned()));
    for path in ["/actors", "/metrics", "/api/v2/dead-letters", "/api/v2/sessions"] {
        assert_eq!(nobody.get(path).await.refusal(), (401, "token_required".to_owned()), "{path}");
        assert_eq!(somebody.get(path).await.seen(), nothing.seen(), "{path}");
        assert_eq!(administrator.get(path).await.status, 200, "{path}");
    }
    for path in ["/api/v2/dead-letters/1", "/api/v2/dead-letters/1/body"] {
        assert_eq!(nobody.get(path).await.refusal(), (401, "token_required".to_owned()), "{path}");
        assert_eq!(somebody.get(path).await.seen(), nothing.seen(), "{path}");
        assert!(administrator.get(path).await.body.contains("no dead letter"), "{path}");
    }
    let session = "/api/v2/sessions/6f1f6c3e-2b44-4a53-9c58-0d6a3d2f9b01";
    for path in [session, "/api/v2/sessions?subject=root"] {
        assert_eq!(nobody.delete(path).await.refusal(), (401, "token_required".to_owned()), "{path}");
        assert_eq!(somebody.delete(path).await.seen(), nothing.seen(), "{path}");
    }
    for path in ["/api/v2/tickets", &format!("{session}/renew")] {
        assert_eq!(nobody.post(path).await.refusal(), (401, "token_required".to_owned()), "{path}");
    }
}

#[tokio::test]
async fn who_is_known_reads_what_nobody_needs_to_be_known_for() {
    let place = Place::open();
    let ada = place.somebody("ada", &json!({"channels": "notes"}));
    for asker in [place.nobody(), ada] {
        assert_eq!(asker.get("/api/v2/events?channels=status").await.status, 200);
    }
}
