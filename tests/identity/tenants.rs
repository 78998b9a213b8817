//! Another tenant's room is a room that does not exist, by whatever name it is asked for.

use serde_json::{Value, json};

use crate::place::{Asker, Place, commit};

const UNKNOWN_ROOM: (u16, &str) = (404, "unknown_room");

/// Asks for the room by every way and gives all that is answered.
async fn answers(asker: &Asker, room: &str) -> Vec<String> {
    let mut answers = Vec::new();
    for path in ["/events", "/api/v2/events", "/api/v2/tables", "/api/v2/tables/production.shared/events"] {
        let answer = asker.get(&format!("{path}?channels=commits&room={room}")).await;
        answers.push(format!("{:?}", answer.seen()));
    }
    let (mut socket, _) = asker.socket("/ws").await;
    for from in [json!("now"), json!("snapshot"), json!({"eventId": "south-1"})] {
        let answer = socket.subscribe("commits", &json!({"room": [room], "from": from})).await;
        answers.push(answer.to_string());
    }
    answers
}

async fn place_with_two_tenants() -> Place {
    let place = Place::open();
    for (id, tenant, table) in [
        ("north-1", "north", "production.shared"),
        ("south-1", "south", "production.shared"),
        ("south-2", "south", "production.southern"),
        ("north-2", "north", "production.northern"),
    ] {
        place.publish("commits", &commit(id, tenant, table)).await;
    }
    place
}

#[tokio::test]
async fn another_tenants_room_answers_like_one_that_does_not_exist() {
    let place = place_with_two_tenants().await;
    let north = place.somebody("ada", &json!({"tenant": "north", "channels": "commits"}));
    let nowhere = answers(&north, "nowhere").await;
    assert!(nowhere.iter().all(|answer| answer.contains("unknown_room")), "{nowhere:#?}");
    assert!(nowhere[..4].iter().all(|answer| answer.starts_with("(404,")), "{nowhere:#?}");
    let others = [
        "south", "*", "?orth", "nort*", "north*", "North", "NORTH", "%20south", "%2Fnorth", "north%00",
        "null",
    ];
    for room in others {
        let answered = answers(&north, room).await;
        assert_eq!(answered[..4], nowhere[..4], "{room}");
        assert!(answered[4..].iter().all(|answer| answer.contains("unknown_room")), "{room}: {answered:#?}");
    }
    // Another's room beside one's own, in a list or again.
    for rooms in ["room=north,south", "room=south&room=north", "room=north&room=south"] {
        for path in ["/events", "/api/v2/events", "/api/v2/tables"] {
            let (status, code) = north.get(&format!("{path}?channels=commits&{rooms}")).await.refusal();
            assert_eq!((status, &*code), UNKNOWN_ROOM, "{path}?{rooms}");
        }
    }
    let (mut socket, _) = north.socket("/ws").await;
    let mixed = socket.subscribe("commits", &json!({"room": ["north", "south"]})).await;
    assert_eq!(mixed["code"], "unknown_room", "{mixed}");
    assert_eq!(north.history("/api/v2/events?channels=commits&room=north").await, ["north-2", "north-1"]);
}

#[tokio::test]
async fn a_wildcard_in_a_claim_is_no_key_to_rooms() {
    let place = place_with_two_tenants().await;
    for tenant in ["*", "?orth", "nort*", "north,south", "north south", "north*", "North"] {
        let wild = place.somebody("mallory", &json!({"tenant": tenant, "channels": ["*", "commits"]}));
        assert!(wild.history("/api/v2/events?channels=commits").await.is_empty(), "{tenant}");
        let tables = wild.get("/api/v2/tables?channels=commits").await.json();
        assert_eq!(tables, json!({"tables": [], "next": null}), "{tenant}");
        for room in ["north", "south"] {
            let found = answers(&wild, room).await;
            assert_eq!(found, answers(&wild, "nowhere").await, "{tenant} asks for {room}");
            assert!(found[0].contains("unknown_room"), "{tenant} asks for {room}: {found:#?}");
        }
    }
    // Without a tenant there is no room at all, whatever is granted.
    let none = place.somebody("mallory", &json!({"channels": "*"}));
    for path in ["/events", "/api/v2/events", "/api/v2/tables"] {
        let refused = none.get(&format!("{path}?channels=commits")).await;
        assert_eq!(refused.seen(), none.get(&format!("{path}?channels=nowhere")).await.seen(), "{path}");
        assert_eq!(refused.refusal(), (404, "unknown_channel".to_owned()), "{path}");
    }
    // A pattern covers the names that fit it, whole.
    let near = place
        .somebody("ada", &json!({"tenant": "north", "channels": ["commit", "ommits", "commits?", "c*x"]}));
    let refused = near.get("/api/v2/events?channels=commits").await;
    assert_eq!(refused.refusal(), (404, "unknown_channel".to_owned()));
    let fits = place.somebody("ada", &json!({"tenant": "north", "channels": "com*s"}));
    assert_eq!(fits.history("/api/v2/events?channels=commits").await, ["north-2", "north-1"]);
}

