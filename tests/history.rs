//! An analyst looks for what happened to a table last week.

mod support;

use serde_json::{Value, json};
use support::daemon::{Daemon, Home};

/// What a writer says of one commit; absent members are absent in the event.
fn commit(number: usize, table: &str, at: &str, payload: &Value) -> Value {
    json!({
        "eventId": format!("history-{number}"), "eventTimestamp": at, "sourceApplication": if number.is_multiple_of(2) { "spark" } else { "trino" },
        "tableIdentifier": table, "eventType": "COMMIT_SUCCESS", "payload": payload,
    })
}

async fn with_history() -> (Home, Daemon) {
    let home = Home::new("");
    let daemon = home.start();
    let events = json!([
        commit(
            0,
            "prod.sales.orders",
            "2026-03-01T00:00:00Z",
            &json!({"operation": "append", "snapshotId": 1, "summary": {"added-records": "10", "added-data-files": "1"}, "schemaChanged": false})
        ),
        commit(
            1,
            "prod.sales.orders",
            "2026-03-02T00:00:00Z",
            &json!({"operation": "delete", "snapshotId": "2", "summary": {"deleted-records": "4"}})
        ),
        commit(
            2,
            "prod.sales.refunds",
            "2026-03-03T00:00:00Z",
            &json!({"operation": "append", "snapshotId": i64::MAX, "summary": {}, "schemaChanged": true})
        ),
        commit(
            3,
            "dev.sales.orders",
            "2026-03-04T00:00:00Z",
            &json!({"operation": "append", "snapshotId": 4, "comment": "backfill of the lost Tuesday"})
        ),
        commit(
            4,
            "prod.sales[1].orders",
            "2026-03-05T00:00:00Z",
            &json!({"operation": "overwrite", "snapshotId": 5})
        ),
    ]);
    let (status, answer) = daemon.post("application/json", events.to_string()).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["accepted"], 5);
    (home, daemon)
}

/// The numbers of the commits that a search finds, in its order.
async fn found(daemon: &Daemon, query: &str) -> Vec<u64> {
    let (status, text) = daemon.get(&format!("/api/v2/events?{query}")).await;
    assert_eq!(status, 200, "{query}: {text}");
    let page: Value = serde_json::from_str(&text).expect("JSON");
    let number = |entry: &Value| {
        entry["event"]["eventId"]
            .as_str()
            .expect("an id")
            .trim_start_matches("history-")
            .parse()
            .expect("a number")
    };
    page["events"].as_array().expect("events").iter().map(number).collect()
}

#[tokio::test]
async fn every_way_of_asking_finds_what_it_should() {
    let (_home, daemon) = with_history().await;
    for (query, expected) in [
        ("", vec![4, 3, 2, 1, 0]),
        ("table=prod.*", vec![4, 2, 1, 0]),
        ("table=*.orders", vec![4, 3, 1, 0]),
        ("table=prod.sales.?rders", vec![1, 0]),
        ("table=prod.sales[1].*", vec![4]),
        ("operation=append,delete", vec![3, 2, 1, 0]),
        ("application=trino", vec![3, 1]),
        ("schemaChanged=true", vec![2]),
        ("schemaChanged=false", vec![0]),
        ("from=2026-03-02T00:00:00Z&to=2026-03-04T00:00:00Z", vec![2, 1]),
        ("q=backfill", vec![3]),
        ("q=lost%20Tues", vec![3]),
        ("q=%22)%20*", vec![4, 3, 2, 1, 0]),
        ("q=%22%20OR%20nothing", vec![]),
        ("q=refunds&operation=append", vec![2]),
    ] {
        assert_eq!(found(&daemon, query).await, expected, "{query}");
    }
}

#[tokio::test]
async fn pages_join_without_gap_or_repeat_while_new_events_arrive() {
    let (_home, daemon) = with_history().await;
    let first = daemon.json("/api/v2/events?limit=2").await;
    let (_, body) = support::event(1);
    daemon.post("application/json", body).await;
    let cursor = first["next"].as_str().expect("there is more");
    assert_eq!(found(&daemon, &format!("limit=2&cursor={cursor}")).await, [2, 1]);
    let (status, text) = daemon.get(&format!("/api/v2/events?operation=append&cursor={cursor}")).await;
    assert_eq!(status, 400, "a cursor belongs to its question: {text}");
    assert!(text.contains("invalid_cursor"), "{text}");
}

