//! An issuer of signed tokens (RFC 7519) with keys of its own, that can also sign what no honest issuer would.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};

/// The `iss` of its tokens.
pub const ISSUER: &str = "https://issuer.example";
/// The `aud` of its tokens.
pub const AUDIENCE: &str = "freshet";
/// What it shares with the daemon for HS256.
pub const SECRET: &str = "a shared secret of the stories, long enough";

const P256_KEY_ID: &str = "p256";
const ED25519_KEY_ID: &str = "ed25519";
/// What stands before the point in the DER of a public key on P-256 (RFC 5480).
const P256_SPKI_PREFIX: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86,
    0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// Issues tokens.
pub struct Issuer {
    p256: EcdsaKeyPair,
    ed25519: Ed25519KeyPair,
}

/// Base64url without padding.
pub fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// This second.
pub fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

/// Claims of a subject that are good for ten minutes, with these besides or instead.
pub fn claims(subject: &str, more: &Value) -> Value {
    let mut claims =
        json!({"iss": ISSUER, "aud": AUDIENCE, "sub": subject, "iat": now() - 1, "exp": now() + 600});
    for (name, value) in more.as_object().expect("claims are an object") {
        claims[name] = value.clone();
    }
    claims
}

/// The header and the claims, ready to be signed.
pub fn message(header: &Value, claims: impl AsRef<[u8]>) -> String {
    format!("{}.{}", encode(header.to_string()), encode(claims))
}

/// A token signed with HS256 and any secret.
pub fn hs256(secret: impl AsRef<[u8]>, header: &Value, claims: &Value) -> String {
    let message = message(header, claims.to_string());
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_ref());
    format!("{message}.{}", encode(hmac::sign(&key, message.as_bytes())))
}

/// A token as the issuer makes it for most.
pub fn token(subject: &str, more: &Value) -> String {
    hs256(SECRET, &json!({"alg": "HS256", "typ": "JWT"}), &claims(subject, more))
}

impl Issuer {
    /// One with new keys.
    pub fn new() -> Self {
        let random = SystemRandom::new();
        let p256 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).expect("a key");
        let ed25519 = Ed25519KeyPair::generate_pkcs8(&random).expect("a key");
        Self {
            p256: EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, p256.as_ref(), &random)
                .expect("a key"),
            ed25519: Ed25519KeyPair::from_pkcs8(ed25519.as_ref()).expect("a key"),
        }
    }

    /// Its public keys as a JSON Web Key Set.
    pub fn key_set(&self) -> String {
        let point = self.p256.public_key().as_ref();
        let keys = json!({"keys": [
            {"kty": "EC", "crv": "P-256", "kid": P256_KEY_ID, "use": "sig", "alg": "ES256",
             "x": encode(&point[1..33]), "y": encode(&point[33..])},
            {"kty": "OKP", "crv": "Ed25519", "kid": ED25519_KEY_ID, "use": "sig", "alg": "EdDSA",
             "x": encode(self.ed25519.public_key())},
        ]});
        keys.to_string()
    }

    /// A token signed with ES256.
    pub fn es256(&self, claims: &Value) -> String {
        self.es256_of(&json!({"alg": "ES256", "kid": P256_KEY_ID}), claims)
    }

    /// A token signed with the key of ES256, whatever its header says.
    pub fn es256_of(&self, header: &Value, claims: &Value) -> String {
        let message = message(header, claims.to_string());
        let signature = self.p256.sign(&SystemRandom::new(), message.as_bytes()).expect("a signature");
        format!("{message}.{}", encode(signature))
    }

    /// A token signed with EdDSA.
    pub fn eddsa(&self, claims: &Value) -> String {
        self.eddsa_of(&json!({"alg": "EdDSA", "kid": ED25519_KEY_ID}), claims)
    }

    /// A token signed with the key of EdDSA, whatever its header says.
    pub fn eddsa_of(&self, header: &Value, claims: &Value) -> String {
        let message = message(header, claims.to_string());
        format!("{message}.{}", encode(self.ed25519.sign(message.as_bytes())))
    }

    /// Every form in which somebody might take its public keys for a secret, each with its name and key id.
    pub fn public_forms(&self) -> Vec<(&'static str, &'static str, Vec<u8>)> {
        let point = self.p256.public_key().as_ref();
        let der = [&P256_SPKI_PREFIX[..], point].concat();
        let body = STANDARD.encode(&der);
        let lines = [&body[..64], &body[64..]].join("\n");
        let pem = format!("-----BEGIN PUBLIC KEY-----\n{lines}\n-----END PUBLIC KEY-----\n");
        vec![
            ("the point", P256_KEY_ID, point.to_vec()),
            ("the x of the point", P256_KEY_ID, point[1..33].to_vec()),
            ("the DER", P256_KEY_ID, der),
            ("the PEM", P256_KEY_ID, pem.into_bytes()),
            ("the Ed25519 key", ED25519_KEY_ID, self.ed25519.public_key().as_ref().to_vec()),
            ("the key set", P256_KEY_ID, self.key_set().into_bytes()),
        ]
    }
}
