//! What a page may do in a browser that sends cookies along by itself.

use reqwest::Method;
use serde_json::json;

use crate::place::{ALLOWED_ORIGIN, Asker, COOKIE, Place};
use crate::support::token::token;

fn not_allowed() -> (u16, String) {
    (403, "origin_not_allowed".to_owned())
}

/// Somebody whose browser has a token in a cookie.
fn browser(place: &Place) -> Asker {
    let token = token("ada", &json!({"channels": "*", "publish": "*", "admin": true}));
    place.nobody().with("Cookie", &format!("theme=dark; {COOKIE}={token}"))
}

fn foreign_origins(place: &Place) -> Vec<String> {
    let port = place.daemon.url.rsplit(':').next().expect("a port");
    let others = [
        "https://mallory.example",
        "null",
        "http://dashboard.example",
        "https://dashboard.example:8443",
        "https://dashboard.example.mallory.example",
        "https://DASHBOARD.example",
        "https://dashboard.example/",
        "file://",
        "",
    ];
    let near = [format!("http://localhost:{port}"), "http://127.0.0.1".to_owned()];
    others.into_iter().map(str::to_owned).chain(near).collect()
}

#[tokio::test]
async fn a_cookie_reads_for_who_holds_it() {
    let place = Place::open();
    place.publish("notes", &json!({"id": "n1"})).await;
    let browser = browser(&place);
    assert_eq!(browser.history("/api/v2/events?channels=notes").await, ["n1"]);
    assert_eq!(browser.get("/actors").await.status, 200);
    let (mut stream, connected) = browser.stream("/events?channels=notes").await;
    assert!(connected["expiresAt"].is_string(), "it ends with the token: {connected}");
    place.publish("notes", &json!({"id": "n2"})).await;
    assert_eq!(stream.next().await.expect("it goes on").last_event_id, "n2");
    let other = token("ada", &json!({"channels": "*"}));
    let unnamed = place.nobody().with("Cookie", &format!("token={other}; not_{COOKIE}={other}"));
    let refusal = unnamed.get("/api/v2/events?channels=notes").await.refusal();
    assert_eq!(refusal, (404, "unknown_channel".to_owned()), "other cookies say nothing");
}

#[tokio::test]
async fn a_cookie_changes_something_only_for_a_page_that_is_known() {
    let place = Place::open();
    let browser = browser(&place);
    let own = place.daemon.url.clone();
    let renewal = "/api/v2/sessions/6f1f6c3e-2b44-4a53-9c58-0d6a3d2f9b01/renew";
    let mut pages: Vec<Option<String>> = foreign_origins(&place).into_iter().map(Some).collect();
    pages.push(None);
    for page in pages {
        let browser = page.iter().fold(browser.clone(), |browser, origin| browser.with("Origin", origin));
        let published = browser.publish("notes", &json!({"id": "forged"})).await;
        assert_eq!(published.refusal(), not_allowed(), "{page:?}");
        assert_eq!(published.header("access-control-allow-origin"), None, "{page:?}");
        assert_eq!(browser.upgrade("/ws").await.err(), Some(not_allowed()), "{page:?}");
        for path in ["/api/v2/tickets", renewal] {
            assert_eq!(browser.post(path).await.refusal(), not_allowed(), "{page:?} {path}");
        }
        let path = "/api/v2/sessions?subject=ada";
        assert_eq!(browser.delete(path).await.refusal(), not_allowed(), "{page:?}");
    }
    assert!(browser.history("/api/v2/events?channels=notes").await.is_empty(), "nothing was taken");
    // Two origins are none.
    let two = browser.clone().with("Origin", ALLOWED_ORIGIN).with("Origin", ALLOWED_ORIGIN);
    assert_eq!(two.publish("notes", &json!({"id": "forged"})).await.refusal(), not_allowed());

    for (number, origin) in [own.as_str(), ALLOWED_ORIGIN].into_iter().enumerate() {
        let browser = browser.clone().with("Origin", origin);
        let published = browser.publish("notes", &json!({"id": format!("n{number}")})).await;
        assert_eq!(published.status, 200, "{origin}: {}", published.body);
        let (mut socket, _) = browser.socket("/ws").await;
        socket.follow("notes").await;
        browser.ticket().await;
    }
    // A token in a header is no cookie: no page of another site can send it.
    let bearer = place.administrator();
    assert_eq!(bearer.publish("notes", &json!({"id": "n2"})).await.status, 200);
    bearer.socket("/ws").await;
}

#[tokio::test]
async fn pages_of_other_sites_get_nothing_at_all() {
    let place = Place::open();
    for origin in foreign_origins(&place) {
        for asker in [place.nobody(), browser(&place), place.administrator()] {
            let page = asker.with("Origin", &origin);
            for path in ["/events?channels=news", "/api/v2/events?channels=news", "/livez", "/"] {
                let answer = page.get(path).await;
                assert_eq!(answer.refusal(), not_allowed(), "{origin}: {path}");
                assert_eq!(answer.header("access-control-allow-origin"), None, "{origin}: {path}");
            }
            assert_eq!(page.upgrade("/ws").await.err(), Some(not_allowed()), "{origin}");
            let preflight = page.clone().with("Access-Control-Request-Method", "POST");
            let answer = preflight.ask(Method::OPTIONS, "/api/v2/events", None).await;
            assert_eq!(answer.refusal(), not_allowed(), "{origin}: a preflight");
            assert_eq!(answer.header("access-control-allow-origin"), None, "{origin}: a preflight");
        }
    }
}

