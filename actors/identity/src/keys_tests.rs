use serde_json::{Value, json};

use super::*;
use crate::signing::{self, ED25519_PUBLIC, JWKS, P256_PUBLIC, RSA_PUBLIC};

/// RFC 7515, appendices A.1 to A.3: header and claims.
const CLAIMS: &str =
    "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";

fn set(keys: &Value) -> Result<KeySet, KeyError> {
    KeySet::from_jwks(json!({ "keys": keys }).to_string().as_bytes())
}

fn entries() -> Vec<Value> {
    let set: Value = serde_json::from_slice(JWKS).unwrap();
    set["keys"].as_array().unwrap().clone()
}

#[test]
fn signatures_of_the_standards_are_verified() {
    let secret = decode_base64url(
        b"AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow",
    );
    let keys = KeySet::from_hmac_secret(&secret.unwrap()).unwrap();
    let signature = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
    assert_verifies(&keys, &format!("eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.{CLAIMS}"), signature);

    let rsa = json!({ "kty": "RSA", "e": "AQAB", "n": concat!(
        "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SF",
        "d2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo",
        "7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkM",
        "Ls91kzk2PAcDTW9gb54h4FRWyuXpoQ"
    ) });
    let signature = concat!(
        "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdb",
        "F9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383",
        "LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWy",
        "wlVmtVrBp0igcN_IoypGlUPQGe77Rw"
    );
    assert_verifies(&set(&json!([rsa])).unwrap(), &format!("eyJhbGciOiJSUzI1NiJ9.{CLAIMS}"), signature);

    let ec = json!({ "kty": "EC", "crv": "P-256",
        "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0" });
    let signature = "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";
    assert_verifies(&set(&json!([ec])).unwrap(), &format!("eyJhbGciOiJFUzI1NiJ9.{CLAIMS}"), signature);

    // RFC 8037, appendix A.4.
    let okp = json!({ "kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo" });
    let signature = "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg";
    let message = "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc";
    assert_verifies(&set(&json!([okp])).unwrap(), message, signature);
}

fn assert_verifies(keys: &KeySet, message: &str, signature: &str) {
    let mut signature = decode_base64url(signature.as_bytes()).unwrap();
    assert!(keys.keys[0].verifies(message.as_bytes(), &signature), "{:?}", keys.keys[0]);
    signature[7] ^= 1;
    assert!(!keys.keys[0].verifies(message.as_bytes(), &signature), "{:?}", keys.keys[0]);
}

#[test]
fn a_pem_and_a_set_hold_the_same_keys() {
    let from_set = KeySet::from_jwks(JWKS).unwrap();
    assert_eq!((from_set.len(), from_set.skipped()), (3, 2));
    for (pem, algorithm, id) in [
        (RSA_PUBLIC, Algorithm::RS256, "rsa-1"),
        (P256_PUBLIC, Algorithm::ES256, "p256-1"),
        (ED25519_PUBLIC, Algorithm::EdDSA, "ed25519-1"),
    ] {
        let from_pem = KeySet::from_pem(pem).unwrap();
        let signature = signing::sign(algorithm, b"message");
        for key in [from_pem.find(algorithm, None).unwrap(), from_set.find(algorithm, Some(id)).unwrap()] {
            assert_eq!(key.algorithm(), algorithm);
            assert!(key.verifies(b"message", &signature), "{id}");
            assert!(!key.verifies(b"another message", &signature), "{id}");
        }
    }
}

#[test]
fn files_that_are_no_usable_public_key_are_refused() {
    let text = std::str::from_utf8(RSA_PUBLIC).unwrap();
    let cases: [(Vec<u8>, KeyError); 9] = [
        (include_bytes!("../tests/keys/rsa-private.pem").to_vec(), KeyError::Private),
        (include_bytes!("../tests/keys/rsa-1024-public.pem").to_vec(), KeyError::Length),
        (include_bytes!("../tests/keys/p384-public.pem").to_vec(), KeyError::Unsupported),
        (text.replace("PUBLIC KEY", "CERTIFICATE").into_bytes(), KeyError::Malformed),
        (text.repeat(2).into_bytes(), KeyError::Malformed),
        (text.as_bytes()[..text.len() / 2].to_vec(), KeyError::Malformed),
        (b"\xff\xfe".to_vec(), KeyError::Malformed),
        (Vec::new(), KeyError::Malformed),
        (vec![b' '; MAX_KEYS_BYTES + 1], KeyError::TooLarge),
    ];
    for (number, (pem, expected)) in cases.into_iter().enumerate() {
        assert_eq!(KeySet::from_pem(&pem).err(), Some(expected), "case {number}");
    }
}

