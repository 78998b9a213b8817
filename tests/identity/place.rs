//! A daemon that asks who clients are, and clients of all kinds that ask it.

use std::time::Duration;

use reqwest::Method;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};

use crate::support::PATIENCE;
use crate::support::daemon::{Daemon, Home};
use crate::support::sse::Client;
use crate::support::token::{AUDIENCE, ISSUER, Issuer, SECRET, token};
use crate::websocket::Socket;

/// The cookie that carries a token.
pub const COOKIE: &str = "freshet_token";
/// The origin whose pages may use the daemon.
pub const ALLOWED_ORIGIN: &str = "https://dashboard.example";

/// `news` is for all, `status` for those without a token too, `staff` for everybody with one, `iceberg` and `notes` for
/// those who were granted them, and of `commits` and `orders` each tenant has the room of its name.
const CHANNELS: &str = r#"
[[channel]]
name = "news"
format = "json"
id = "/id"
read = "public"

[[channel]]
name = "status"
format = "json"
id = "/id"

[[channel]]
name = "staff"
format = "json"
id = "/id"
read = "authenticated"

[[channel]]
name = "notes"
format = "json"
id = "/id"

[[channel]]
name = "commits"
room = "/payload/tenant"
rooms_are_tenants = true

[[channel]]
name = "orders"
format = "json"
id = "/id"
key = "/id"
room = "/tenant"
rooms_are_tenants = true
read = "authenticated"
"#;

/// A daemon with its issuer of tokens.
pub struct Place {
    pub daemon: Daemon,
    pub issuer: Issuer,
    _home: Home,
    _keys: tempfile::TempDir,
}

impl Place {
    /// One that takes a shared secret and public keys.
    pub fn open() -> Self {
        Self::open_with("")
    }

    /// The same with these lines of `[identity]` besides.
    pub fn open_with(more: &str) -> Self {
        Self::keyed(&format!(
            "algorithms = [\"HS256\", \"ES256\", \"EdDSA\"]\nhmac_secret = \"{SECRET}\"\n{more}"
        ))
    }

    /// One with these lines of `[identity]`, which say what tokens are signed with.
    pub fn keyed(identity: &str) -> Self {
        let issuer = Issuer::new();
        let keys = tempfile::tempdir().expect("a temporary directory");
        let key_set = keys.path().join("jwks.json");
        std::fs::write(&key_set, issuer.key_set()).expect("the key set is written");
        let home = Home::new(&format!(
            "[server]\nallowed_origins = [\"{ALLOWED_ORIGIN}\"]\n\n\
             [identity]\nmode = \"jwt\"\nissuer = \"{ISSUER}\"\naudience = \"{AUDIENCE}\"\nclock_skew_secs = 0\n\
             jwks_file = \"{}\"\ncookie_name = \"{COOKIE}\"\nanonymous_channels = [\"status\"]\n{identity}\n{CHANNELS}",
            key_set.display()
        ));
        Self { daemon: home.start(), issuer, _home: home, _keys: keys }
    }

    /// Stops the daemon and gives all that it has logged.
    pub async fn stop(mut self) -> Vec<String> {
        self.daemon.signal(nix::sys::signal::Signal::SIGTERM);
        assert_eq!(self.daemon.ended().await.code(), Some(0), "it ends well");
        self.daemon.log()
    }

    /// Nobody asks.
    pub fn nobody(&self) -> Asker {
        Asker { url: self.daemon.url.clone(), headers: Vec::new() }
    }

    /// The bearer of a token asks.
    pub fn bearer(&self, token: &str) -> Asker {
        self.nobody().with("Authorization", &format!("Bearer {token}"))
    }

    /// Somebody with these claims asks.
    pub fn somebody(&self, subject: &str, claims: &Value) -> Asker {
        self.bearer(&token(subject, claims))
    }

    /// An administrator asks.
    pub fn administrator(&self) -> Asker {
        self.somebody("root", &json!({"admin": true}))
    }

    /// An event is published, and is durable and new.
    pub async fn publish(&self, channel: &str, event: &Value) -> String {
        let answer = self.administrator().publish(channel, event).await;
        assert_eq!((answer.status, &answer.json()["accepted"]), (200, &json!(1)), "{}", answer.body);
        answer.json()["results"][0]["position"].as_str().expect("a position").to_owned()
    }
}

