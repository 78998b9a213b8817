use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::*;
use crate::signing::{
    self, ALL, HMAC_SECRET, JWKS, NOW, good_claims, good_header, good_token, name, token_of, token_with,
};

pub(super) fn keys() -> KeySet {
    let secret = KeySet::from_hmac_secret(HMAC_SECRET.as_bytes()).unwrap();
    secret.and(KeySet::from_jwks(JWKS).unwrap())
}

pub(super) fn now() -> Timestamp {
    Timestamp::from_second(NOW).unwrap()
}

pub(super) fn check(token: &str) -> Result<Principal, TokenError> {
    verify(token, &keys(), &Rules::new(&signing::config()), now())
}

/// What is tried, the token, and what it is refused with.
pub(super) type Attack = (String, String, TokenError);

/// Tries each, and says how many there were.
pub(super) fn refuse(attacks: impl IntoIterator<Item = Attack>) -> usize {
    let mut tried = 0;
    for (what, token, expected) in attacks {
        assert_eq!(check(&token), Err(expected), "{what}");
        tried += 1;
    }
    tried
}

pub(super) fn good_principal() -> Principal {
    Principal {
        subject: Some("ada".into()),
        tenant: Some("north".into()),
        reads: Patterns::new(["iceberg", "products.*"]).unwrap(),
        publishes: Patterns::new(["iceberg", "orders"]).unwrap(),
        is_administrator: false,
        expires_at: Some(Timestamp::from_second(NOW + 60 + 30).unwrap()),
    }
}

#[test]
fn a_good_token_of_each_algorithm_says_who_it_is() {
    for algorithm in ALL {
        assert_eq!(check(&good_token(algorithm)), Ok(good_principal()), "{algorithm:?}");
    }
}

pub(super) fn with_header(algorithm: Algorithm, change: impl FnOnce(&mut Json)) -> String {
    let mut header = good_header(algorithm);
    change(&mut header);
    token_of(algorithm, header.to_string(), good_claims().to_string())
}

#[test]
fn a_token_cut_anywhere_is_refused() {
    for algorithm in ALL {
        let good = good_token(algorithm);
        for length in 0..good.len() {
            let refused = check(&good[..length]).unwrap_err();
            let expected = [TokenError::Malformed, TokenError::SignatureInvalid];
            assert!(expected.contains(&refused), "{algorithm:?} cut to {length}: {refused:?}");
        }
    }
}

#[test]
fn a_token_signed_with_another_key_is_refused() {
    let stranger = KeySet::from_jwks(
        json!({ "keys": [
            { "kid": "p256-1", "kty": "EC", "crv": "P-256",
              "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
              "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0" },
        ] })
        .to_string()
        .as_bytes(),
    );
    let rules = Rules::new(&signing::config());
    let refused = verify(&good_token(Algorithm::ES256), &stranger.unwrap(), &rules, now());
    assert_eq!(refused, Err(TokenError::SignatureInvalid));
}

#[test]
fn an_algorithm_that_is_not_accepted_is_refused_although_its_key_is_there() {
    for algorithm in ALL {
        let mut config = signing::config();
        config.algorithms.retain(|accepted| *accepted != algorithm);
        let refused = verify(&good_token(algorithm), &keys(), &Rules::new(&config), now());
        assert_eq!(refused, Err(TokenError::AlgorithmRefused), "{}", name(algorithm));
    }
}

#[test]
fn a_token_without_a_key_id_needs_the_only_key() {
    let unnamed = with_header(Algorithm::ES256, |header| *header = json!({ "alg": "ES256" }));
    assert_eq!(check(&unnamed), Ok(good_principal()));
    let mut set: Json = serde_json::from_slice(JWKS).unwrap();
    let mut twin = set["keys"][1].clone();
    twin["kid"] = json!("p256-2");
    set["keys"].as_array_mut().unwrap().push(twin);
    let keys = KeySet::from_jwks(set.to_string().as_bytes()).unwrap();
    let rules = Rules::new(&signing::config());
    assert_eq!(verify(&unnamed, &keys, &rules, now()), Err(TokenError::AmbiguousKey));
    assert_eq!(verify(&good_token(Algorithm::ES256), &keys, &rules, now()), Ok(good_principal()));
}

#[test]
fn until_the_keys_were_fetched_nobody_is_refused_for_good() {
    let awaiting = KeySet::awaiting_public_keys();
    let refused = verify(&good_token(Algorithm::RS256), &awaiting, &Rules::new(&signing::config()), now());
    assert_eq!(refused, Err(TokenError::KeysUnavailable));
    assert_eq!(refused.unwrap_err().refusal().code(), "identity_unavailable");
}

