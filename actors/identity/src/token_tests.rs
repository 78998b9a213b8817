use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::*;
use crate::signing::{
    self, ALL, HMAC_SECRET, JWKS, NOW, RSA_PUBLIC, encode, good_claims, good_header, good_token, name,
    sign_hmac, token_of, token_with,
};

fn keys() -> KeySet {
    let secret = KeySet::from_hmac_secret(HMAC_SECRET.as_bytes()).unwrap();
    secret.and(KeySet::from_jwks(JWKS).unwrap())
}

fn now() -> Timestamp {
    Timestamp::from_second(NOW).unwrap()
}

fn check(token: &str) -> Result<Principal, TokenError> {
    verify(token, &keys(), &Rules::new(&signing::config()), now())
}

fn good_principal() -> Principal {
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

fn with_header(algorithm: Algorithm, change: impl FnOnce(&mut Json)) -> String {
    let mut header = good_header(algorithm);
    change(&mut header);
    token_of(algorithm, &header.to_string(), &good_claims().to_string())
}

fn header_with(member: &str, value: Json) -> String {
    with_header(Algorithm::ES256, |header| header[member] = value)
}

/// A token with this header whose signature is the hash with a secret that everybody knows.
fn signed_with_public_text(header: &Json, secret: &[u8]) -> String {
    let message = format!("{}.{}", encode(header.to_string()), encode(good_claims().to_string()));
    format!("{message}.{}", encode(sign_hmac(secret, message.as_bytes())))
}

fn der(pem: &[u8]) -> Vec<u8> {
    use rustls_pki_types::pem::PemObject;
    rustls_pki_types::SubjectPublicKeyInfoDer::from_pem_slice(pem).unwrap().to_vec()
}

fn key_confusion() -> Vec<(String, String, TokenError)> {
    let trimmed = RSA_PUBLIC.trim_ascii_end().to_vec();
    let mut attacks = Vec::new();
    for (what, secret) in [("PEM", RSA_PUBLIC.to_vec()), ("PEM, trimmed", trimmed), ("DER", der(RSA_PUBLIC))]
    {
        for (id, expected) in [
            (json!("rsa-1"), TokenError::AlgorithmRefused),
            (json!("secret-1"), TokenError::SignatureInvalid),
        ] {
            let header = json!({ "alg": "HS256", "kid": id });
            attacks.push((
                format!("the public key as secret, {what}, kid {id}"),
                signed_with_public_text(&header, &secret),
                expected,
            ));
        }
        let header = json!({ "alg": "RS256", "kid": "rsa-1" });
        let token = signed_with_public_text(&header, &secret);
        attacks.push((format!("a hash as RSA signature, {what}"), token, TokenError::SignatureInvalid));
    }
    attacks
}

fn no_algorithm() -> Vec<(String, String, TokenError)> {
    let mut attacks = Vec::new();
    for spelling in ["none", "None", "NONE", "nOnE", "none ", " none", "", "null", "es256", "ES256 ", "ES512"]
    {
        let header = json!({ "alg": spelling }).to_string();
        let message = format!("{}.{}", encode(header), encode(good_claims().to_string()));
        let (_, _, signature) = parts(&good_token(Algorithm::ES256));
        attacks.push((
            format!("alg {spelling:?} without signature"),
            format!("{message}."),
            TokenError::Malformed,
        ));
        attacks.push((
            format!("alg {spelling:?} with one"),
            format!("{message}.{signature}"),
            TokenError::AlgorithmRefused,
        ));
    }
    for value in [Json::Null, json!(0), json!(["ES256"]), json!({ "alg": "ES256" })] {
        attacks.push((format!("alg {value}"), header_with("alg", value), TokenError::AlgorithmRefused));
    }
    attacks.push((
        "no alg".to_owned(),
        with_header(Algorithm::ES256, |header| *header = json!({ "kid": "p256-1" })),
        TokenError::AlgorithmRefused,
    ));
    attacks.push((
        "another key's algorithm".to_owned(),
        header_with("alg", json!("EdDSA")),
        TokenError::AlgorithmRefused,
    ));
    attacks
}

fn parts(token: &str) -> (String, String, String) {
    let mut parts = token.split('.').map(str::to_owned);
    (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap())
}

fn forms() -> Vec<(String, String, TokenError)> {
    use TokenError::{DuplicateMember, Malformed, SignatureInvalid, TooLarge};
    let good = good_token(Algorithm::ES256);
    let (header, claims, signature) = parts(&good);
    let admin = encode(
        r#"{"iss":"https://issuer.example","aud":"freshet","sub":"ada","exp":9999999999,"admin":true}"#,
    );
    let plain = good_claims().to_string();
    let doubled = |text: &str| text.replacen('{', r#"{"\u0061ud":"other","#, 1);
    let filler = |bytes: usize| token_with(Algorithm::ES256, "filler", json!("x".repeat(bytes)));
    let mut attacks: Vec<(&str, String, TokenError)> = vec![
        ("empty", String::new(), Malformed),
        ("two parts", format!("{header}.{claims}"), Malformed),
        ("four parts", format!("{good}.{signature}"), Malformed),
        ("five parts, as an encrypted token has", format!("{good}.a.b"), Malformed),
        (
            "JSON instead of the compact form",
            json!({ "payload": claims, "signature": signature }).to_string(),
            Malformed,
        ),
        ("padding", format!("{good}=="), Malformed),
        ("white space before", format!(" {good}"), Malformed),
        ("a line break inside", good.replacen('.', ".\n", 1), Malformed),
        ("plain base64", format!("{header}.{claims}.{}", "+/".repeat(43)), Malformed),
        ("no header", format!(".{claims}.{signature}"), Malformed),
        ("no claims", format!("{header}..{signature}"), Malformed),
        ("header of the wrong type", token_of(Algorithm::ES256, "[]", &plain), Malformed),
        (
            "claims of the wrong type",
            token_of(Algorithm::ES256, &good_header(Algorithm::ES256).to_string(), "7"),
            Malformed,
        ),
        ("other claims under the old signature", format!("{header}.{admin}.{signature}"), SignatureInvalid),
        ("signature of zeros", format!("{header}.{claims}.{}", encode([0; 64])), SignatureInvalid),
        ("signature as DER", format!("{header}.{claims}.{}", encode([0x30; 70])), SignatureInvalid),
        (
            "twice aud",
            token_of(Algorithm::ES256, &good_header(Algorithm::ES256).to_string(), &doubled(&plain)),
            DuplicateMember,
        ),
        (
            "twice alg",
            token_of(Algorithm::ES256, r#"{"alg":"none","alg":"ES256","kid":"p256-1"}"#, &plain),
            DuplicateMember,
        ),
        ("huge", filler(MAX_TOKEN_BYTES), TooLarge),
        ("deep", token_of(Algorithm::ES256, &"[".repeat(3000), &plain), Malformed),
    ];
    for length in [1, header.len() - 1, header.len(), header.len() + 1, good.len() - signature.len() - 1] {
        attacks.push(("truncated before the signature", good[..length].to_owned(), Malformed));
    }
    attacks.push((
        "truncated after the second dot",
        good[..good.len() - signature.len()].to_owned(),
        Malformed,
    ));
    attacks.into_iter().map(|(what, token, expected)| (what.to_owned(), token, expected)).collect()
}

fn headers() -> Vec<(String, String, TokenError)> {
    use TokenError::{CriticalHeader, EmbeddedKey, KeyIdRefused, Nested, UnknownKey, WrongType};
    let own_key = json!({ "kty": "oct", "k": "AAAA" });
    let cases = [
        ("crit", json!(["exp"]), CriticalHeader),
        ("crit", json!([]), CriticalHeader),
        ("crit", Json::Null, CriticalHeader),
        ("cty", json!("JWT"), Nested),
        ("cty", json!("application/jwt"), Nested),
        ("jwk", own_key, EmbeddedKey),
        ("jwk", Json::Null, EmbeddedKey),
        ("jku", json!("https://attacker.example/jwks.json"), EmbeddedKey),
        ("x5u", json!("https://attacker.example/x5u"), EmbeddedKey),
        ("x5c", json!(["MIIB"]), EmbeddedKey),
        ("typ", json!("logout+jwt"), WrongType),
        ("typ", json!("application/dpop+jwt"), WrongType),
        ("typ", Json::Null, WrongType),
        ("kid", json!("p256-2"), UnknownKey),
        ("kid", json!("../../../dev/null"), UnknownKey),
        ("kid", json!(""), UnknownKey),
        ("kid", json!("x".repeat(MAX_KEY_ID_BYTES)), UnknownKey),
        ("kid", json!("x".repeat(MAX_KEY_ID_BYTES + 1)), KeyIdRefused),
        ("kid", json!(1), KeyIdRefused),
        ("kid", Json::Null, KeyIdRefused),
    ];
    let attack = |(member, value, expected): (&str, Json, TokenError)| {
        (format!("header {member}: {value}"), header_with(member, value), expected)
    };
    cases.into_iter().map(attack).collect()
}

fn claims() -> Vec<(String, String, TokenError)> {
    use TokenError::{
        ClaimMalformed, Expired, ExpiryMissing, NotYetValid, SubjectMissing, TooManyPatterns, WrongAudience,
        WrongIssuer,
    };
    let cases = [
        ("exp", Json::Null, ExpiryMissing),
        ("exp", json!(0), Expired),
        ("exp", json!(NOW - 30), Expired),
        ("exp", json!(NOW - 31), Expired),
        ("exp", json!(-1), ClaimMalformed),
        ("exp", json!(i64::MIN), ClaimMalformed),
        ("exp", json!(i64::MAX), ClaimMalformed),
        ("exp", json!(u64::MAX), ClaimMalformed),
        ("exp", json!(MAX_SECOND + 1), ClaimMalformed),
        ("exp", json!(1e300), ClaimMalformed),
        ("exp", json!(1_893_456_060.5), ClaimMalformed),
        ("exp", json!((NOW + 60).to_string()), ClaimMalformed),
        ("exp", json!([NOW + 60]), ClaimMalformed),
        ("exp", json!(true), ClaimMalformed),
        ("nbf", json!(NOW + 31), NotYetValid),
        ("nbf", json!(MAX_SECOND), NotYetValid),
        ("nbf", json!(-1), ClaimMalformed),
        ("nbf", json!("now"), ClaimMalformed),
        ("iss", Json::Null, WrongIssuer),
        ("iss", json!("https://issuer.example/"), WrongIssuer),
        ("iss", json!("https://issuer.example.attacker.example"), WrongIssuer),
        ("iss", json!(["https://issuer.example"]), ClaimMalformed),
        ("aud", Json::Null, WrongAudience),
        ("aud", json!("freshet2"), WrongAudience),
        ("aud", json!("Freshet"), WrongAudience),
        ("aud", json!("*"), WrongAudience),
        ("aud", json!(""), WrongAudience),
        ("aud", json!([]), WrongAudience),
        ("aud", json!(["other", "freshet "]), WrongAudience),
        ("aud", json!(["freshet", 7]), ClaimMalformed),
        ("aud", json!({ "freshet": true }), ClaimMalformed),
        ("sub", Json::Null, SubjectMissing),
        ("sub", json!(""), ClaimMalformed),
        ("sub", json!(7), ClaimMalformed),
        ("tenant", json!(""), ClaimMalformed),
        ("tenant", json!(["north", "south"]), ClaimMalformed),
        ("admin", json!("true"), ClaimMalformed),
        ("admin", json!(1), ClaimMalformed),
        ("channels", json!(["iceberg", ["orders"]]), ClaimMalformed),
        ("channels", json!({ "iceberg": true }), ClaimMalformed),
        ("channels", json!(vec!["a"; 65]), TooManyPatterns),
        ("channels", json!("x".repeat(257)), TooManyPatterns),
        ("publish", json!("a ".repeat(65)), TooManyPatterns),
    ];
    let attack = |(claim, value, expected): (&str, Json, TokenError)| {
        let token = token_with(Algorithm::ES256, claim, value.clone());
        (format!("claim {claim}: {:.60}", value.to_string()), token, expected)
    };
    cases.into_iter().map(attack).collect()
}

#[test]
fn every_attack_of_the_table_is_refused_with_its_code() {
    let table = [key_confusion(), no_algorithm(), forms(), headers(), claims()].concat();
    assert!(table.len() > 120, "{}", table.len());
    for (what, token, expected) in table {
        assert_eq!(check(&token), Err(expected), "{what}");
    }
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
    assert_eq!(refused.unwrap_err().client_code(), "identity_unavailable");
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
    let token = token_of(Algorithm::RS256, r#"{"alg":"RS256","typ":"at+JWT"}"#, &claims.to_string());
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
