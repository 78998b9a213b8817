//! The keys that tokens are checked with. Each key has exactly one algorithm, given by its kind and never by a token.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::{hmac, signature};

use crate::config::{Algorithm, MIN_HMAC_SECRET_BYTES};

/// The most bytes of a key file or of a fetched key set.
pub const MAX_KEYS_BYTES: usize = 1024 * 1024;
/// The most keys of a key set, those that are skipped included.
pub const MAX_KEYS: usize = 100;
/// The longest name (`kid`) of a key, in bytes.
pub const MAX_KEY_ID_BYTES: usize = 256;
/// The shortest RSA modulus, in bits (RFC 7518, section 3.3).
pub const MIN_RSA_BITS: usize = 2048;
/// The longest RSA modulus, in bits: what the signature library takes.
pub const MAX_RSA_BITS: usize = 8192;

/// The smallest public exponent of an RSA key: with 1 every text is its own signature (RFC 8017, section 3.1, asks for
/// 3 or more).
pub const MIN_RSA_EXPONENT: u64 = 3;
/// The largest public exponent of an RSA key: what the signature library takes.
pub const MAX_RSA_EXPONENT: u64 = (1 << 33) - 1;

/// The points of Ed25519 with a small order, as their y coordinates, little-endian and without the sign bit: those of
/// order 1, 2, 4 and 8, and 0 and 1 once more with the field's prime added. For such a key anybody finds signatures in
/// a few attempts. The key of zeros that stands in place of one that is still to come is among them.
const SMALL_ORDER: [[u8; 32]; 7] = [
    with_ends(0x00, 0x00, 0x00),
    with_ends(0x01, 0x00, 0x00),
    with_ends(0xec, 0xff, 0x7f),
    with_ends(0xed, 0xff, 0x7f),
    with_ends(0xee, 0xff, 0x7f),
    [
        0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4, 0x89, 0xf2, 0xef, 0x98, 0xf0, 0xd5,
        0xdf, 0xac, 0x05, 0xd3, 0xc6, 0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53, 0xfc, 0x05,
    ],
    [
        0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b, 0x76, 0x0d, 0x10, 0x67, 0x0f, 0x2a,
        0x20, 0x53, 0xfa, 0x2c, 0x39, 0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac, 0x03, 0x7a,
    ],
];

const fn with_ends(first: u8, middle: u8, last: u8) -> [u8; 32] {
    let mut bytes = [middle; 32];
    bytes[0] = first;
    bytes[31] = last;
    bytes
}

/// Why keys are not taken. None of a file's or a set's keys is used then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// More than [`MAX_KEYS_BYTES`].
    #[error("the keys are larger than {MAX_KEYS_BYTES} bytes")]
    TooLarge,
    /// More than [`MAX_KEYS`].
    #[error("the key set has more than {MAX_KEYS} keys")]
    TooMany,
    /// The file is neither a PEM with one `PUBLIC KEY`, nor a JSON object with a list `keys`.
    #[error("the keys cannot be read: expected one PEM block PUBLIC KEY, or a JSON Web Key Set")]
    Malformed,
    /// Of a kind that no accepted algorithm uses.
    #[error("the key is neither RSA, nor EC on P-256, nor Ed25519")]
    Unsupported,
    /// Two keys have the same name.
    #[error("two keys of the set have the same kid")]
    DuplicateId,
    /// A key that can sign: it does not belong where tokens are only checked, and in a set everybody could read it.
    #[error("a private or symmetric key is among the public keys")]
    Private,
    /// An RSA key or a shared secret that is too short, or an RSA key that is too long.
    #[error(
        "a key is too short or too long: RSA needs {MIN_RSA_BITS} to {MAX_RSA_BITS} bits, a secret {MIN_HMAC_SECRET_BYTES} bytes"
    )]
    Length,
    /// Numbers that no RSA key has: an even one, or an exponent outside [`MIN_RSA_EXPONENT`] to [`MAX_RSA_EXPONENT`].
    #[error("the numbers of an rsa key are not those of one")]
    RsaNumbers,
    /// An Ed25519 key for which anybody can find signatures.
    #[error("the ed25519 key is a point of small order, such as zeros")]
    SmallOrder,
    /// A shared secret that is the text of a public key: anybody could sign with it.
    #[error("a PEM is not a secret")]
    PemAsSecret,
    /// Nothing is left when the unsupported keys are skipped.
    #[error("the key set has no key that can be used")]
    NoneUsable,
}

