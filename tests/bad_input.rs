//! Somebody sends rubbish, by every way in. Nothing stops, nothing is lost, and everything has a reason.

mod support;

use support::daemon::Home;
use support::service::Service;
use support::sse::Client;
use support::stomp::Producer;

const DESTINATION: &str = "/topic/ICEBERG_METADATA_EVENTS";

/// Rubbish and the code of its reason.
fn rubbish() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let (_, good) = support::event(0);
    let with = |from: &str, to: &str| {
        let changed = good.replace(from, to);
        assert_ne!(changed, good, "{from} is in the event");
        changed.into_bytes()
    };
    let mut invalid_utf8 = good.clone().into_bytes();
    let at = good.find("story").expect("a name");
    invalid_utf8[at] = 0xff;
    vec![
        ("not JSON", b"<xml/>".to_vec(), "event_not_json"),
        ("half an event", good.as_bytes()[..good.len() / 2].to_vec(), "event_not_json"),
        ("wrong type", with(r#""payload":{"#, r#""payload":7,"x":{"#), "event_wrong_type"),
        ("10 MB", with("s3://lake", &"x".repeat(10_000_000)), "event_too_large"),
        (
            "deep nesting",
            format!("{}{}", "[".repeat(100_000), "]".repeat(100_000)).into_bytes(),
            "event_too_deep",
        ),
        ("invalid UTF-8", invalid_utf8, "event_not_utf8"),
        ("missing field", with(r#""eventId""#, r#""eventName""#), "event_missing_field"),
        ("float id", with("9007199254740993", "9007199254740993.0"), "event_inexact_id"),
        ("exponent id", with("9007199254740993", "9.007199254740993e15"), "event_inexact_id"),
        ("NUL in the body", with("story", "st\0ry"), "event_not_json"),
    ]
}

#[tokio::test]
async fn rubbish_from_a_broker_ends_in_the_dead_letters() {
    let broker = Service::activemq();
    let home = Home::new(&format!(
        "[[stomp]]\nname = \"lake\"\nbrokers = [\"127.0.0.1:{}\"]\nflavour = \"activemq_classic\"\n\
         login = \"admin\"\npasscode = \"admin\"\nclient_id = \"freshet-rubbish\"\n",
        broker.port
    ));
    let daemon = home.start();
    support::eventually("it is subscribed", || async {
        (daemon.get("/readyz").await.0 == 200).then_some(())
    })
    .await;
    let mut dashboard = Client::connect(&format!("{}/events", daemon.url), None).await;
    let mut producer = Producer::connect(broker.port, "/", "admin", "admin").await;
    for (number, (_, body, _)) in rubbish().into_iter().enumerate() {
        producer.send_and_wait(DESTINATION, &body).await;
        let (event_id, good) = support::event(100 + number);
        producer.send_and_wait(DESTINATION, good.as_bytes()).await;
        assert_eq!(dashboard.next_commit().await.last_event_id, event_id, "good events go on");
    }

    // A batch that holds good and bad is published first and buried then.
    let letters = support::eventually("every piece of rubbish is buried", || async {
        let letters = daemon.json("/api/v2/dead-letters?limit=100").await;
        let letters = letters["deadLetters"].as_array().expect("a list").clone();
        (letters.len() >= rubbish().len()).then_some(letters)
    })
    .await;
    assert_eq!(letters.len(), rubbish().len());
    for (letter, (name, body, code)) in letters.iter().zip(rubbish()) {
        assert_eq!(letter["code"], code, "{name}: {letter}");
        assert_eq!(letter["source"], "lake", "{name}");
        let path = format!("/api/v2/dead-letters/{}/body", letter["id"]);
        let kept = reqwest::get(format!("{}{path}", daemon.url)).await.expect("it answers");
        assert_eq!(kept.status(), 200, "{name}");
        assert!(
            kept.bytes().await.expect("the body arrives") == body,
            "{name}: the bytes are kept as they came"
        );
    }
    assert_eq!(daemon.terminate().await.code(), Some(0));

    // What was buried was acknowledged: the broker does not bring it again.
    let daemon = home.start();
    support::eventually("it is subscribed", || async {
        (daemon.get("/readyz").await.0 == 200).then_some(())
    })
    .await;
    let mut dashboard = Client::connect(&format!("{}/events", daemon.url), None).await;
    let (event_id, good) = support::event(500);
    producer.send_and_wait(DESTINATION, good.as_bytes()).await;
    assert_eq!(dashboard.next_commit().await.last_event_id, event_id);
    let again = daemon.json("/api/v2/dead-letters?limit=100").await;
    assert_eq!(again["deadLetters"].as_array().expect("a list").len(), rubbish().len());
}

#[tokio::test]
async fn rubbish_by_http_is_a_4xx_with_its_reason() {
    let home = Home::new("");
    let daemon = home.start();
    let mut dashboard = Client::connect(&format!("{}/events", daemon.url), None).await;
    for (number, (name, body, code)) in rubbish().into_iter().enumerate() {
        let (status, answer) = daemon.post("application/json", body).await;
        assert!((400..500).contains(&status), "{name}: {status} {answer}");
        // What is wrong with the request as a whole refuses it; what is wrong with an event is its own result. An
        // array of arrays is a request with one event, which is none.
        let reason = if answer["code"] == "no_event_accepted" {
            &answer["results"][0]["code"]
        } else {
            &answer["code"]
        };
        let whole = matches!(reason.as_str(), Some("request_not_json" | "request_not_utf8"));
        assert!(reason == code || (whole && name == "deep nesting"), "{name}: {answer}");
        let (event_id, good) = support::event(number);
        let (status, answer) = daemon.post("application/json", good).await;
        assert_eq!(status, 200, "{name}: {answer}");
        assert_eq!(dashboard.next_commit().await.last_event_id, event_id);
    }
    for path in [
        "/api/v2/events?schemaChanged=perhaps",
        "/api/v2/events?cursor=rubbish",
        "/api/v2/events?limit=-1",
        "/api/v2/events?limit=100000",
        "/api/v2/events?from=yesterday",
        "/api/v2/tables?limit=0",
        "/api/v2/dead-letters?limit=x",
        "/events?schemaChanged=perhaps",
    ] {
        let (status, text) = daemon.get(path).await;
        assert_eq!(status, 400, "{path}: {text}");
        let answer: serde_json::Value = serde_json::from_str(&text).expect("errors are JSON");
        assert!(answer["error"].is_string() && answer["code"].is_string(), "{path}: {text}");
    }
    let (status, text) = daemon.get("/nowhere").await;
    assert_eq!(status, 404);
    assert_eq!(serde_json::from_str::<serde_json::Value>(&text).expect("JSON")["code"], "not_found");
    assert_eq!(daemon.terminate().await.code(), Some(0));
}