#[tokio::test]
async fn the_history_and_the_tables_of_another_tenant_are_not_there() {
    let place = place_with_two_tenants().await;
    let north = place.somebody("ada", &json!({"tenant": "north", "channels": "commits"}));
    let south = place.somebody("bob", &json!({"tenant": "south", "channels": "commits"}));
    let everything = place.administrator();
    assert_eq!(everything.history("/api/v2/events?channels=commits").await.len(), 4, "they are there");

    assert_eq!(south.history("/api/v2/events?channels=commits").await, ["south-2", "south-1"]);
    assert_eq!(north.history("/api/v2/events?channels=commits&q=production").await, ["north-2", "north-1"]);
    assert!(north.history("/api/v2/events?channels=commits&q=southern").await.is_empty());
    assert!(north.history("/api/v2/events?channels=commits&table=production.southern").await.is_empty());
    let shared = "/api/v2/tables/production.shared/events?channels=commits";
    assert_eq!(north.history(shared).await, ["north-1"]);
    assert_eq!(south.history(shared).await, ["south-1"]);
    let tables = |name: &str| format!("/api/v2/tables/{name}/events?channels=commits");
    let hidden = north.get(&tables("production.southern")).await;
    assert_eq!(hidden.refusal(), (404, "not_found".to_owned()));
    assert_eq!(hidden.seen(), north.get(&tables("production.nowhere")).await.seen());

    // What is known of a table that both have is of one's own commits.
    let known = north.get("/api/v2/tables?channels=commits").await.json();
    let names: Vec<&Value> =
        known["tables"].as_array().expect("a list").iter().map(|of| &of["table"]).collect();
    assert_eq!(names, ["production.northern", "production.shared"]);
    let shared = &known["tables"][1];
    assert_eq!(shared["lastCommit"]["eventId"], "north-1", "{shared}");
    assert_eq!(
        (&shared["commitsLastDay"], &shared["recordsAddedLastDay"]),
        (&json!(1), &json!(7)),
        "{shared}"
    );

    // A place in another's history is no place in one's own.
    let page = south.get("/api/v2/events?channels=commits&limit=1").await.json();
    let cursor = page["next"].as_str().expect("there is more");
    let stolen = north.get(&format!("/api/v2/events?channels=commits&limit=1&cursor={cursor}")).await;
    assert_eq!(stolen.refusal(), (400, "invalid_cursor".to_owned()));
}

#[tokio::test]
async fn events_of_another_tenant_never_arrive() {
    let place = Place::open();
    let before = place.publish("commits", &commit("first", "north", "production.shared")).await;
    let north = place.somebody("ada", &json!({"tenant": "north", "channels": "commits"}));
    let (mut stream, _) = north.stream("/events?channels=commits").await;
    let (mut socket, _) = north.socket("/ws").await;
    socket.follow("commits").await;
    let (mut paced, _) = north.socket("/ws").await;
    paced.subscribe("commits", &json!({"window": 10})).await;
    for (id, tenant) in [
        ("south-1", "south"),
        ("other-1", "*"),
        ("north-1", "north"),
        ("south-2", "south"),
        ("north-2", "north"),
    ] {
        place.publish("commits", &commit(id, tenant, "production.shared")).await;
    }
    let mut roomless = commit("roomless", "", "production.shared");
    roomless["payload"].as_object_mut().expect("members").remove("tenant");
    place.publish("commits", &roomless).await;
    place.publish("commits", &commit("north-3", "north", "production.shared")).await;
    for expected in ["north-1", "north-2", "north-3"] {
        assert_eq!(stream.next_commit().await.last_event_id, expected);
        assert_eq!(socket.event_id().await, expected);
        assert_eq!(paced.event_id().await, expected);
    }

    // Nor by a replay: from a position, and from an event that is another's, which is as unknown as one that never was.
    let (mut replayed, _) = north.stream(&format!("/events?channels=commits&lastEventId={before}")).await;
    for expected in ["north-1", "north-2", "north-3"] {
        assert_eq!(replayed.next_commit().await.last_event_id, expected);
    }
    let mut gaps = Vec::new();
    for id in ["south-2", "roomless", "nowhere"] {
        let (mut stream, _) = north.stream(&format!("/events?channels=commits&lastEventId={id}")).await;
        let gap = stream.next().await.expect("the stream goes on");
        assert_eq!(gap.kind, "gap", "{id}: {}", gap.data);
        let mut socket = north.socket("/ws").await.0;
        let mut answer = socket.subscribe("commits", &json!({"from": {"eventId": id}})).await;
        assert_eq!(
            (&answer["type"], &answer["recovered"]),
            (&json!("subscribed"), &json!(false)),
            "{answer}"
        );
        assert_eq!(answer["requested"].take(), id);
        let next = socket.says().await;
        gaps.push((gap.data.replace(id, "it"), answer, next));
    }
    assert_eq!(gaps[0], gaps[2], "another's event");
    assert_eq!(gaps[1], gaps[2], "an event of no room");

    // Nor by the state of the channel.
    let (mut socket, _) = north.socket("/ws").await;
    let answer = socket.subscribe("commits", &json!({"from": "snapshot"})).await;
    assert_eq!(answer["snapshot"], 1, "{answer}");
    assert_eq!(socket.event_id().await, "north-3");
    assert_eq!(socket.says().await["type"], "live");
}

#[tokio::test]
async fn nobody_sends_into_another_tenants_room() {
    let place = place_with_two_tenants().await;
    let north =
        place.somebody("ada", &json!({"tenant": "north", "channels": "commits", "publish": "commits"}));
    let forged = north.publish("commits", &commit("forged", "south", "production.southern")).await;
    assert_eq!(forged.refusal(), (UNKNOWN_ROOM.0, UNKNOWN_ROOM.1.to_owned()));
    let own = north.publish("commits", &commit("north-3", "north", "production.northern")).await;
    assert_eq!((own.status, &own.json()["accepted"]), (200, &json!(1)));
    let all = place.administrator().history("/api/v2/events?channels=commits").await;
    assert!(all.iter().any(|id| id == "north-3") && !all.iter().any(|id| id == "forged"), "{all:?}");
}