#[tokio::test]
async fn absent_is_unknown_and_never_zero() {
    let (_home, daemon) = with_history().await;
    let tables = daemon.json("/api/v2/tables").await;
    let table = |name: &str| {
        tables["tables"]
            .as_array()
            .expect("tables")
            .iter()
            .find(|table| table["table"] == name)
            .expect("the table")
            .clone()
    };
    let refunds = table("prod.sales.refunds");
    assert_eq!(refunds["lastCommit"]["snapshotId"], i64::MAX);
    assert_eq!(refunds["lastSchemaChange"], "2026-03-03T00:00:00Z");
    assert_eq!(refunds["recordsAddedLastDay"], Value::Null, "the writer did not say");
    assert_eq!(table("prod.sales.orders")["lastCommit"]["operation"], "delete");
    assert_eq!(table("dev.sales.orders")["lastSchemaChange"], Value::Null);

    let of_table = daemon.json("/api/v2/tables/prod.sales%5B1%5D.orders/events").await;
    assert_eq!(of_table["events"].as_array().expect("events").len(), 1);
    assert_eq!(daemon.get("/api/v2/tables/no.such.table/events").await.0, 404);
}

#[tokio::test]
async fn the_same_commit_by_two_ways_is_one() {
    let (_home, daemon) = with_history().await;
    let again = commit(
        0,
        "prod.sales.orders",
        "2026-03-01T00:00:00Z",
        &json!({"operation": "append", "snapshotId": 1, "schemaChanged": false}),
    );
    let (_, answer) = daemon.post("application/json", again.to_string()).await;
    assert_eq!(answer["results"][0]["status"], "duplicate", "the same event id");
    let mut other_way = again.clone();
    other_way["eventId"] = json!("another-name");
    let (_, answer) = daemon.post("application/json", other_way.to_string()).await;
    assert_eq!(answer["results"][0]["status"], "duplicate", "the same table and snapshot");
    assert_eq!(daemon.history().await.len(), 5);
}

#[tokio::test]
async fn cloud_events_carry_the_same_event() {
    let (_home, daemon) = with_history().await;
    let (event_id, body) = support::event(7);
    let structured = format!(
        r#"{{"specversion":"1.0","id":"{event_id}","source":"/lake","type":"iceberg.commit","datacontenttype":"application/json","data":{body}}}"#
    );
    let (status, answer) = daemon.post("application/cloudevents+json", structured).await;
    assert_eq!((status, &answer["results"][0]["status"]), (200, &json!("accepted")), "{answer}");
    let response = reqwest::Client::new()
        .post(format!("{}/api/v2/events", daemon.url))
        .header("Content-Type", "application/json")
        .header("ce-specversion", "1.0")
        .header("ce-id", &event_id)
        .header("ce-source", "/lake")
        .header("ce-type", "iceberg.commit")
        .body(body.clone())
        .send()
        .await
        .expect("it answers");
    let answer: Value = response.json().await.expect("JSON");
    assert_eq!(answer["results"][0]["status"], "duplicate", "binary mode carries the same event: {answer}");
    let history = daemon.history().await;
    assert_eq!(history.last(), Some(&(event_id, body)), "byte for byte");
}

#[tokio::test]
async fn a_batch_answers_for_each_of_its_events() {
    let (_home, daemon) = with_history().await;
    let (_, good) = support::event(1);
    let lines = format!("{good}\n{{\"eventId\":7}}\n{good}\n");
    let (status, answer) = daemon.post("application/x-ndjson", lines).await;
    assert_eq!(status, 207, "{answer}");
    let statuses: Vec<&str> = answer["results"]
        .as_array()
        .expect("results")
        .iter()
        .map(|result| result["status"].as_str().expect("a status"))
        .collect();
    assert_eq!(statuses, ["accepted", "rejected", "duplicate"]);
    assert!(answer["results"][1]["code"].as_str().expect("a code").starts_with("event_"), "{answer}");
}
