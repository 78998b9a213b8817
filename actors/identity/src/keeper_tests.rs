use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use freshet_kernel::{NodeState, SupervisorSpec, Tree};
use jiff::Timestamp;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::config::{Algorithm, Config};
use crate::credentials::Credentials;
use crate::keys::MAX_KEYS_BYTES;
use crate::signing::{self, JWKS, NOW, good_token};
use crate::tickets::MemoryTicketStore;

/// Long against what a test takes, so that only what it asks for happens.
const NEVER: Duration = Duration::from_secs(3600);
const SOON: Duration = Duration::from_millis(5);

/// A web server that gives one prepared answer after another, and the last one for ever.
struct Issuer {
    url: String,
    seen: Arc<Mutex<Vec<String>>>,
    _server: task::TaskHandle<()>,
}

impl Issuer {
    async fn start(answers: impl IntoIterator<Item = Vec<u8>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/keys?v=1", listener.local_addr().unwrap());
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let requests = Arc::clone(&seen);
        let mut answers: VecDeque<Vec<u8>> = answers.into_iter().collect();
        let server = task::spawn("issuer", async move {
            loop {
                let (mut socket, _) = listener.accept().await.unwrap();
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    request.push(socket.read_u8().await.unwrap());
                }
                requests.lock().unwrap().push(String::from_utf8(request).unwrap());
                let answer =
                    if answers.len() > 1 { answers.pop_front().unwrap() } else { answers[0].clone() };
                // A client that has seen enough may be gone already.
                let _ = socket.write_all(&answer).await;
            }
        });
        Self { url, seen, _server: server }
    }

    fn requests(&self) -> usize {
        self.seen.lock().unwrap().len()
    }
}

fn ok(body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// The key set without its EC key.
fn without_p256() -> Vec<u8> {
    let mut set: Value = serde_json::from_slice(JWKS).unwrap();
    set["keys"].as_array_mut().unwrap().remove(1);
    set.to_string().into_bytes()
}

fn room(config: &Config) -> Authenticator {
    Authenticator::new(config, Arc::new(MemoryTicketStore::new(10))).unwrap()
}

fn by_url(issuer: &Issuer) -> Authenticator {
    let config = Config { jwks_url: issuer.url.clone(), jwks_timeout_secs: 5, ..signing::config() };
    assert_eq!(config.problems(), []);
    room(&config)
}

fn keep(room: &Authenticator, refresh: Duration, pause: Duration) -> Tree {
    let source = room.key_source().unwrap();
    let spec = spec("keys".to_owned(), room, source, Pace { refresh, pause });
    freshet_kernel::start(SupervisorSpec::new("root").child(spec))
}

/// The code that a good token is answered with, `ok` when it is taken.
async fn answer(room: &Authenticator, algorithm: Algorithm) -> &'static str {
    let bearer = format!("Bearer {}", good_token(algorithm));
    let credentials = Credentials { authorization: &[bearer.as_bytes()], ..Credentials::default() };
    let now = Timestamp::from_second(NOW).unwrap();
    match room.authenticate(credentials, now).await {
        Ok(_) => "ok",
        Err(error) if error.refusal().code() == "token_invalid" => error.code(),
        Err(error) => error.refusal().code(),
    }
}

/// Looks at the keeper until what is asked for is seen.
async fn until(tree: &Tree, seen: impl Fn(&NodeState, &Value) -> bool) {
    loop {
        let snapshot = tree.fresh_snapshot(Duration::from_secs(1)).await;
        let keeper = &snapshot.children[0];
        let observed = keeper.observed.as_ref().map_or(Value::Null, |observed| observed.value.clone());
        if seen(&keeper.state, &observed) {
            return;
        }
        tokio::task::yield_now().await;
    }
}

fn degraded_code(state: &NodeState) -> Option<&'static str> {
    match state {
        NodeState::Degraded { code, .. } => Some(code),
        _ => None,
    }
}

#[test]
fn tokens_wait_for_the_first_fetch_and_not_longer() {
    actix::System::new().block_on(async {
        let issuer = Issuer::start([ok(JWKS)]).await;
        let room = by_url(&issuer);
        assert_eq!(answer(&room, Algorithm::RS256).await, "identity_unavailable");
        assert_eq!(answer(&room, Algorithm::HS256).await, "ok");

        let mut keys = room.watch_keys();
        let tree = keep(&room, NEVER, NEVER);
        keys.changed().await.unwrap();
        for algorithm in signing::ALL {
            assert_eq!(answer(&room, algorithm).await, "ok", "{algorithm:?}");
        }
        let request = issuer.seen.lock().unwrap()[0].clone();
        assert!(request.starts_with("GET /keys?v=1 HTTP/1.1\r\n"), "{request}");
        assert!(request.contains("host: 127.0.0.1:"), "{request}");
        tree.shutdown().await;
    });
}

#[test]
fn an_unknown_key_is_asked_for_at_once() {
    actix::System::new().block_on(async {
        let issuer = Issuer::start([ok(&without_p256()), ok(JWKS)]).await;
        let room = by_url(&issuer);
        let mut keys = room.watch_keys();
        let tree = keep(&room, NEVER, SOON);
        keys.changed().await.unwrap();
        assert_eq!(answer(&room, Algorithm::ES256).await, "token_unknown_key");
        keys.changed().await.unwrap();
        assert_eq!(answer(&room, Algorithm::ES256).await, "ok");
        assert_eq!(issuer.requests(), 2);
        tree.shutdown().await;
    });
}