impl KeyError {
    /// The stable machine code of the error.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::TooLarge => "keys_too_large",
            Self::TooMany => "keys_too_many",
            Self::Malformed => "keys_malformed",
            Self::Unsupported => "key_unsupported",
            Self::DuplicateId => "key_id_duplicate",
            Self::Private => "key_private",
            Self::Length => "key_length",
            Self::RsaNumbers => "key_rsa_numbers",
            Self::SmallOrder => "key_small_order",
            Self::PemAsSecret => "key_pem_as_secret",
            Self::NoneUsable => "keys_none_usable",
        }
    }
}

/// What a key is made of. The variant is the algorithm, so no key can be used with another's.
pub(crate) enum Material {
    Hmac(hmac::Key),
    /// Modulus and exponent, big-endian, without leading zeros.
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
    /// The uncompressed point: 4, x, y.
    P256([u8; 65]),
    Ed25519([u8; 32]),
}

impl Material {
    /// Refuses lengths outside [`MIN_RSA_BITS`] to [`MAX_RSA_BITS`], and what cannot be a modulus or an exponent. The
    /// signature library refuses these too, but with each token again, as if the token were wrong.
    pub fn rsa(modulus: &[u8], exponent: &[u8]) -> Result<Self, KeyError> {
        let modulus = without_leading_zeros(modulus);
        let exponent = without_leading_zeros(exponent);
        let first_bits = modulus.first().map_or(0, |byte| 8 - byte.leading_zeros() as usize);
        let bits = modulus.len().saturating_sub(1) * 8 + first_bits;
        if !(MIN_RSA_BITS..=MAX_RSA_BITS).contains(&bits) {
            return Err(KeyError::Length);
        }
        let is_odd = |number: &[u8]| number.last().is_some_and(|byte| byte % 2 == 1);
        let is_exponent = as_integer(exponent)
            .is_some_and(|exponent| (MIN_RSA_EXPONENT..=MAX_RSA_EXPONENT).contains(&exponent));
        if !is_odd(modulus) || !is_odd(exponent) || !is_exponent {
            return Err(KeyError::RsaNumbers);
        }
        Ok(Self::Rsa { modulus: modulus.to_vec(), exponent: exponent.to_vec() })
    }

    /// Refuses the points for which anybody finds signatures; the signature library takes them.
    pub fn ed25519(point: [u8; 32]) -> Result<Self, KeyError> {
        let mut y = point;
        y[31] &= 0x7f;
        if SMALL_ORDER.contains(&y) { Err(KeyError::SmallOrder) } else { Ok(Self::Ed25519(point)) }
    }
}

fn without_leading_zeros(bytes: &[u8]) -> &[u8] {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    &bytes[zeros..]
}

/// Nothing when it has more than 64 bits.
fn as_integer(big_endian: &[u8]) -> Option<u64> {
    let mut bytes = [0; 8];
    bytes.get_mut(8usize.checked_sub(big_endian.len())?..)?.copy_from_slice(big_endian);
    Some(u64::from_be_bytes(bytes))
}

/// One key, with its one algorithm. What it is made of is not printed.
pub struct Key {
    id: Option<String>,
    material: Material,
}

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Key")
            .field("id", &self.id)
            .field("algorithm", &self.algorithm())
            .finish_non_exhaustive()
    }
}

impl Key {
    pub(crate) fn new(id: Option<String>, material: Material) -> Self {
        Self { id, material }
    }

    /// The only algorithm that it is used with.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        match self.material {
            Material::Hmac(_) => Algorithm::HS256,
            Material::Rsa { .. } => Algorithm::RS256,
            Material::P256(_) => Algorithm::ES256,
            Material::Ed25519(_) => Algorithm::EdDSA,
        }
    }

    /// Whether the signature is this key's for this message.
    #[must_use]
    pub fn verifies(&self, message: &[u8], signed: &[u8]) -> bool {
        let verified = match &self.material {
            Material::Hmac(key) => hmac::verify(key, message, signed),
            Material::Rsa { modulus, exponent } => {
                signature::RsaPublicKeyComponents { n: modulus, e: exponent }.verify(
                    &signature::RSA_PKCS1_2048_8192_SHA256,
                    message,
                    signed,
                )
            }
            Material::P256(point) => {
                signature::UnparsedPublicKey::new(&signature::ECDSA_P256_SHA256_FIXED, point)
                    .verify(message, signed)
            }
            Material::Ed25519(point) => {
                signature::UnparsedPublicKey::new(&signature::ED25519, point).verify(message, signed)
            }
        };
        verified.is_ok()
    }
}