#[test]
fn the_clock_skew_ends_to_the_nanosecond() {
    let cases = [
        // The token is over 30 s after its `exp`, not before, not later.
        (NOW + 60 + 30, -1, Ok(())),
        (NOW + 60 + 30, 0, Err(TokenError::Expired)),
        (NOW + 60 + 30, 1, Err(TokenError::Expired)),
        // It begins 30 s before its `nbf`.
        (NOW - 60 - 30, -1, Err(TokenError::NotYetValid)),
        (NOW - 60 - 30, 0, Ok(())),
    ];
    let token = good_token(Algorithm::EdDSA);
    let rules = Rules::new(&signing::config());
    for (second, nanosecond, expected) in cases {
        let at = Timestamp::from_nanosecond(i128::from(second) * 1_000_000_000 + nanosecond).unwrap();
        let answer = verify(&token, &keys(), &rules, at);
        if let Ok(principal) = &answer {
            assert!(principal.expires_at.unwrap() > at);
        }
        assert_eq!(answer.map(|_| ()), expected, "{at}");
    }
}

#[test]
fn the_last_time_that_can_be_named_does_not_overflow() {
    let token = token_with(Algorithm::EdDSA, "exp", json!(MAX_SECOND));
    assert_eq!(check(&token).unwrap().expires_at, Some(Timestamp::MAX));
}

#[test]
fn claims_are_found_where_the_configuration_says() {
    let mut config = signing::config();
    config.subject_claim = "user.name".to_owned();
    config.tenant_claim = "https://claims.example/tenant".to_owned();
    config.channels_claim = "access.freshet.read".to_owned();
    config.administrator_claim = "access.freshet.admin".to_owned();
    let mut claims = good_claims();
    claims["user"] = json!({ "name": "grace" });
    claims["https://claims.example/tenant"] = json!("south");
    claims["access"] = json!({ "freshet": { "read": "orders.* iceberg", "admin": true } });
    let header = good_header(Algorithm::HS256).to_string();
    let check = |claims: &str| {
        verify(&token_of(Algorithm::HS256, &header, claims), &keys(), &Rules::new(&config), now())
    };
    let expected = Principal {
        subject: Some("grace".into()),
        tenant: Some("south".into()),
        reads: Patterns::new(["orders.*", "iceberg"]).unwrap(),
        is_administrator: true,
        ..good_principal()
    };
    let text = claims.to_string();
    assert_eq!(check(&text), Ok(expected));
    let doubled = text.replacen(r#""admin":true"#, r#""admin":true,"admin":false"#, 1);
    assert_eq!(check(&doubled), Err(TokenError::DuplicateMember));
    claims["user"] = json!("grace");
    assert_eq!(check(&claims.to_string()), Err(TokenError::SubjectMissing));
}

#[test]
fn what_a_token_does_not_grant_is_not_granted() {
    let mut claims = good_claims();
    for claim in ["tenant", "channels", "publish", "nbf", "iat"] {
        claims.as_object_mut().unwrap().remove(claim);
    }
    claims["aud"] = json!(["other", "freshet"]);
    claims["admin"] = json!(false);
    let token = token_of(Algorithm::RS256, r#"{"alg":"RS256","typ":"at+JWT"}"#, claims.to_string());
    let expected = Principal {
        subject: Some("ada".into()),
        expires_at: good_principal().expires_at,
        ..Principal::default()
    };
    assert_eq!(check(&token), Ok(expected));
}

#[test]
fn the_audience_is_not_checked_where_it_is_switched_off_by_name() {
    let mut config = signing::config();
    config.audience = String::new();
    config.audience_not_checked = true;
    let token = token_with(Algorithm::HS256, "aud", json!("another"));
    assert_eq!(verify(&token, &keys(), &Rules::new(&config), now()), Ok(good_principal()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn one_changed_byte_never_makes_another_principal(
        algorithm in prop::sample::select(ALL.to_vec()),
        place in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let good = good_token(algorithm);
        let mut changed = good.clone().into_bytes();
        let place = place.index(changed.len());
        prop_assume!(changed[place] != byte);
        changed[place] = byte;
        let changed = String::from_utf8_lossy(&changed).into_owned();
        prop_assert!(check(&changed).is_err());
    }

    #[test]
    fn no_text_makes_it_panic_or_verifies(text in "[A-Za-z0-9_=+/. {}\"-]{0,200}") {
        prop_assert!(check(&text).is_err());
    }

    #[test]
    fn no_signed_objects_make_it_panic(
        header in "\\{(\"(alg|kid|crit|typ)\":(\"HS256\"|null|\\[\\]|1),?){0,3}\\}",
        claims in "\\{(\"(exp|nbf|aud|iss|sub)\":(\"freshet\"|null|\\[\"\"\\]|-?[0-9]{1,20}),?){0,5}\\}",
    ) {
        prop_assert!(check(&token_of(Algorithm::HS256, &header, &claims)).is_err());
    }
}
