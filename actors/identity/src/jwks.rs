//! JSON Web Key Sets (RFC 7517, with the key kinds of RFC 7518 and RFC 8037).

use std::collections::HashSet;

use crate::json::{Members, Value};
use crate::keys::{Key, KeyError, MAX_KEY_ID_BYTES, MAX_KEYS, MAX_KEYS_BYTES, Material, decode_base64url};

/// Members that only a private or a symmetric key has (RFC 7518, sections 6.2.2, 6.3.2 and 6.4.1).
const PRIVATE_MEMBERS: [&str; 8] = ["d", "p", "q", "dp", "dq", "qi", "oth", "k"];

/// The keys that can be used, and how many were skipped.
pub(crate) fn read(document: &[u8]) -> Result<(Vec<Key>, usize), KeyError> {
    if document.len() > MAX_KEYS_BYTES {
        return Err(KeyError::TooLarge);
    }
    let set = Members::read(document).map_err(|_| KeyError::Malformed)?;
    let entries = set.get("keys").and_then(Value::list).ok_or(KeyError::Malformed)?;
    if entries.len() > MAX_KEYS {
        return Err(KeyError::TooMany);
    }
    let mut ids = HashSet::new();
    let mut keys = Vec::new();
    for entry in &entries {
        let members = Members::read(entry.get().as_bytes()).map_err(|_| KeyError::Malformed)?;
        let Some(material) = material(&members)? else { continue };
        let id = optional_text(&members, "kid")?;
        if let Some(id) = &id {
            if id.len() > MAX_KEY_ID_BYTES {
                return Err(KeyError::Malformed);
            }
            if !ids.insert(id.clone()) {
                return Err(KeyError::DuplicateId);
            }
        }
        keys.push(Key::new(id, material));
    }
    if keys.is_empty() {
        return Err(KeyError::NoneUsable);
    }
    let skipped = entries.len() - keys.len();
    Ok((keys, skipped))
}

/// Nothing for a key that is well formed and of no use here.
fn material(key: &Members<'_>) -> Result<Option<Material>, KeyError> {
    let kind = optional_text(key, "kty")?.ok_or(KeyError::Malformed)?;
    if kind == "oct" || PRIVATE_MEMBERS.iter().any(|name| key.names(name)) {
        return Err(KeyError::Private);
    }
    if !is_for_signatures(key)? {
        return Ok(None);
    }
    let curve = optional_text(key, "crv")?;
    let algorithm = optional_text(key, "alg")?;
    let is_for = |name: &str| algorithm.as_deref().is_none_or(|algorithm| algorithm == name);
    match (kind.as_str(), curve.as_deref()) {
        ("RSA", _) if is_for("RS256") => Material::rsa(&number(key, "n")?, &number(key, "e")?).map(Some),
        ("EC", Some("P-256")) if is_for("ES256") => {
            let mut point = [4; 65];
            point[1..33].copy_from_slice(&coordinate(key, "x")?);
            point[33..].copy_from_slice(&coordinate(key, "y")?);
            Ok(Some(Material::P256(point)))
        }
        ("OKP", Some("Ed25519")) if is_for("EdDSA") => Material::ed25519(coordinate(key, "x")?).map(Some),
        _ => Ok(None),
    }
}

/// RFC 7517, sections 4.2 and 4.3.
fn is_for_signatures(key: &Members<'_>) -> Result<bool, KeyError> {
    let is_used = optional_text(key, "use")?.is_none_or(|purpose| purpose == "sig");
    let operations = key.get("key_ops").map(|value| value.texts().ok_or(KeyError::Malformed)).transpose()?;
    let verifies = operations.is_none_or(|names| names.iter().any(|name| name == "verify"));
    Ok(is_used && verifies)
}

fn optional_text(key: &Members<'_>, name: &str) -> Result<Option<String>, KeyError> {
    let Some(value) = key.get(name) else { return Ok(None) };
    value.text().map(Some).ok_or(KeyError::Malformed)
}

fn number(key: &Members<'_>, name: &str) -> Result<Vec<u8>, KeyError> {
    let text = optional_text(key, name)?.ok_or(KeyError::Malformed)?;
    decode_base64url(text.as_bytes()).filter(|bytes| !bytes.is_empty()).ok_or(KeyError::Malformed)
}

/// Coordinates have their full length (RFC 7518, section 6.2.1.2; RFC 8032, section 5.1.2).
fn coordinate(key: &Members<'_>, name: &str) -> Result<[u8; 32], KeyError> {
    number(key, name)?.try_into().map_err(|_| KeyError::Malformed)
}