/// A commit of a tenant.
pub fn commit(id: &str, tenant: &str, table: &str) -> Value {
    json!({
        "eventId": id, "eventTimestamp": jiff::Timestamp::now().to_string(), "tableIdentifier": table,
        "eventType": "COMMIT_SUCCESS",
        "payload": {"operation": "append", "tenant": tenant, "summary": {"added-records": "7"}},
    })
}

/// A client that sends the same headers with all that it asks.
#[derive(Clone)]
pub struct Asker {
    url: String,
    headers: Vec<(String, String)>,
}

/// What was answered, without the body of a stream that has begun.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body)
            .unwrap_or_else(|error| panic!("{} {error}: {}", self.status, self.body))
    }

    /// The status, and the code of an error.
    pub fn refusal(&self) -> (u16, String) {
        (self.status, self.json()["code"].as_str().unwrap_or_default().to_owned())
    }

    /// All that a client can tell two answers apart by.
    pub fn seen(&self) -> (u16, String, Vec<(String, String)>) {
        let headers = self.headers.iter().filter(|(name, _)| *name != "date");
        let text = |value: &reqwest::header::HeaderValue| value.to_str().expect("text").to_owned();
        let mut headers: Vec<_> = headers.map(|(name, value)| (name.to_string(), text(value))).collect();
        headers.sort_unstable();
        (self.status, self.body.clone(), headers)
    }

    /// The header, which stands there once.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().expect("text"))
    }
}

impl Asker {
    /// The same with another header.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub async fn ask(&self, method: Method, path: &str, body: Option<String>) -> Answer {
        let client = reqwest::Client::builder().timeout(PATIENCE).build().expect("a client");
        let mut request = client.request(method, format!("{}{path}", self.url));
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        if let Some(body) = body {
            request = request.header("Content-Type", "application/json").body(body);
        }
        let response = request.send().await.expect("it answers");
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let is_stream = headers.get("content-type").is_some_and(|kind| kind == "text/event-stream");
        let body = if is_stream { String::new() } else { response.text().await.expect("the answer arrives") };
        Answer { status, headers, body }
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.ask(Method::GET, path, None).await
    }

    pub async fn post(&self, path: &str) -> Answer {
        self.ask(Method::POST, path, None).await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        self.ask(Method::DELETE, path, None).await
    }

    pub async fn publish(&self, channel: &str, event: &Value) -> Answer {
        let path = format!("/api/v2/events?channel={channel}");
        self.ask(Method::POST, &path, Some(event.to_string())).await
    }

    /// The ids of the events of a page of the history, newest first.
    pub async fn history(&self, path: &str) -> Vec<String> {
        let answer = self.get(path).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        let events = answer.json()["events"].as_array().expect("a list").clone();
        let id = |entry: &Value| {
            let event = &entry["event"];
            event["eventId"].as_str().or(event["id"].as_str()).expect("an id").to_owned()
        };
        events.iter().map(id).collect()
    }

    /// A ticket for who asks.
    pub async fn ticket(&self) -> String {
        let answer = self.post("/api/v2/tickets").await;
        assert_eq!(answer.status, 201, "{}", answer.body);
        answer.json()["ticket"].as_str().expect("a ticket").to_owned()
    }

    /// A live stream that has begun, and what its first block told.
    pub async fn stream(&self, path: &str) -> (Client, Value) {
        let headers = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let mut client = Client::connect_with(&format!("{}{path}", self.url), &headers).await;
        let connected = client.next().await.expect("the stream begins");
        assert_eq!(connected.kind, "connected", "{}", connected.data);
        (client, serde_json::from_str(&connected.data).expect("JSON"))
    }

    /// A WebSocket, or the refusal of one.
    pub async fn upgrade(&self, path: &str) -> Result<Socket, (u16, String)> {
        tokio::time::timeout(PATIENCE, Socket::open(&self.url, path, &self.headers))
            .await
            .expect("the upgrade is answered in time")
    }

    /// A WebSocket, and what its welcome told.
    pub async fn socket(&self, path: &str) -> (Socket, Value) {
        let mut socket = self.upgrade(path).await.unwrap_or_else(|refusal| panic!("{path}: {refusal:?}"));
        let welcome = socket.says().await;
        assert_eq!(welcome["type"], "welcome", "{welcome}");
        (socket, welcome)
    }
}

/// A second that lies so far ahead that what must happen before it does, and is reached soon.
pub fn soon() -> i64 {
    const AHEAD: Duration = Duration::from_secs(4);
    crate::support::token::now() + i64::try_from(AHEAD.as_secs()).expect("a few seconds")
}