#[test]
fn a_key_set_is_taken_whole_or_not_at_all() {
    let changed = |index: usize, member: &str, value: Value| {
        let mut keys = entries();
        keys[index][member] = value;
        set(&Value::from(keys)).err()
    };
    assert_eq!(changed(0, "d", json!("AQAB")), Some(KeyError::Private));
    assert_eq!(changed(4, "d", Value::Null), Some(KeyError::Private));
    assert_eq!(changed(4, "kty", json!("oct")), Some(KeyError::Private));
    assert_eq!(changed(1, "kid", json!("rsa-1")), Some(KeyError::DuplicateId));
    assert_eq!(changed(0, "kid", json!("x".repeat(MAX_KEY_ID_BYTES + 1))), Some(KeyError::Malformed));
    assert_eq!(changed(0, "kid", json!(7)), Some(KeyError::Malformed));
    assert_eq!(changed(0, "n", json!(signing::encode([0xff; 128]))), Some(KeyError::Length));
    assert_eq!(changed(0, "n", json!(signing::encode([0xff; 1025]))), Some(KeyError::Length));
    assert_eq!(changed(0, "n", json!("AQ==")), Some(KeyError::Malformed));
    assert_eq!(changed(1, "x", json!(signing::encode([1; 31]))), Some(KeyError::Malformed));
    assert_eq!(changed(2, "x", Value::Null), Some(KeyError::Malformed));
    assert_eq!(changed(3, "kty", Value::Null), Some(KeyError::Malformed));
    assert_eq!(set(&json!([])).err(), Some(KeyError::NoneUsable));
    assert_eq!(set(&json!([entries()[4]])).err(), Some(KeyError::NoneUsable));
    assert_eq!(set(&json!({})).err(), Some(KeyError::Malformed));
    let doubled = r#"{"keys":[{"kty":"EC","kty":"OKP"}]}"#;
    assert_eq!(KeySet::from_jwks(doubled.as_bytes()).err(), Some(KeyError::Malformed));
    assert_eq!(KeySet::from_jwks(&vec![b' '; MAX_KEYS_BYTES + 1]).err(), Some(KeyError::TooLarge));

    let mut many = vec![entries()[4].clone(); MAX_KEYS - 1];
    many.push(entries()[0].clone());
    assert_eq!(set(&Value::from(many.clone())).unwrap().skipped(), MAX_KEYS - 1);
    many.push(entries()[1].clone());
    assert_eq!(set(&Value::from(many)).err(), Some(KeyError::TooMany));
}

/// RFC 7517, appendix A.1: a key for encryption, and one for signatures.
#[test]
fn the_key_set_of_the_standard_is_read() {
    let document = json!({ "keys": [
        { "kty": "EC", "crv": "P-256", "x": "MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4",
          "y": "4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM", "use": "enc", "kid": "1" },
        { "kty": "RSA", "e": "AQAB", "alg": "RS256", "kid": "2011-04-29", "n": concat!(
            "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n",
            "3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zg",
            "dAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csF",
            "Cur-kEgU8awapJzKnqDKgw"
        ) },
    ] });
    let keys = KeySet::from_jwks(document.to_string().as_bytes()).unwrap();
    assert_eq!((keys.len(), keys.skipped()), (1, 1));
    assert!(keys.find(Algorithm::RS256, Some("2011-04-29")).is_ok());
    assert_eq!(keys.find(Algorithm::ES256, Some("1")).err(), Some(NoKey::Unknown));
}

#[test]
fn weak_rsa_numbers_are_no_key() {
    let modulus = |bits: usize, last: u8| {
        let mut modulus = vec![0xab; bits.div_ceil(8)];
        modulus[0] = u8::try_from(1_u16 << ((bits - 1) % 8)).unwrap();
        *modulus.last_mut().unwrap() = last;
        modulus
    };
    let read = |modulus: &[u8], exponent: &[u8]| {
        let (n, e) = (signing::encode(modulus), signing::encode(exponent));
        set(&json!([{ "kty": "RSA", "n": n, "e": e }])).err()
    };
    let common: &[u8] = &[1, 0, 1];
    let cases = [
        (modulus(2048, 1), common, None),
        (modulus(8192, 1), common, None),
        (modulus(2047, 1), common, Some(KeyError::Length)),
        (modulus(512, 1), common, Some(KeyError::Length)),
        (modulus(8193, 1), common, Some(KeyError::Length)),
        // Leading zeros make no key longer.
        ([vec![0; 128], modulus(1024, 1)].concat(), common, Some(KeyError::Length)),
        (vec![0; 256], common, Some(KeyError::Length)),
        (modulus(2048, 2), common, Some(KeyError::RsaNumbers)),
        (modulus(2048, 1), &[0], Some(KeyError::RsaNumbers)),
        (modulus(2048, 1), &[1], Some(KeyError::RsaNumbers)),
        (modulus(2048, 1), &[0, 0, 1], Some(KeyError::RsaNumbers)),
        (modulus(2048, 1), &[2], Some(KeyError::RsaNumbers)),
        (modulus(2048, 1), &[3], None),
        (modulus(2048, 1), &[1, 0, 0], Some(KeyError::RsaNumbers)),
        (modulus(2048, 1), &[1, 0xff, 0xff, 0xff, 0xff], None),
        (modulus(2048, 1), &[2, 0, 0, 0, 1], Some(KeyError::RsaNumbers)),
        (modulus(2048, 1), &[1; 9], Some(KeyError::RsaNumbers)),
    ];
    for (number, (modulus, exponent, expected)) in cases.into_iter().enumerate() {
        assert_eq!(read(&modulus, exponent), expected, "case {number}");
    }
}