/// Why no key fits a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoKey {
    /// No key has this name, and none without a name has this algorithm.
    Unknown,
    /// The key with this name has another algorithm.
    OtherAlgorithm,
    /// Several keys would do, and the token names none.
    Ambiguous,
    /// Public keys are still to be fetched.
    NotFetched,
}

/// All keys that tokens are checked with.
#[derive(Debug, Default)]
pub struct KeySet {
    keys: Vec<Key>,
    skipped: usize,
    awaits_public_keys: bool,
}

impl KeySet {
    /// The shared secret of HS256.
    ///
    /// # Errors
    /// When it is shorter than [`MIN_HMAC_SECRET_BYTES`] or a PEM.
    pub fn from_hmac_secret(secret: &[u8]) -> Result<Self, KeyError> {
        if secret.windows(10).any(|window| window == b"-----BEGIN") {
            return Err(KeyError::PemAsSecret);
        }
        if secret.len() < MIN_HMAC_SECRET_BYTES {
            return Err(KeyError::Length);
        }
        let key = Key::new(None, Material::Hmac(hmac::Key::new(hmac::HMAC_SHA256, secret)));
        Ok(Self { keys: vec![key], ..Self::default() })
    }

    /// One public key as PEM (`-----BEGIN PUBLIC KEY-----`): RSA, EC P-256 or Ed25519.
    ///
    /// # Errors
    /// When it is anything else, or more than one.
    pub fn from_pem(pem: &[u8]) -> Result<Self, KeyError> {
        let key = Key::new(None, crate::pem::public_key(pem)?);
        Ok(Self { keys: vec![key], ..Self::default() })
    }

    /// A JSON Web Key Set (RFC 7517). Keys for encryption, and those of kinds or algorithms that are not
    /// supported here, are skipped and counted.
    ///
    /// # Errors
    /// When it breaks a limit of this module, two usable keys have the same name, or none is left.
    pub fn from_jwks(document: &[u8]) -> Result<Self, KeyError> {
        let (keys, skipped) = crate::jwks::read(document)?;
        Ok(Self { keys, skipped, awaits_public_keys: false })
    }

    /// No key yet; public ones will come. Tokens that need them are answered with `identity_unavailable`.
    #[must_use]
    pub fn awaiting_public_keys() -> Self {
        Self { awaits_public_keys: true, ..Self::default() }
    }

    /// The keys of both.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.keys.extend(other.keys);
        self.skipped += other.skipped;
        self.awaits_public_keys |= other.awaits_public_keys;
        self
    }

    /// How many keys can be used.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether no key can be used.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// How many keys were skipped, since nothing here can use them.
    #[must_use]
    pub fn skipped(&self) -> usize {
        self.skipped
    }

    /// Whether public keys are still to be fetched.
    #[must_use]
    pub fn awaits_public_keys(&self) -> bool {
        self.awaits_public_keys
    }

    /// The key of this name. A key without a name (from a PEM, a secret, or a set that names none) answers to any
    /// name when it is the only one of its algorithm without a name; a token without a name gets the only key of its
    /// algorithm.
    pub(crate) fn find(&self, algorithm: Algorithm, id: Option<&str>) -> Result<&Key, NoKey> {
        let named = id.and_then(|id| self.keys.iter().find(|key| key.id.as_deref() == Some(id)));
        if let Some(key) = named {
            return if key.algorithm() == algorithm { Ok(key) } else { Err(NoKey::OtherAlgorithm) };
        }
        let mut fitting =
            self.keys.iter().filter(|key| key.algorithm() == algorithm && (id.is_none() || key.id.is_none()));
        match (fitting.next(), fitting.next()) {
            (Some(key), None) => Ok(key),
            (Some(_), Some(_)) => Err(NoKey::Ambiguous),
            (None, _) if self.awaits_public_keys && algorithm != Algorithm::HS256 => Err(NoKey::NotFetched),
            (None, _) => Err(NoKey::Unknown),
        }
    }
}

/// Strict base64url (RFC 7515, section 2): no padding, no white space, no stray bits at the end. So one value has
/// one spelling.
pub(crate) fn decode_base64url(text: &[u8]) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

#[cfg(test)]
#[path = "keys_tests.rs"]
mod tests;
