//! Tokens that lie about their algorithm, their key or their signature. Each is refused, and with which code.

use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA512, RSA_PSS_SHA256, RsaEncoding, RsaKeyPair};
use serde_json::{Value as Json, json};

use super::tests::{Attack, check, good_principal, refuse, with_header};
use super::*;
use crate::signing::{
    ALL, JWKS, P256_PUBLIC, RSA_PUBLIC, encode, good_claims, good_header, good_token, key_id, name,
    private_key, sign, sign_hmac,
};

/// The order of P-256's group, big-endian (SEC 2, section 2.4.2).
const P256_ORDER: [u8; 32] = [
    0xff, 0xff, 0xff, 0xff, 0x00, 0x00, 0x00, 0x00, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xbc,
    0xe6, 0xfa, 0xad, 0xa7, 0x17, 0x9e, 0x84, 0xf3, 0xb9, 0xca, 0xc2, 0xfc, 0x63, 0x25, 0x51,
];

/// The order of Ed25519's group, little-endian (RFC 8032, section 5.1).
const ED25519_ORDER: [u8; 32] = [
    0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
];

fn message_of(header: &Json) -> String {
    format!("{}.{}", encode(header.to_string()), encode(good_claims().to_string()))
}

fn der(pem: &[u8]) -> Vec<u8> {
    use rustls_pki_types::pem::PemObject;
    rustls_pki_types::SubjectPublicKeyInfoDer::from_pem_slice(pem).unwrap().to_vec()
}

/// Everything public that a careless verifier could take for the shared secret.
fn public_texts() -> Vec<(&'static str, Vec<u8>)> {
    let set: Json = serde_json::from_slice(JWKS).unwrap();
    let rsa = &set["keys"][0];
    let modulus = rsa["n"].as_str().unwrap().as_bytes();
    vec![
        ("RSA PEM", RSA_PUBLIC.to_vec()),
        ("RSA PEM, trimmed", RSA_PUBLIC.trim_ascii_end().to_vec()),
        ("RSA DER", der(RSA_PUBLIC)),
        ("RSA as JWK", rsa.to_string().into_bytes()),
        ("RSA modulus", decode_base64url(modulus).unwrap()),
        ("RSA modulus as text", modulus.to_vec()),
        ("EC PEM", P256_PUBLIC.to_vec()),
        ("EC DER", der(P256_PUBLIC)),
        ("the key set", JWKS.to_vec()),
        ("the key's name", b"rsa-1".to_vec()),
        ("nothing", Vec::new()),
    ]
}

#[test]
fn a_public_key_is_no_secret() {
    let mut attacks: Vec<Attack> = Vec::new();
    for (what, secret) in public_texts() {
        let mut attack = |header: Json, expected| {
            let message = message_of(&header);
            let token = format!("{message}.{}", encode(sign_hmac(&secret, message.as_bytes())));
            attacks.push((format!("{what} as secret, {header}"), token, expected));
        };
        for id in ["rsa-1", "p256-1", "ed25519-1"] {
            attack(json!({ "alg": "HS256", "kid": id }), TokenError::AlgorithmRefused);
        }
        attack(json!({ "alg": "HS256", "kid": "secret-1" }), TokenError::SignatureInvalid);
        attack(json!({ "alg": "HS256" }), TokenError::SignatureInvalid);
        // The hash as a signature of the key itself.
        attack(json!({ "alg": "RS256", "kid": "rsa-1" }), TokenError::SignatureInvalid);
        attack(json!({ "alg": "EdDSA", "kid": "ed25519-1" }), TokenError::SignatureInvalid);
    }
    assert_eq!(refuse(attacks), 77);
}

#[test]
fn one_keys_signature_is_not_anothers() {
    let mut attacks: Vec<Attack> = Vec::new();
    for named in ALL {
        for other in ALL {
            if named == other {
                continue;
            }
            let message = message_of(&good_header(named));
            let token = format!("{message}.{}", encode(sign(other, message.as_bytes())));
            let what = format!("{} signed with the key of {}", name(named), name(other));
            attacks.push((what, token, TokenError::SignatureInvalid));

            // Correctly signed, but the header names another key: that one's algorithm is not the header's, and the
            // name of the secret, which has none, is the name of no public key.
            let expected = match other {
                Algorithm::HS256 => TokenError::UnknownKey,
                _ => TokenError::AlgorithmRefused,
            };
            let token = with_header(named, |header| header["kid"] = json!(key_id(other)));
            attacks.push((format!("{} with kid {}", name(named), key_id(other)), token, expected));
        }
    }
    assert_eq!(refuse(attacks), 24);
}

