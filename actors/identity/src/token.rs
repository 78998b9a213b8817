//! A signed token → who it is. Pure: the time is passed in.
//!
//! JSON Web Tokens (RFC 7519) in the compact form of RFC 7515, read as RFC 8725 asks: the key decides the algorithm,
//! whatever a token brings along to check itself with is refused, and nothing of it is used before its signature
//! has been checked.

use freshet_feed::{Patterns, Principal};
use jiff::Timestamp;

use crate::config::{Algorithm, Config};
use crate::json::{Members, NotMembers, Value, depth};
use crate::keys::{Key, KeySet, MAX_KEY_ID_BYTES, NoKey, decode_base64url};
use crate::token_error::TokenError;

/// The longest token, in bytes.
pub const MAX_TOKEN_BYTES: usize = 8 * 1024;

/// The most lists and objects in each other in a header or in claims. Those of issuers need four.
pub const MAX_DEPTH: usize = 16;
/// The longest subject, and the longest tenant, in bytes.
pub const MAX_NAME_BYTES: usize = 1024;

/// The last second of a time that a token may name: what jiff can represent, in the year 9999.
const MAX_SECOND: i64 = 253_402_207_200;

const EMBEDDED_KEYS: [&str; 4] = ["jwk", "jku", "x5c", "x5u"];

/// What a token must say, and in which claims it says who it is.
#[derive(Clone, Debug)]
pub struct Rules {
    algorithms: Vec<Algorithm>,
    issuer: String,
    /// Nothing when the audience is not checked.
    audience: Option<String>,
    clock_skew_secs: u16,
    subject_claim: String,
    tenant_claim: String,
    channels_claim: String,
    publish_claim: String,
    administrator_claim: String,
}

impl Rules {
    /// The rules of a configuration that has no [`Config::problems`].
    #[must_use]
    pub fn new(config: &Config) -> Self {
        Self {
            algorithms: config.algorithms.clone(),
            issuer: config.issuer.clone(),
            audience: (!config.audience_not_checked).then(|| config.audience.clone()),
            clock_skew_secs: u16::try_from(config.clock_skew_secs).unwrap_or(u16::MAX),
            subject_claim: config.subject_claim.clone(),
            tenant_claim: config.tenant_claim.clone(),
            channels_claim: config.channels_claim.clone(),
            publish_claim: config.publish_claim.clone(),
            administrator_claim: config.administrator_claim.clone(),
        }
    }
}

/// Checks a token: its form, its header, its signature, its claims, in this order.
///
/// The principal's `expires_at` is the first moment at which this function would refuse the token, so it lies the
/// clock skew after `exp`.
///
/// # Errors
/// One class for each way in which a token can be wrong.
pub fn verify(token: &str, keys: &KeySet, rules: &Rules, now: Timestamp) -> Result<Principal, TokenError> {
    if token.len() > MAX_TOKEN_BYTES {
        return Err(TokenError::TooLarge);
    }
    let (message, signature) = token.rsplit_once('.').ok_or(TokenError::Malformed)?;
    let (header, claims) = message.split_once('.').ok_or(TokenError::Malformed)?;
    if claims.contains('.') {
        return Err(TokenError::Malformed);
    }
    let header = decode(header)?;
    let claims = decode(claims)?;
    let signature = decode(signature)?;
    if header.is_empty() || claims.is_empty() {
        return Err(TokenError::Malformed);
    }
    if depth(&header) > MAX_DEPTH || depth(&claims) > MAX_DEPTH {
        return Err(TokenError::TooDeep);
    }
    let key = key_for(&Members::read(&header)?, keys, rules)?;
    if !key.verifies(message.as_bytes(), &signature) {
        return Err(TokenError::SignatureInvalid);
    }
    principal(&Members::read(&claims)?, rules, now)
}

impl From<NotMembers> for TokenError {
    fn from(error: NotMembers) -> Self {
        match error {
            NotMembers::NotAnObject => Self::Malformed,
            NotMembers::Duplicate => Self::DuplicateMember,
        }
    }
}

fn decode(part: &str) -> Result<Vec<u8>, TokenError> {
    decode_base64url(part.as_bytes()).ok_or(TokenError::Malformed)
}

/// The key that the header asks for, which must be of the algorithm that the header names.
fn key_for<'a>(header: &Members<'_>, keys: &'a KeySet, rules: &Rules) -> Result<&'a Key, TokenError> {
    let algorithm = header.get("alg").and_then(Value::text).and_then(|name| algorithm_named(&name));
    let algorithm = algorithm
        .filter(|algorithm| rules.algorithms.contains(algorithm))
        .ok_or(TokenError::AlgorithmRefused)?;
    // `b64` (RFC 7797) must stand in `crit`; without it, a reader that knows it would see other claims.
    if header.names("crit") || header.names("b64") {
        return Err(TokenError::CriticalHeader);
    }
    if header.names("cty") {
        return Err(TokenError::Nested);
    }
    if EMBEDDED_KEYS.iter().any(|name| header.names(name)) {
        return Err(TokenError::EmbeddedKey);
    }
    check_type(header)?;
    let id = match header.get("kid") {
        None if header.names("kid") => return Err(TokenError::KeyIdRefused),
        None => None,
        Some(value) => Some(value.text().ok_or(TokenError::KeyIdRefused)?),
    };
    if id.as_ref().is_some_and(|id| id.len() > MAX_KEY_ID_BYTES) {
        return Err(TokenError::KeyIdRefused);
    }
    keys.find(algorithm, id.as_deref()).map_err(|problem| match problem {
        NoKey::Unknown => TokenError::UnknownKey,
        NoKey::OtherAlgorithm => TokenError::AlgorithmRefused,
        NoKey::Ambiguous => TokenError::AmbiguousKey,
        NoKey::NotFetched => TokenError::KeysUnavailable,
    })
}

