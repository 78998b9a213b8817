//! One public key as PEM.

use rustls_pki_types::SubjectPublicKeyInfoDer;
use rustls_pki_types::pem::PemObject;
use spki::der::asn1::UintRef;
use spki::der::{Decode, Reader, SliceReader};
use spki::{ObjectIdentifier, SubjectPublicKeyInfoRef};

use crate::keys::{KeyError, MAX_KEYS_BYTES, Material};

/// rsaEncryption (RFC 8017, appendix C).
const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
/// id-ecPublicKey (RFC 5480, section 2.1.1).
const EC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
/// secp256r1, which is P-256 (RFC 5480, section 2.1.1.1).
const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
/// id-Ed25519 (RFC 8410, section 3).
const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");

/// Reads a file with exactly one block `PUBLIC KEY`.
pub(crate) fn public_key(pem: &[u8]) -> Result<Material, KeyError> {
    if pem.len() > MAX_KEYS_BYTES {
        return Err(KeyError::TooLarge);
    }
    let text = std::str::from_utf8(pem).map_err(|_| KeyError::Malformed)?;
    if text.contains("PRIVATE KEY") {
        return Err(KeyError::Private);
    }
    if text.matches("-----BEGIN").count() != 1 {
        return Err(KeyError::Malformed);
    }
    let der = SubjectPublicKeyInfoDer::from_pem_slice(pem).map_err(|_| KeyError::Malformed)?;
    material(&der)
}

fn material(der: &[u8]) -> Result<Material, KeyError> {
    let info = SubjectPublicKeyInfoRef::from_der(der).map_err(|_| KeyError::Malformed)?;
    let bits = info.subject_public_key.as_bytes().ok_or(KeyError::Malformed)?;
    let kind = info.algorithm.oid;
    if kind == RSA {
        let (modulus, exponent) = rsa_numbers(bits).map_err(|_| KeyError::Malformed)?;
        return Material::rsa(modulus, exponent);
    }
    if kind == ED25519 {
        return Material::ed25519(bits.try_into().map_err(|_| KeyError::Malformed)?);
    }
    if kind == EC && info.algorithm.parameters_oid() == Ok(P256) {
        let point: [u8; 65] = bits.try_into().map_err(|_| KeyError::Malformed)?;
        return if point[0] == 4 { Ok(Material::P256(point)) } else { Err(KeyError::Malformed) };
    }
    Err(KeyError::Unsupported)
}

/// RSAPublicKey (RFC 8017, appendix A.1.1): modulus, then exponent.
fn rsa_numbers(der: &[u8]) -> Result<(&[u8], &[u8]), spki::der::Error> {
    let mut reader = SliceReader::new(der)?;
    let numbers = reader.sequence(|reader| {
        let modulus = UintRef::decode(reader)?;
        let exponent = UintRef::decode(reader)?;
        Ok::<_, spki::der::Error>((modulus.as_bytes(), exponent.as_bytes()))
    })?;
    reader.finish()?;
    Ok(numbers)
}