#[test]
fn a_key_that_everybody_can_sign_for_is_none() {
    // Without knowing any secret: the neutral point and 0 are a signature of every text whose hash is a multiple of the
    // point's order, which is at most 8.
    let neutral = [vec![1], vec![0; 63]].concat();
    for y in SMALL_ORDER {
        for sign in [0, 0x80] {
            let mut point = y;
            point[31] |= sign;
            let entry = json!([{ "kty": "OKP", "crv": "Ed25519", "x": signing::encode(point) }]);
            assert_eq!(set(&entry).err(), Some(KeyError::SmallOrder), "{point:02x?}");
        }
        let unchecked = Key::new(None, Material::Ed25519(y));
        let forged = (0..200_u8).filter(|text| unchecked.verifies(&[*text], &neutral)).count();
        assert!(forged > 0, "the library knows {y:02x?} by now; then this room need not");
    }
}

#[test]
fn a_point_that_is_not_on_the_curve_verifies_nothing() {
    let mut off_curve = entries();
    off_curve[1]["y"] = json!(signing::encode([7; 32]));
    let keys = set(&Value::from(off_curve)).unwrap();
    let key = keys.find(Algorithm::ES256, Some("p256-1")).unwrap();
    assert!(!key.verifies(b"message", &signing::sign(Algorithm::ES256, b"message")));
}

#[test]
fn keys_that_are_not_for_checking_are_skipped() {
    let skipped = |member: &str, value: Value| {
        let mut keys = entries();
        keys[0][member] = value;
        set(&Value::from(keys)).unwrap().find(Algorithm::RS256, Some("rsa-1")).err()
    };
    assert_eq!(skipped("use", json!("sig")), None);
    assert_eq!(skipped("use", json!("enc")), Some(NoKey::Unknown));
    assert_eq!(skipped("key_ops", json!(["encrypt"])), Some(NoKey::Unknown));
    assert_eq!(skipped("alg", json!("PS256")), Some(NoKey::Unknown));
    assert_eq!(skipped("alg", json!("HS256")), Some(NoKey::Unknown));
    assert_eq!(skipped("kty", json!("AKP")), Some(NoKey::Unknown));
}

#[test]
fn a_secret_is_long_and_no_public_key() {
    assert_eq!(KeySet::from_hmac_secret(&[7; 31]).err(), Some(KeyError::Length));
    assert!(KeySet::from_hmac_secret(&[7; 32]).is_ok());
    assert_eq!(KeySet::from_hmac_secret(RSA_PUBLIC).err(), Some(KeyError::PemAsSecret));
}

#[test]
fn a_name_finds_one_key_or_none() {
    let keys = KeySet::from_hmac_secret(&[7; 32]).unwrap().and(KeySet::from_jwks(JWKS).unwrap());
    let find = |algorithm, id| keys.find(algorithm, id).map(Key::algorithm);
    assert_eq!(find(Algorithm::ES256, Some("p256-1")), Ok(Algorithm::ES256));
    assert_eq!(find(Algorithm::ES256, None), Ok(Algorithm::ES256));
    assert_eq!(find(Algorithm::ES256, Some("p256-2")), Err(NoKey::Unknown));
    assert_eq!(find(Algorithm::HS256, Some("p256-1")), Err(NoKey::OtherAlgorithm));
    assert_eq!(find(Algorithm::HS256, Some("any")), Ok(Algorithm::HS256));

    let mut twins = entries();
    twins.push(twins[1].clone());
    twins[5]["kid"] = json!("p256-2");
    let twins = set(&Value::from(twins)).unwrap();
    assert_eq!(twins.find(Algorithm::ES256, None).err(), Some(NoKey::Ambiguous));
    assert!(twins.find(Algorithm::ES256, Some("p256-2")).is_ok());

    let awaiting = KeySet::from_hmac_secret(&[7; 32]).unwrap().and(KeySet::awaiting_public_keys());
    assert_eq!(awaiting.find(Algorithm::ES256, Some("p256-1")).err(), Some(NoKey::NotFetched));
    assert!(awaiting.find(Algorithm::HS256, None).is_ok());
}

#[test]
fn keys_are_not_printed() {
    let printed = format!("{:?}", KeySet::from_hmac_secret(b"a secret that nobody ever prints").unwrap());
    assert_eq!(
        printed,
        "KeySet { keys: [Key { id: None, algorithm: HS256, .. }], skipped: 0, awaits_public_keys: false }"
    );
}