#[tokio::test]
async fn pages_of_the_allowed_origin_may_ask_and_read() {
    let place = Place::open();
    let page = place.nobody().with("Origin", ALLOWED_ORIGIN);
    let preflight = page
        .clone()
        .with("Access-Control-Request-Method", "POST")
        .with("Access-Control-Request-Headers", "authorization, content-type");
    for path in ["/api/v2/events", "/api/v2/tickets", "/events", "/actors"] {
        let answer = preflight.ask(Method::OPTIONS, path, None).await;
        assert!((200..300).contains(&answer.status), "{path}: {}", answer.status);
        assert_eq!(answer.header("access-control-allow-origin"), Some(ALLOWED_ORIGIN), "{path}");
        assert_eq!(answer.header("access-control-allow-credentials"), Some("true"), "{path}");
        let list = |name: &str| {
            let text = answer.header(name).unwrap_or_else(|| panic!("{path} says {name}")).to_lowercase();
            text.split(',').map(|word| word.trim().to_owned()).collect::<Vec<_>>()
        };
        let methods = list("access-control-allow-methods");
        assert!(
            ["get", "post", "delete"].iter().all(|name| methods.contains(&(*name).to_owned())),
            "{methods:?}"
        );
        let headers = list("access-control-allow-headers");
        for name in ["authorization", "content-type", "last-event-id"] {
            assert!(headers.contains(&name.to_owned()), "{path}: {headers:?}");
        }
    }
    let bearer = place.administrator().with("Origin", ALLOWED_ORIGIN);
    let rubbish = place.bearer("rubbish").with("Origin", ALLOWED_ORIGIN);
    let asked = [
        (&page, "/events?channels=news", 200),
        (&page, "/api/v2/events?channels=news", 200),
        (&page, "/api/v2/events?channels=notes", 404),
        (&bearer, "/events?channels=notes", 200),
        (&bearer, "/actors", 200),
        (&page, "/actors", 401),
        (&rubbish, "/events?channels=news", 401),
        (&page, "/api/v2/nothing", 404),
    ];
    for (asker, path, status) in asked {
        let answer = asker.get(path).await;
        assert_eq!(answer.status, status, "{path}");
        assert_eq!(answer.header("access-control-allow-origin"), Some(ALLOWED_ORIGIN), "{path}");
        assert_eq!(answer.header("access-control-allow-credentials"), Some("true"), "{path}");
        let varies = answer.header("vary").unwrap_or_default().to_lowercase();
        assert!(
            varies.split(',').any(|word| word.trim() == "origin"),
            "{path}: caches must know: {varies:?}"
        );
    }
    // Of pages that are the daemon's own, and of programs, no browser asks.
    let own = place.nobody().with("Origin", &place.daemon.url);
    for asker in [own, place.nobody()] {
        let answer = asker.get("/api/v2/events?channels=news").await;
        assert_eq!((answer.status, answer.header("access-control-allow-origin")), (200, None));
    }
}

#[tokio::test]
async fn a_name_that_is_no_text_or_stands_in_the_target_is_not_the_daemons_either() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let place = Place::open();
    let address = place.daemon.url.strip_prefix("http://").expect("an address");
    let requests: [&[u8]; 2] = [
        b"GET /livez HTTP/1.1\r\nHost: rebound\xff.example\r\n\r\n",
        b"GET http://rebound.example/livez HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ];
    for request in requests {
        let mut stream = tokio::net::TcpStream::connect(address).await.expect("it listens");
        stream.write_all(request).await.expect("it reads");
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.expect("it answers");
        assert_eq!(answer, *b"HTTP/1.1 421", "{}", request.escape_ascii());
    }
}

#[tokio::test]
async fn a_name_that_is_not_the_daemons_reaches_nothing() {
    let place = Place::open();
    let port = place.daemon.url.rsplit(':').next().expect("a port");
    let unknown = (421, "unknown_host".to_owned());
    let foreign = [
        "rebound.example".to_owned(),
        format!("rebound.example:{port}"),
        format!("127.0.0.1.example:{port}"),
    ];
    for host in foreign {
        // A page that has rebound its own name to this address is of the origin that it asks.
        let origin = format!("http://{host}");
        for asker in [place.nobody(), browser(&place).with("Origin", &origin), place.administrator()] {
            let asker = asker.with("Host", &host);
            for path in
                ["/events?channels=news", "/api/v2/events?channels=news", "/livez", "/readyz", "/", "/actors"]
            {
                assert_eq!(asker.get(path).await.refusal(), unknown, "{host}: {path}");
            }
            assert_eq!(asker.publish("notes", &json!({"id": "forged"})).await.refusal(), unknown, "{host}");
            assert_eq!(asker.upgrade("/ws").await.err(), Some(unknown.clone()), "{host}");
        }
    }
    for host in [format!("localhost:{port}"), "127.0.0.1".to_owned(), format!("LOCALHOST:{port}")] {
        assert_eq!(place.nobody().with("Host", &host).get("/livez").await.status, 200, "{host}");
    }
}