#[test]
fn no_other_algorithm_is_one_and_none_least_of_all() {
    let spellings = [
        "none",
        "None",
        "NONE",
        "nOnE",
        "none ",
        " none",
        "none\u{0}",
        "",
        "null",
        "*",
        "es256",
        "ES256 ",
        "ES256,none",
        "HS384",
        "HS512",
        "RS384",
        "RS512",
        "PS256",
        "ES384",
        "ES512",
        "ES256K",
        "Ed25519",
        "dir",
        "RSA-OAEP",
        "ＥＳ256",
    ];
    let good = good_token(Algorithm::ES256);
    let (_, signature) = good.rsplit_once('.').unwrap();
    let mut attacks: Vec<Attack> = Vec::new();
    for spelling in spellings {
        for header in [json!({ "alg": spelling }), json!({ "alg": spelling, "kid": "p256-1", "typ": "JWT" })]
        {
            let message = message_of(&header);
            let refused = TokenError::AlgorithmRefused;
            attacks.push((format!("{header} without signature"), format!("{message}."), refused));
            attacks.push((format!("{header} with one"), format!("{message}.{signature}"), refused));
            attacks.push((format!("{header} with no dot for one"), message, TokenError::Malformed));
        }
    }
    for value in [Json::Null, json!(0), json!(false), json!(["ES256"]), json!({ "alg": "ES256" })] {
        let token = with_header(Algorithm::ES256, |header| header["alg"] = value.clone());
        attacks.push((format!("alg {value}"), token, TokenError::AlgorithmRefused));
    }
    for header in [json!({ "kid": "p256-1" }), json!({ "ALG": "ES256", "kid": "p256-1" }), json!({})] {
        let token = with_header(Algorithm::ES256, |good| *good = header.clone());
        attacks.push((format!("{header}"), token, TokenError::AlgorithmRefused));
    }
    // RFC 7519, section 6.1: the unsecured token of the standard.
    let unsecured = concat!(
        "eyJhbGciOiJub25lIn0.",
        "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ."
    );
    attacks.push(("of the standard".to_owned(), unsecured.to_owned(), TokenError::AlgorithmRefused));
    assert_eq!(refuse(attacks), spellings.len() * 6 + 9);
}

/// The message of a good token, and its signature.
fn good_parts(algorithm: Algorithm) -> (String, Vec<u8>) {
    let good = good_token(algorithm);
    let (message, signature) = good.rsplit_once('.').unwrap();
    (message.to_owned(), decode_base64url(signature.as_bytes()).unwrap())
}

fn refuse_signatures(algorithm: Algorithm, message: &str, signatures: &[(&str, Vec<u8>)]) {
    let tried = refuse(signatures.iter().map(|(what, signature)| {
        let token = format!("{message}.{}", encode(signature));
        (format!("{algorithm:?}: {what}"), token, TokenError::SignatureInvalid)
    }));
    assert_eq!(tried, signatures.len());
}

#[test]
fn a_signature_of_another_form_is_none() {
    for algorithm in ALL {
        let (message, good) = good_parts(algorithm);
        let length = good.len();
        let signatures = [
            ("none at all", Vec::new()),
            ("zeros", vec![0; length]),
            ("ones", vec![0xff; length]),
            ("one", [vec![0; length - 1], vec![1]].concat()),
            ("a byte less at the end", good[..length - 1].to_vec()),
            ("a byte less at the start", good[1..].to_vec()),
            ("half of it", good[..length / 2].to_vec()),
            ("a zero more at the end", [&good[..], &[0]].concat()),
            ("a zero more at the start", [&[0], &good[..]].concat()),
            ("twice", [&good[..], &good[..]].concat()),
            ("backwards", good.iter().rev().copied().collect()),
            ("as text", encode(&good).into_bytes()),
        ];
        refuse_signatures(algorithm, &message, &signatures);
    }
}

