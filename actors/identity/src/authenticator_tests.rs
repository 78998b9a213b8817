use super::*;
use crate::signing::{self, ALL, NOW, good_token, token_with};
use crate::tickets::MemoryTicketStore;
use freshet_feed::channel::{self, ChannelName, Channels, Format, Read};
use freshet_feed::scope::{Denied, Rooms};
use serde_json::json;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(NOW + second).unwrap()
}

fn test_file(name: &str) -> String {
    format!("{}/tests/keys/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn config() -> Config {
    Config {
        jwks_file: test_file("jwks.json"),
        cookie_name: "session".to_owned(),
        anonymous_channels: vec!["news.*".to_owned()],
        ..signing::config()
    }
}

fn open(config: &Config) -> Result<Authenticator, IdentityError> {
    Authenticator::new(config, Arc::new(MemoryTicketStore::new(100)))
}

fn room() -> Authenticator {
    assert_eq!(config().problems(), []);
    open(&config()).unwrap()
}

async fn with_header(room: &Authenticator, value: &str) -> Result<Authenticated, AuthenticationError> {
    let authorization: &[&[u8]] = &[value.as_bytes()];
    room.authenticate(Credentials { authorization, ..Credentials::default() }, at(0)).await
}

async fn with_ticket(
    room: &Authenticator,
    ticket: &str,
    now: Timestamp,
) -> Result<Authenticated, AuthenticationError> {
    room.authenticate(Credentials { ticket: Some(ticket), ..Credentials::default() }, now).await
}

#[tokio::test]
async fn a_token_is_taken_from_the_header_or_the_cookie() {
    let room = room();
    for algorithm in ALL {
        let token = good_token(algorithm);
        let by_header = with_header(&room, &format!("Bearer {token}")).await.unwrap();
        assert_eq!(by_header.source, Source::Header);
        assert_eq!(by_header.principal.subject.as_deref(), Some("ada"));
        let cookie = format!("theme=dark; session={token}");
        let credentials = Credentials { cookies: &[cookie.as_bytes()], ..Credentials::default() };
        let by_cookie = room.authenticate(credentials, at(0)).await.unwrap();
        assert_eq!(by_cookie, Authenticated { source: Source::Cookie, ..by_header });
    }
}

#[tokio::test]
async fn without_a_credential_one_is_nobody_and_reads_what_nobody_may() {
    let nobody = room().authenticate(Credentials::default(), at(0)).await.unwrap();
    let expected = Principal { reads: Patterns::new(["news.*"]).unwrap(), ..Principal::default() };
    assert_eq!(nobody, Authenticated { principal: expected, source: Source::None });
    assert!(!nobody.principal.may_publish(&ChannelName::new("news.eu").unwrap()));
}

#[tokio::test]
async fn a_wrong_credential_is_never_taken_for_none() {
    let room = room();
    let expired = token_with(signing::ALL[0], "exp", json!(NOW - 60));
    let cases = [
        ("Bearer x".to_owned(), "token_malformed", "token_invalid"),
        ("Bearer".to_owned(), "credentials_not_bearer", "token_invalid"),
        (format!("Bearer {expired}"), "token_expired", "token_expired"),
    ];
    for (value, code, client_code) in cases {
        let refused = with_header(&room, &value).await.unwrap_err();
        assert_eq!((refused.code(), refused.refusal().code()), (code, client_code), "{value}");
    }
    let refused = with_ticket(&room, "", at(0)).await.unwrap_err();
    assert_eq!(refused.refusal().code(), "token_invalid");

    let bearer = format!("Bearer {}", good_token(ALL[0]));
    let credentials =
        Credentials { authorization: &[bearer.as_bytes()], ticket: Some("x"), ..Credentials::default() };
    let refused = room.authenticate(credentials, at(0)).await.unwrap_err();
    assert_eq!((refused.code(), refused.refusal().code()), ("credentials_several", "token_invalid"));
}

#[tokio::test]
async fn a_ticket_carries_its_principal_once_and_no_longer_than_its_token() {
    let room = room();
    let ada = with_header(&room, &format!("Bearer {}", good_token(ALL[1]))).await.unwrap().principal;
    let ticket = room.issue_ticket(&ada, at(0)).await.unwrap();
    let redeemed = with_ticket(&room, ticket.expose(), at(1)).await.unwrap();
    assert_eq!(redeemed, Authenticated { principal: ada.clone(), source: Source::Ticket });
    let replayed = with_ticket(&room, ticket.expose(), at(1)).await.unwrap_err();
    assert_eq!((replayed.code(), replayed.refusal().code()), ("ticket_unknown", "token_invalid"));

    let late = room.issue_ticket(&ada, at(89)).await.unwrap();
    let refused = with_ticket(&room, late.expose(), at(90)).await.unwrap_err();
    assert_eq!((refused.code(), refused.refusal().code()), ("ticket_token_expired", "token_expired"));
}

#[tokio::test]
async fn a_session_is_renewed_for_its_own_subject_only() {
    let room = room();
    let ada = with_header(&room, &format!("Bearer {}", good_token(ALL[2]))).await.unwrap().principal;
    let longer = token_with(ALL[2], "exp", json!(NOW + 600));
    let renewed = room.renew(&ada, Renewal::Token(&longer), at(0)).await.unwrap();
    assert_eq!(renewed, Principal { expires_at: Some(at(630)), ..ada.clone() });

    let ticket = room.issue_ticket(&renewed, at(0)).await.unwrap();
    assert_eq!(room.renew(&ada, Renewal::Ticket(ticket.expose()), at(0)).await, Ok(renewed));

    for (claim, value) in [("sub", json!("grace")), ("tenant", json!("south")), ("tenant", json!(null))] {
        let token = token_with(ALL[2], claim, value);
        let refused = room.renew(&ada, Renewal::Token(&token), at(0)).await;
        assert_eq!(refused, Err(AuthenticationError::AnotherSubject), "{claim}");
        assert_eq!(refused.unwrap_err().refusal().code(), "token_invalid");
        let nobody = room.renew(&Principal::default(), Renewal::Token(&token), at(0)).await;
        assert_eq!(nobody, Err(AuthenticationError::AnotherSubject), "{claim}");
    }
    let refused = room.renew(&ada, Renewal::Token(&longer), at(630)).await;
    assert_eq!(refused, Err(AuthenticationError::Token(TokenError::Expired)));
}

#[tokio::test]
async fn a_ticket_that_was_tried_for_another_session_is_used_up() {
    let room = room();
    let ada = with_header(&room, &format!("Bearer {}", good_token(ALL[2]))).await.unwrap().principal;
    let grace = Principal { subject: Some("grace".into()), ..ada.clone() };
    let ticket = room.issue_ticket(&ada, at(0)).await.unwrap();
    let refused = room.renew(&grace, Renewal::Ticket(ticket.expose()), at(0)).await;
    assert_eq!(refused, Err(AuthenticationError::AnotherSubject));
    let replayed = room.renew(&ada, Renewal::Ticket(ticket.expose()), at(0)).await;
    assert_eq!(replayed, Err(AuthenticationError::Ticket(TicketError::Unknown)));
}

#[tokio::test]
async fn a_ticket_is_for_somebody() {
    let room = room();
    let nobody = room.authenticate(Credentials::default(), at(0)).await.unwrap().principal;
    let refused = room.issue_ticket(&nobody, at(0)).await.unwrap_err();
    assert_eq!((refused.code(), refused.refusal().code()), ("ticket_for_nobody", "token_invalid"));

    // Pages work the same where nobody is asked: the ticket is issued, and then not looked at.
    let trusting = open(&Config::default()).unwrap();
    let ticket = trusting.issue_ticket(&Principal::everything(), at(0)).await.unwrap();
    for _ in 0..2 {
        let anybody = with_ticket(&trusting, ticket.expose(), at(0)).await.unwrap();
        assert_eq!(anybody.source, Source::None);
    }
}

#[tokio::test]
async fn the_bounds_of_tickets_are_those_of_the_configuration() {
    let room = open(&Config { tickets_per_subject_max: 1, ..config() }).unwrap();
    let ada = with_header(&room, &format!("Bearer {}", good_token(ALL[0]))).await.unwrap().principal;
    assert_eq!(room.ticket_ttl(), Duration::from_secs(30));
    room.issue_ticket(&ada, at(0)).await.unwrap();
    assert_eq!(room.issue_ticket(&ada, at(0)).await.unwrap_err(), TicketError::SubjectFull);
}

#[tokio::test]
async fn without_authentication_everybody_may_do_everything() {
    let room = open(&Config::default()).unwrap();
    let anybody = with_header(&room, "Bearer nonsense").await.unwrap();
    assert_eq!(anybody, Authenticated { principal: Principal::everything(), source: Source::None });
}

#[test]
fn files_that_cannot_be_used_stop_the_start() {
    let cases = [
        (Config { jwks_file: test_file("missing.json"), ..config() }, "key_file_unreadable"),
        (Config { jwks_file: test_file("rsa-public.pem"), ..config() }, "keys_refused"),
        (
            Config { jwks_file: String::new(), public_key_file: test_file("rsa-private.pem"), ..config() },
            "keys_refused",
        ),
    ];
    for (config, expected) in cases {
        match open(&config).err().expect("refused") {
            IdentityError::Load(error) => assert_eq!(error.code(), expected),
            error => panic!("{error}"),
        }
    }
    let secret = Config { hmac_secret: freshet_feed::Secret::new("short"), ..config() };
    assert!(matches!(open(&secret), Err(IdentityError::Secret(KeyError::Length))));
    let patterns = Config { anonymous_channels: vec![String::new(); 65], ..config() };
    assert!(matches!(open(&patterns), Err(IdentityError::AnonymousChannels(_))));
}

#[test]
fn a_pem_is_enough_for_its_algorithm() {
    let only = Config {
        algorithms: vec![Algorithm::EdDSA],
        hmac_secret: freshet_feed::Secret::default(),
        jwks_file: String::new(),
        public_key_file: test_file("ed25519-public.pem"),
        ..config()
    };
    assert_eq!(only.problems(), []);
    let room = open(&only).unwrap();
    assert!(room.verify(&good_token(Algorithm::EdDSA), at(0)).is_ok());
    assert_eq!(room.verify(&good_token(Algorithm::RS256), at(0)), Err(TokenError::AlgorithmRefused));
}

/// Table commits for those who were granted them, orders by tenant, and news for everybody with a token.
fn channels() -> Channels {
    let declare = |name: &str, read, room: &str| channel::Config {
        name: name.to_owned(),
        format: Format::Json,
        room: room.to_owned(),
        rooms_are_tenants: !room.is_empty(),
        read,
        ..channel::Config::default()
    };
    let declared = [
        declare("orders", Read::Granted, "/tenant"),
        declare("orders.secret", Read::Granted, ""),
        declare("news", Read::Authenticated, ""),
    ];
    for config in &declared {
        assert_eq!(config.problems(), []);
    }
    Channels::new(&declared)
}

#[tokio::test]
async fn a_token_opens_what_it_names_and_its_own_tenants_rooms() {
    let (room, channels) = (room(), channels());
    let token = token_with(ALL[3], "channels", json!(["orders", "ord?rs"]));
    let ada = with_header(&room, &format!("Bearer {token}")).await.unwrap().principal;
    let own = channels.scope(&ada, ["orders", "news"], []).unwrap();
    let north = Rooms::Only(vec!["north".into()]);
    assert_eq!(own.rooms_of(&ChannelName::new("orders").unwrap()), Some(&north));
    let attacks = [
        ("orders", Some("south"), Denied::UnknownRoom),
        ("orders", Some("*"), Denied::UnknownRoom),
        ("orders", Some("nort?"), Denied::UnknownRoom),
        ("orders", Some("North"), Denied::UnknownRoom),
        ("orders", Some(""), Denied::UnknownRoom),
        ("orders.secret", None, Denied::UnknownChannel),
        ("orders*", None, Denied::UnknownChannel),
        ("*", None, Denied::UnknownChannel),
        ("no-such-channel", None, Denied::UnknownChannel),
    ];
    for (channel, wanted, expected) in attacks {
        assert_eq!(channels.scope(&ada, [channel], wanted), Err(expected), "{channel} {wanted:?}");
    }

    // Everything is every channel, and still only its own tenant; a tenant's name is no pattern either.
    for (tenant, foreign) in [("north", "south"), ("*", "north"), ("nort?", "north"), ("NORTH", "north")] {
        let mut claims = signing::good_claims();
        (claims["channels"], claims["tenant"]) = (json!("*"), json!(tenant));
        let header = signing::good_header(ALL[3]).to_string();
        let token = signing::token_of(ALL[3], header, claims.to_string());
        let greedy = with_header(&room, &format!("Bearer {token}")).await.unwrap().principal;
        assert!(!greedy.is_administrator);
        assert!(!greedy.may_publish(&ChannelName::new("orders.secret").unwrap()));
        assert_eq!(channels.scope(&greedy, ["orders"], [foreign]), Err(Denied::UnknownRoom), "{tenant}");
        let own = channels.scope(&greedy, ["orders", "orders.secret"], []).unwrap();
        let rooms = own.rooms_of(&ChannelName::new("orders").unwrap()).unwrap();
        assert!(!rooms.hold(Some(foreign)) && !rooms.hold(None) && rooms.hold(Some(tenant)), "{tenant}");
    }

    let homeless = token_with(ALL[3], "tenant", json!(null));
    let homeless = with_header(&room, &format!("Bearer {homeless}")).await.unwrap().principal;
    assert_eq!(channels.scope(&homeless, ["orders"], []), Err(Denied::UnknownChannel));
    let nobody = room.authenticate(Credentials::default(), at(0)).await.unwrap().principal;
    assert_eq!(channels.scope(&nobody, ["news"], []), Err(Denied::UnknownChannel));
}
