//! Tokens that nobody may come in with. A wrong credential is refused, and never taken for none: that would let in, as
//! nobody, a client that believes to be somebody.

use serde_json::{Value, json};

use crate::place::{Asker, COOKIE, Place};
use crate::support::token::{ISSUER, Issuer, SECRET, claims, encode, hs256, message, now, token};

/// What an attack brings along.
struct Attack {
    name: String,
    headers: Vec<(&'static str, String)>,
    code: &'static str,
}

fn attack(name: impl Into<String>, headers: Vec<(&'static str, String)>) -> Attack {
    Attack { name: name.into(), headers, code: "token_invalid" }
}

fn bearing(name: impl Into<String>, token: &str) -> Attack {
    attack(name, vec![("Authorization", format!("Bearer {token}"))])
}

/// The claims that every attacker wants.
fn wanted() -> Value {
    claims("mallory", &json!({"admin": true, "channels": "*", "publish": "*", "tenant": "north"}))
}

fn wanted_with(name: &str, value: Value) -> Value {
    let mut claims = wanted();
    claims[name] = value;
    claims
}

fn wanted_without(name: &str) -> Value {
    let mut claims = wanted();
    claims.as_object_mut().expect("claims").remove(name);
    claims
}

fn header(algorithm: &str) -> Value {
    json!({"alg": algorithm, "typ": "JWT"})
}

fn signed(claims: &Value) -> String {
    hs256(SECRET, &header("HS256"), claims)
}

/// `levels` lists in each other.
fn deep(levels: usize) -> String {
    "[".repeat(levels) + &"]".repeat(levels)
}

/// Other algorithms than those of the keys (RFC 8725, section 2.1).
fn algorithms(issuer: &Issuer) -> Vec<Attack> {
    let mut attacks = Vec::new();
    for name in ["none", "None", "NONE", "nOnE", ""] {
        let message = message(&header(name), wanted().to_string());
        attacks.push(bearing(format!("alg {name:?} without a signature"), &format!("{message}.")));
        attacks.push(bearing(format!("alg {name:?} signed"), &hs256(SECRET, &header(name), &wanted())));
    }
    let without = message(&json!({"typ": "JWT"}), wanted().to_string());
    attacks.push(bearing("no alg", &format!("{without}.")));
    let unsigned = message(&header("HS256"), wanted().to_string());
    attacks.push(bearing("HS256 without a signature", &format!("{unsigned}.")));
    for (form, key_id, secret) in issuer.public_forms() {
        let name = format!("HS256 signed with {form}");
        attacks.push(bearing(&name, &hs256(&secret, &header("HS256"), &wanted())));
        let naming = json!({"alg": "HS256", "kid": key_id});
        attacks.push(bearing(format!("{name}, naming the key"), &hs256(&secret, &naming, &wanted())));
        let pretending = json!({"alg": "ES256", "kid": key_id});
        attacks.push(bearing(format!("{name}, as ES256"), &hs256(&secret, &pretending, &wanted())));
    }
    attacks.push(bearing("HS256 with no secret", &hs256("", &header("HS256"), &wanted())));
    attacks.push(bearing("HS256 with another secret", &hs256("another secret", &header("HS256"), &wanted())));
    attacks.push(bearing("HS384 in name", &hs256(SECRET, &header("HS384"), &wanted())));
    attacks.push(bearing("lower case", &hs256(SECRET, &header("hs256"), &wanted())));

    let stranger = Issuer::new();
    attacks.push(bearing("ES256 of a stranger", &stranger.es256(&wanted())));
    attacks.push(bearing("EdDSA of a stranger", &stranger.eddsa(&wanted())));
    let unknown = json!({"alg": "ES256", "kid": "of-a-stranger"});
    attacks.push(bearing("a key that is not known", &issuer.es256_of(&unknown, &wanted())));
    let path = json!({"alg": "ES256", "kid": "../../../../dev/null"});
    attacks.push(bearing("a key id that is a path", &issuer.es256_of(&path, &wanted())));
    let confused = json!({"alg": "EdDSA", "kid": "p256"});
    attacks.push(bearing("the key of ES256 for EdDSA", &issuer.es256_of(&confused, &wanted())));
    let confused = json!({"alg": "ES256", "kid": "ed25519"});
    attacks.push(bearing("the key of EdDSA for ES256", &issuer.eddsa_of(&confused, &wanted())));
    let key: Value = serde_json::from_str(&stranger.key_set()).expect("JSON");
    let brings = json!({"alg": "ES256", "jwk": key["keys"][0]});
    attacks.push(bearing("its own key", &stranger.es256_of(&brings, &wanted())));
    let points = json!({"alg": "ES256", "kid": "p256", "jku": "https://mallory.example/keys"});
    attacks.push(bearing("the address of its key", &stranger.es256_of(&points, &wanted())));
    attacks
}

/// Tokens of the issuer that are for another time, place or purpose.
fn misused(issuer: &Issuer) -> Vec<Attack> {
    let over = Attack {
        code: "token_expired",
        ..bearing("expired", &signed(&wanted_with("exp", json!(now() - 1))))
    };
    let es256 = issuer.es256(&wanted_with("exp", json!(now() - 1)));
    let over_too = Attack { code: "token_expired", ..bearing("expired, ES256", &es256) };
    let logout = json!({"alg": "HS256", "typ": "logout+jwt"});
    let critical = json!({"alg": "HS256", "crit": ["exp"], "exp": 0});
    vec![
        over,
        over_too,
        bearing("without an end", &signed(&wanted_without("exp"))),
        bearing("an end that is a text", &signed(&wanted_with("exp", json!("9999999999")))),
        bearing("an end that is no whole number", &signed(&wanted_with("exp", json!(1e12)))),
        bearing("not yet valid", &signed(&wanted_with("nbf", json!(now() + 300)))),
        bearing("another audience", &signed(&wanted_with("aud", json!("another")))),
        bearing("another audience that begins alike", &signed(&wanted_with("aud", json!("freshet2")))),
        bearing("other audiences", &signed(&wanted_with("aud", json!(["one", "two"])))),
        bearing("no audience", &signed(&wanted_without("aud"))),
        bearing("another issuer", &signed(&wanted_with("iss", json!("https://mallory.example")))),
        bearing(
            "an issuer that begins alike",
            &signed(&wanted_with("iss", json!(format!("{ISSUER}.mallory.example")))),
        ),
        bearing("no issuer", &signed(&wanted_without("iss"))),
        bearing("no subject", &signed(&wanted_without("sub"))),
        bearing("administrator by text", &signed(&wanted_with("admin", json!("true")))),
        bearing("two tenants", &signed(&wanted_with("tenant", json!(["north", "south"])))),
        bearing("too many patterns", &signed(&wanted_with("channels", json!(vec!["*"; 65])))),
        bearing("a token to log out", &hs256(SECRET, &logout, &wanted())),
        bearing("a critical extension", &hs256(SECRET, &critical, &wanted())),
    ]
}

/// What is no token, or was one.
fn mangled() -> Vec<Attack> {
    let good = token("ada", &json!({"channels": "*"}));
    let parts: Vec<&str> = good.split('.').collect();
    let raised = encode(wanted().to_string());
    let twice = format!(r#"{{"sub":"ada",{}"#, &wanted().to_string()[1..]);
    let sign = |claims: &str| {
        let message = message(&header("HS256"), claims);
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, SECRET.as_bytes());
        format!("{message}.{}", encode(ring::hmac::sign(&key, message.as_bytes())))
    };
    let claims_with = |text: &str| format!(r#"{{"deep":{text},{}"#, &wanted().to_string()[1..]);
    let wrapping = json!({"alg": "HS256", "cty": "JWT"});
    let wrapped = {
        let message = message(&wrapping, &good);
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, SECRET.as_bytes());
        format!("{message}.{}", encode(ring::hmac::sign(&key, message.as_bytes())))
    };
    // The last of 43 characters holds two bits that nothing stands for.
    let last = good.chars().next_back().expect("a character");
    let alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let place = alphabet.find(last).expect("base64url");
    let sibling = &alphabet[place ^ 1..=place ^ 1];
    vec![
        bearing("claims that were changed", &format!("{}.{raised}.{}", parts[0], parts[2])),
        bearing(
            "a header that was changed",
            &format!("{}.{}.{}", encode(r#"{"alg":"HS256"}"#), parts[1], parts[2]),
        ),
        bearing("without its last character", &good[..good.len() - 1]),
        bearing("another spelling of its last character", &format!("{}{sibling}", &good[..good.len() - 1])),
        bearing("half of it", &good[..good.len() / 2]),
        bearing("without its signature", &format!("{}.{}", parts[0], parts[1])),
        bearing("its claims alone", parts[1]),
        bearing("four parts", &format!("{good}.{}", parts[2])),
        bearing("padded", &format!("{good}=")),
        bearing("dots", ".."),
        bearing("no token", "rubbish"),
        bearing("huge", &sign(&claims_with(&format!("\"{}\"", "x".repeat(16 << 10))))),
        bearing("huge rubbish", &"A".repeat(32 << 10)),
        bearing("deeply nested claims", &sign(&claims_with(&deep(1000)))),
        bearing("a token in a token", &wrapped),
        bearing("a claim twice", &sign(&twice)),
        bearing("claims that are a list", &sign("[]")),
    ]
}

/// Credentials that are no bearer token, or more than one.
fn credentials() -> Vec<Attack> {
    let good = token("ada", &json!({"channels": "*"}));
    let bearer = || ("Authorization", format!("Bearer {good}"));
    let cookie = || ("Cookie", format!("{COOKIE}={good}"));
    let not_bearer = |name: &str, value: String| attack(name, vec![("Authorization", value)]);
    vec![
        attack("two headers", vec![bearer(), bearer()]),
        attack("a header and a cookie", vec![bearer(), cookie()]),
        attack("two cookies", vec![("Cookie", format!("{COOKIE}={good}; {COOKIE}={good}"))]),
        attack("an empty cookie", vec![("Cookie", format!("{COOKIE}="))]),
        attack("a cookie that is no token", vec![("Cookie", format!("theme=dark; {COOKIE}=rubbish"))]),
        not_bearer("Basic", "Basic YWRhOnNlY3JldA==".to_owned()),
        not_bearer("another scheme", format!("Token {good}")),
        not_bearer("no scheme", good.clone()),
        not_bearer("no token", "Bearer".to_owned()),
        not_bearer("an empty header", String::new()),
        not_bearer("two tokens", format!("Bearer {good} {good}")),
        not_bearer("two tokens with a comma", format!("Bearer {good}, Bearer {good}")),
    ]
}

/// Every way in, for a channel that nobody needs a token for.
async fn ways_in(asker: &Asker) -> Vec<(&'static str, (u16, String))> {
    let mut answers = Vec::new();
    for path in ["/api/v2/events?channels=news", "/api/v2/tables?channels=news", "/events?channels=news", "/"]
    {
        let answer = asker.get(path).await;
        let code = if answer.status == 200 { String::new() } else { answer.refusal().1 };
        answers.push((path, (answer.status, code)));
    }
    let upgraded = asker.clone().with("Origin", "https://dashboard.example").upgrade("/ws").await;
    answers.push(("/ws", upgraded.err().unwrap_or((101, String::new()))));
    let event = json!({"id": "x", "text": "of an attacker"});
    let published = asker.clone().with("Origin", "https://dashboard.example").publish("news", &event).await;
    answers.push(("publish", published.refusal()));
    answers
}

async fn all_are_refused(place: &Place, administrator: &Asker, attacks: &[Attack]) {
    for Attack { name, headers, code } in attacks {
        let asker = headers.iter().fold(place.nobody(), |asker, (header, value)| asker.with(header, value));
        for (way, answer) in ways_in(&asker).await {
            assert_eq!(answer, (401, (*code).to_owned()), "{name}: {way}");
        }
    }
    let history = administrator.history("/api/v2/events?channels=news").await;
    assert!(history.is_empty(), "nothing was published: {history:?}");
}

#[tokio::test]
async fn no_forged_mangled_or_misused_token_lets_anybody_in() {
    let place = Place::open();
    // Who brings nothing, and who brings what is right, comes in by all these ways.
    let nobody = ways_in(&place.nobody()).await;
    let statuses: Vec<u16> = nobody.iter().map(|(_, (status, _))| *status).collect();
    assert_eq!(statuses, [200, 200, 200, 200, 101, 404]);
    let good = claims("ada", &json!({"channels": "*"}));
    for token in [signed(&good), place.issuer.es256(&good), place.issuer.eddsa(&good)] {
        let answers = ways_in(&place.bearer(&token)).await;
        assert_eq!(answers, nobody, "it may read and not publish");
        assert_eq!(place.bearer(&token).post("/api/v2/tickets").await.status, 201, "it is known");
    }
    let administrator = place.administrator();
    all_are_refused(&place, &administrator, &algorithms(&place.issuer)).await;
    all_are_refused(&place, &administrator, &misused(&place.issuer)).await;
    all_are_refused(&place, &administrator, &mangled()).await;
    all_are_refused(&place, &administrator, &credentials()).await;
}

#[tokio::test]
async fn where_only_public_keys_are_accepted_no_secret_signs() {
    let place = Place::keyed("algorithms = [\"ES256\", \"EdDSA\"]");
    let administrator = place.bearer(&place.issuer.es256(&claims("root", &json!({"admin": true}))));
    assert_eq!(administrator.get("/actors").await.status, 200);
    let mut attacks = algorithms(&place.issuer);
    attacks.push(bearing("an algorithm that is not accepted", &signed(&wanted())));
    all_are_refused(&place, &administrator, &attacks).await;
}