/// An ASN.1 integer of these big-endian bytes.
fn der_integer(bytes: &[u8]) -> Vec<u8> {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    let mut content = bytes[zeros..].to_vec();
    if content.first().is_none_or(|byte| byte & 0x80 != 0) {
        content.insert(0, 0);
    }
    [vec![2, u8::try_from(content.len()).unwrap()], content].concat()
}

#[test]
fn an_ecdsa_signature_is_two_numbers_of_32_bytes_within_the_group() {
    let (message, good) = good_parts(Algorithm::ES256);
    let (r, s) = good.split_at(32);
    let numbers = [der_integer(r), der_integer(s)].concat();
    let signatures = [
        ("DER", [vec![0x30, u8::try_from(numbers.len()).unwrap()], numbers].concat()),
        ("the halves changed", [s, r].concat()),
        ("r is 0", [&[0; 32], s].concat()),
        ("s is 0", [r, &[0; 32]].concat()),
        ("r is the order", [&P256_ORDER[..], s].concat()),
        ("s is the order", [r, &P256_ORDER[..]].concat()),
        ("both are the order", [P256_ORDER, P256_ORDER].concat()),
        ("of ES384's length", [&[0; 16], r, &[0; 16], s].concat()),
    ];
    refuse_signatures(Algorithm::ES256, &message, &signatures);
}

/// Who has (r, s) also has (r, n - s), which FIPS 186 calls valid; issuers send either. So a token has two spellings.
/// That is harmless as long as no token is remembered by its text, and none is here.
#[test]
fn the_twin_of_an_ecdsa_signature_names_the_same_principal() {
    let (message, good) = good_parts(Algorithm::ES256);
    let mut twin = good.clone();
    let mut borrow = 0;
    for index in (0..32).rev() {
        let difference = i16::from(P256_ORDER[index]) - i16::from(good[32 + index]) - borrow;
        borrow = i16::from(difference < 0);
        twin[32 + index] = u8::try_from(difference.rem_euclid(256)).unwrap();
    }
    assert_ne!(twin, good);
    assert_eq!(check(&format!("{message}.{}", encode(&twin))), Ok(good_principal()));
}

#[test]
fn an_ed25519_signature_has_one_spelling() {
    let (message, good) = good_parts(Algorithm::EdDSA);
    let mut twin = good.clone();
    let mut carry = 0;
    for index in 0..32 {
        let sum = u16::from(good[32 + index]) + u16::from(ED25519_ORDER[index]) + carry;
        carry = sum >> 8;
        twin[32 + index] = u8::try_from(sum & 0xff).unwrap();
    }
    let neutral = [vec![1], vec![0; 63]].concat();
    let signatures = [("the order added to s", twin), ("the neutral point and 0", neutral)];
    refuse_signatures(Algorithm::EdDSA, &message, &signatures);
}

fn sign_rsa(encoding: &'static dyn RsaEncoding, message: &str) -> Vec<u8> {
    let der = private_key(include_bytes!("../tests/keys/rsa-private.pem"));
    let key = RsaKeyPair::from_pkcs8(&der).unwrap();
    let mut signature = vec![0; key.public().modulus_len()];
    key.sign(encoding, &SystemRandom::new(), message.as_bytes(), &mut signature).unwrap();
    signature
}

#[test]
fn the_right_key_with_another_hash_or_padding_is_no_signature() {
    let (message, _) = good_parts(Algorithm::RS256);
    let signatures = [
        ("as PS256 has it", sign_rsa(&RSA_PSS_SHA256, &message)),
        ("as RS512 has it", sign_rsa(&RSA_PKCS1_SHA512, &message)),
    ];
    refuse_signatures(Algorithm::RS256, &message, &signatures);

    let (message, good) = good_parts(Algorithm::HS256);
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA512, crate::signing::HMAC_SECRET.as_bytes());
    let long = ring::hmac::sign(&key, message.as_bytes()).as_ref().to_vec();
    let signatures = [
        ("half of it", good[..16].to_vec()),
        ("as HS512 has it", long.clone()),
        ("half of that", long[..32].to_vec()),
    ];
    refuse_signatures(Algorithm::HS256, &message, &signatures);
}