#[tokio::test(start_paused = true)]
async fn unknown_keys_cannot_make_it_hammer_the_issuer() {
    // The address is never asked here.
    let config = Config { jwks_url: "http://127.0.0.1:1/".to_owned(), ..signing::config() };
    let room = room(&config);
    let pace = Pace::of(&room, room.key_source().unwrap());
    let wait = async |is_address| {
        let start = tokio::time::Instant::now();
        turn(room.clone(), pace.refresh, pace.pause, is_address).await;
        start.elapsed().as_secs()
    };
    assert_eq!(wait(true).await, 300);
    for _ in 0..100 {
        assert_eq!(answer(&room, Algorithm::ES256).await, "identity_unavailable");
    }
    assert_eq!(wait(true).await, 10);
    // All hundred were one reason to fetch.
    assert_eq!(wait(true).await, 300);
    assert_eq!(answer(&room, Algorithm::ES256).await, "identity_unavailable");
    assert_eq!(wait(false).await, 300);
}

#[test]
fn keys_are_fetched_again_by_time_and_a_key_that_was_withdrawn_is_refused() {
    actix::System::new().block_on(async {
        let issuer = Issuer::start([ok(JWKS), ok(&without_p256())]).await;
        let room = by_url(&issuer);
        let mut keys = room.watch_keys();
        let tree = keep(&room, SOON, SOON);
        keys.changed().await.unwrap();
        keys.wait_for(|keys| keys.len() == 3).await.unwrap();
        assert_eq!(answer(&room, Algorithm::ES256).await, "token_unknown_key");
        assert_eq!(answer(&room, Algorithm::RS256).await, "ok");
        tree.shutdown().await;
    });
}

#[test]
fn while_the_issuer_gives_nothing_usable_the_last_good_keys_stay_in_use() {
    let too_large = [b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), vec![b' '; MAX_KEYS_BYTES + 1]].concat();
    let redirect =
        b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n".to_vec();
    let cases = [
        ("jwks_unreachable", b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n".to_vec()),
        ("jwks_unreachable", redirect),
        ("jwks_unreachable", b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"keys\":".to_vec()),
        ("jwks_unreachable", b"220 not a web server\r\n".to_vec()),
        ("jwks_unreachable", too_large),
        ("keys_refused", ok(b"<html>")),
        ("keys_refused", ok(br#"{"keys":[]}"#)),
    ];
    for (code, bad) in cases {
        actix::System::new().block_on(async {
            let issuer = Issuer::start([ok(JWKS), bad.clone(), ok(&without_p256())]).await;
            let room = by_url(&issuer);
            let mut keys = room.watch_keys();
            // After the failure it pauses until the test has looked.
            let tree = keep(&room, SOON, NEVER);
            keys.changed().await.unwrap();
            until(&tree, |state, observed| {
                degraded_code(state) == Some(code) && observed["failures"] == 1 && observed["keys"] == 4
            })
            .await;
            assert_eq!(answer(&room, Algorithm::ES256).await, "ok", "{code}");
            tree.shutdown().await;

            let tree = keep(&room, NEVER, SOON);
            keys.wait_for(|keys| keys.len() == 3).await.unwrap();
            until(&tree, |state, _| degraded_code(state).is_none()).await;
            tree.shutdown().await;
        });
    }
}

#[test]
fn a_key_file_that_changes_is_read_again_and_a_broken_one_is_not_used() {
    actix::System::new().block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("jwks.json");
        std::fs::write(&file, without_p256()).unwrap();
        let config = Config { jwks_file: file.display().to_string(), ..signing::config() };
        let room = room(&config);
        assert_eq!(answer(&room, Algorithm::ES256).await, "token_unknown_key");
        let mut keys = room.watch_keys();
        let tree = keep(&room, SOON, SOON);

        std::fs::write(&file, JWKS).unwrap();
        keys.wait_for(|keys| keys.len() == 4).await.unwrap();
        assert_eq!(answer(&room, Algorithm::ES256).await, "ok");

        std::fs::write(&file, &JWKS[..JWKS.len() / 2]).unwrap();
        until(&tree, |state, _| degraded_code(state) == Some("keys_refused")).await;
        std::fs::remove_file(&file).unwrap();
        until(&tree, |state, _| degraded_code(state) == Some("key_file_unreadable")).await;
        assert_eq!(answer(&room, Algorithm::ES256).await, "ok");

        std::fs::write(&file, without_p256()).unwrap();
        keys.wait_for(|keys| keys.len() == 3).await.unwrap();
        until(&tree, |state, _| degraded_code(state).is_none()).await;
        tree.shutdown().await;
    });
}

#[test]
fn without_public_keys_there_is_nothing_to_keep() {
    let config = Config { algorithms: vec![Algorithm::HS256], ..signing::config() };
    assert!(child("keys", &room(&config)).is_none());
    assert!(child("keys", &room(&Config::default())).is_none());
}

#[test]
fn the_pace_is_that_of_the_configuration() {
    actix::System::new().block_on(async {
        let issuer = Issuer::start([ok(JWKS)]).await;
        let room = by_url(&issuer);
        let pace = Pace::of(&room, room.key_source().unwrap());
        assert_eq!((pace.refresh, pace.pause), (Duration::from_secs(300), FETCH_PAUSE));
        assert!(child("keys", &room).is_some());
        assert_eq!(issuer.requests(), 0);
    });
}