/// Names are exact (RFC 7515, section 4.1.1).
fn algorithm_named(name: &str) -> Option<Algorithm> {
    match name {
        "HS256" => Some(Algorithm::HS256),
        "RS256" => Some(Algorithm::RS256),
        "ES256" => Some(Algorithm::ES256),
        "EdDSA" => Some(Algorithm::EdDSA),
        _ => None,
    }
}

/// An issuer signs tokens for other ends with the same key, such as `logout+jwt`. Those that grant access say `JWT`,
/// `at+jwt` (RFC 9068) or nothing.
fn check_type(header: &Members<'_>) -> Result<(), TokenError> {
    if !header.names("typ") {
        return Ok(());
    }
    let name = header.get("typ").and_then(Value::text).ok_or(TokenError::WrongType)?.to_ascii_lowercase();
    match name.strip_prefix("application/").unwrap_or(&name) {
        "jwt" | "at+jwt" => Ok(()),
        _ => Err(TokenError::WrongType),
    }
}

fn principal(claims: &Members<'_>, rules: &Rules, now: Timestamp) -> Result<Principal, TokenError> {
    if text(claims.get("iss"))?.as_deref() != Some(rules.issuer.as_str()) {
        return Err(TokenError::WrongIssuer);
    }
    check_audience(claims, rules)?;
    let skew = i64::from(rules.clock_skew_secs);
    let expires_at = second(claims.get("exp"))?.ok_or(TokenError::ExpiryMissing)? + skew;
    if is_reached(expires_at, now) {
        return Err(TokenError::Expired);
    }
    if second(claims.get("nbf"))?.is_some_and(|not_before| !is_reached(not_before - skew, now)) {
        return Err(TokenError::NotYetValid);
    }
    let subject = name(claim(claims, &rules.subject_claim)?)?.ok_or(TokenError::SubjectMissing)?;
    let tenant = name(claim(claims, &rules.tenant_claim)?)?;
    let is_administrator = match claim(claims, &rules.administrator_claim)? {
        None => false,
        Some(value) => value.boolean().ok_or(TokenError::ClaimMalformed)?,
    };
    Ok(Principal {
        subject: Some(subject.into()),
        tenant: tenant.map(Into::into),
        reads: patterns(claim(claims, &rules.channels_claim)?)?,
        publishes: patterns(claim(claims, &rules.publish_claim)?)?,
        is_administrator,
        expires_at: Some(Timestamp::from_second(expires_at).unwrap_or(Timestamp::MAX)),
    })
}

fn check_audience(claims: &Members<'_>, rules: &Rules) -> Result<(), TokenError> {
    let Some(expected) = &rules.audience else { return Ok(()) };
    let found = claims.get("aud").ok_or(TokenError::WrongAudience)?;
    let names = match found.text() {
        Some(name) => vec![name],
        None => found.texts().ok_or(TokenError::ClaimMalformed)?,
    };
    if names.contains(expected) { Ok(()) } else { Err(TokenError::WrongAudience) }
}

/// A NumericDate as a whole number of seconds. RFC 7519 allows fractions; no issuer needs them, and they would pass
/// through a float.
fn second(value: Option<Value<'_>>) -> Result<Option<i64>, TokenError> {
    let Some(value) = value else { return Ok(None) };
    let second = value.integer().filter(|second| (0..=MAX_SECOND).contains(second));
    second.map(Some).ok_or(TokenError::ClaimMalformed)
}

fn is_reached(second: i64, now: Timestamp) -> bool {
    now.as_nanosecond() >= i128::from(second) * 1_000_000_000
}

/// The claim of this very name, else what its dots lead to; no name is no claim. Objects on the way are read as strictly as the token.
fn claim<'a>(claims: &Members<'a>, name: &str) -> Result<Option<Value<'a>>, TokenError> {
    if name.is_empty() {
        return Ok(None);
    }
    if claims.names(name) {
        return Ok(claims.get(name));
    }
    let Some((first, rest)) = name.split_once('.') else { return Ok(None) };
    match claims.get(first) {
        Some(value) if value.is_object() => claim(&value.members()?, rest),
        _ => Ok(None),
    }
}

/// A text that names somebody. Control characters could make two names look like one where operators read them.
fn name(value: Option<Value<'_>>) -> Result<Option<String>, TokenError> {
    let name = text(value)?;
    let is_name = |name: &String| name.len() <= MAX_NAME_BYTES && !name.chars().any(char::is_control);
    if name.as_ref().is_none_or(is_name) { Ok(name) } else { Err(TokenError::ClaimMalformed) }
}

/// An empty text names nobody and is refused.
fn text(value: Option<Value<'_>>) -> Result<Option<String>, TokenError> {
    let Some(value) = value else { return Ok(None) };
    value.text().filter(|text| !text.is_empty()).map(Some).ok_or(TokenError::ClaimMalformed)
}

/// A list of texts, or one text with spaces between the patterns, as OAuth writes scopes.
fn patterns(value: Option<Value<'_>>) -> Result<Patterns, TokenError> {
    let Some(value) = value else { return Ok(Patterns::default()) };
    let names = match value.text() {
        Some(text) => text.split_ascii_whitespace().map(str::to_owned).collect(),
        None => value.texts().ok_or(TokenError::ClaimMalformed)?,
    };
    Patterns::new(names).map_err(|_| TokenError::TooManyPatterns)
}

#[cfg(test)]
#[path = "token_attacks.rs"]
mod attacks;
#[cfg(test)]
#[path = "signature_attacks.rs"]
mod signature_attacks;
#[cfg(test)]
#[path = "token_tests.rs"]
mod tests;
