//! Signs tokens for the tests, with the keys in `tests/keys`.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
};
use rustls_pki_types::PrivatePkcs8KeyDer;
use rustls_pki_types::pem::PemObject;
use serde_json::{Value, json};

use crate::config::{Algorithm, Config, Mode};
use freshet_feed::Secret;

pub const HMAC_SECRET: &str = "0123456789abcdef0123456789abcdef";
pub const RSA_PUBLIC: &[u8] = include_bytes!("../tests/keys/rsa-public.pem");
pub const P256_PUBLIC: &[u8] = include_bytes!("../tests/keys/p256-public.pem");
pub const ED25519_PUBLIC: &[u8] = include_bytes!("../tests/keys/ed25519-public.pem");
pub const JWKS: &[u8] = include_bytes!("../tests/keys/jwks.json");

/// The moment of all tests: 2030-01-01T00:00:00Z.
pub const NOW: i64 = 1_893_456_000;

pub fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

pub fn private_key(pem: &[u8]) -> Vec<u8> {
    PrivatePkcs8KeyDer::from_pem_slice(pem).unwrap().secret_pkcs8_der().to_vec()
}

pub fn sign(algorithm: Algorithm, message: &[u8]) -> Vec<u8> {
    let random = SystemRandom::new();
    match algorithm {
        Algorithm::HS256 => sign_hmac(HMAC_SECRET.as_bytes(), message),
        Algorithm::RS256 => {
            let der = private_key(include_bytes!("../tests/keys/rsa-private.pem"));
            let key = RsaKeyPair::from_pkcs8(&der).unwrap();
            let mut signature = vec![0; key.public().modulus_len()];
            key.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature).unwrap();
            signature
        }
        Algorithm::ES256 => {
            let der = private_key(include_bytes!("../tests/keys/p256-private.pem"));
            let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der, &random).unwrap();
            key.sign(&random, message).unwrap().as_ref().to_vec()
        }
        Algorithm::EdDSA => {
            let der = private_key(include_bytes!("../tests/keys/ed25519-private.pem"));
            Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der).unwrap().sign(message).as_ref().to_vec()
        }
    }
}

pub fn sign_hmac(secret: &[u8], message: &[u8]) -> Vec<u8> {
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret);
    ring::hmac::sign(&key, message).as_ref().to_vec()
}

/// A token of exactly these texts.
pub fn token_of(algorithm: Algorithm, header: impl AsRef<[u8]>, claims: impl AsRef<[u8]>) -> String {
    signed(algorithm, &format!("{}.{}", encode(header), encode(claims)))
}

/// A token of these two parts as they are, correctly signed.
pub fn signed(algorithm: Algorithm, message: &str) -> String {
    format!("{message}.{}", encode(sign(algorithm, message.as_bytes())))
}

pub fn name(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::HS256 => "HS256",
        Algorithm::RS256 => "RS256",
        Algorithm::ES256 => "ES256",
        Algorithm::EdDSA => "EdDSA",
    }
}

pub fn good_header(algorithm: Algorithm) -> Value {
    json!({ "alg": name(algorithm), "kid": key_id(algorithm), "typ": "JWT" })
}

pub fn key_id(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::HS256 => "secret-1",
        Algorithm::RS256 => "rsa-1",
        Algorithm::ES256 => "p256-1",
        Algorithm::EdDSA => "ed25519-1",
    }
}

/// Ends a minute after [`NOW`].
pub fn good_claims() -> Value {
    json!({
        "iss": "https://issuer.example",
        "aud": "freshet",
        "sub": "ada",
        "tenant": "north",
        "channels": ["iceberg", "products.*"],
        "publish": "iceberg orders",
        "iat": NOW - 60,
        "nbf": NOW - 60,
        "exp": NOW + 60,
    })
}

pub fn good_token(algorithm: Algorithm) -> String {
    token_of(algorithm, good_header(algorithm).to_string(), good_claims().to_string())
}

/// A good token but for one claim.
pub fn token_with(algorithm: Algorithm, claim: &str, value: Value) -> String {
    let mut claims = good_claims();
    claims[claim] = value;
    token_of(algorithm, good_header(algorithm).to_string(), claims.to_string())
}

pub const ALL: [Algorithm; 4] = [Algorithm::HS256, Algorithm::RS256, Algorithm::ES256, Algorithm::EdDSA];

/// All four algorithms, a minute of validity, half a minute of skew. The caller adds the public keys.
pub fn config() -> Config {
    Config {
        mode: Mode::Jwt,
        algorithms: ALL.to_vec(),
        hmac_secret: Secret::new(HMAC_SECRET),
        issuer: "https://issuer.example".to_owned(),
        audience: "freshet".to_owned(),
        clock_skew_secs: 30,
        ..Config::default()
    }
}
