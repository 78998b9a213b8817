//! Why a token is refused.

use crate::refusal::Refusal;

/// Why a token is refused. The codes are for logs and metrics; clients get [`TokenError::refusal`], which
/// tells a forger nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum TokenError {
    /// More than [`crate::token::MAX_TOKEN_BYTES`].
    #[error("the token is too large")]
    TooLarge,
    /// Not three parts in strict base64url, or a part that is no JSON object, or a header of the wrong type.
    #[error("the token cannot be read")]
    Malformed,
    /// One of its objects holds more than [`crate::token::MAX_DEPTH`] lists or objects in each other.
    #[error("the token nests too deeply")]
    TooDeep,
    /// A name stands twice in one of its objects.
    #[error("the token names a member twice")]
    DuplicateMember,
    /// `none`, an algorithm that is not accepted, or not the algorithm of the key.
    #[error("the token's algorithm is not accepted")]
    AlgorithmRefused,
    /// It demands extensions (`crit`), or uses the one that changes what is signed (`b64`); none is known here.
    #[error("the token demands an extension")]
    CriticalHeader,
    /// It wraps another token (`cty`).
    #[error("the token wraps another one")]
    Nested,
    /// It brings its own key (`jwk`, `x5c`) or the address of one (`jku`, `x5u`).
    #[error("the token brings a key along")]
    EmbeddedKey,
    /// Its `typ` says that it was made for something else, such as a logout.
    #[error("the token is of another type")]
    WrongType,
    /// Its `kid` is no text or too long.
    #[error("the token's key id cannot be used")]
    KeyIdRefused,
    /// No key with its `kid`.
    #[error("the token's key is not known")]
    UnknownKey,
    /// It names no key and several would do.
    #[error("the token does not say which key it was signed with")]
    AmbiguousKey,
    /// The public keys have not been fetched yet.
    #[error("the keys are not known yet")]
    KeysUnavailable,
    /// The signature is not the key's.
    #[error("the signature is wrong")]
    SignatureInvalid,
    /// `exp` is missing.
    #[error("the token has no end")]
    ExpiryMissing,
    /// `exp` is over.
    #[error("the token has expired")]
    Expired,
    /// `nbf` is to come.
    #[error("the token is not valid yet")]
    NotYetValid,
    /// `iss` is missing or another.
    #[error("the token is of another issuer")]
    WrongIssuer,
    /// `aud` is missing or does not name this daemon.
    #[error("the token is for another audience")]
    WrongAudience,
    /// The claim with the subject is missing.
    #[error("the token has no subject")]
    SubjectMissing,
    /// A claim has the wrong type, is empty, longer than [`crate::token::MAX_NAME_BYTES`] or with control characters, or
    /// is a time that is no integer or beyond the years 1970 to 9999.
    #[error("a claim of the token cannot be read")]
    ClaimMalformed,
    /// More or longer patterns than [`freshet_feed::Patterns::new`] takes.
    #[error("the token has too many channel patterns")]
    TooManyPatterns,
}

impl TokenError {
    /// All of them, for the catalogue and the metrics.
    pub const ALL: [Self; 22] = [
        Self::TooLarge,
        Self::Malformed,
        Self::TooDeep,
        Self::DuplicateMember,
        Self::AlgorithmRefused,
        Self::CriticalHeader,
        Self::Nested,
        Self::EmbeddedKey,
        Self::WrongType,
        Self::KeyIdRefused,
        Self::UnknownKey,
        Self::AmbiguousKey,
        Self::KeysUnavailable,
        Self::SignatureInvalid,
        Self::ExpiryMissing,
        Self::Expired,
        Self::NotYetValid,
        Self::WrongIssuer,
        Self::WrongAudience,
        Self::SubjectMissing,
        Self::ClaimMalformed,
        Self::TooManyPatterns,
    ];

    /// The stable machine code of the error, for logs and metrics.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::TooLarge => "token_too_large",
            Self::Malformed => "token_malformed",
            Self::TooDeep => "token_too_deep",
            Self::DuplicateMember => "token_duplicate_member",
            Self::AlgorithmRefused => "token_algorithm_refused",
            Self::CriticalHeader => "token_critical_header",
            Self::Nested => "token_nested",
            Self::EmbeddedKey => "token_embedded_key",
            Self::WrongType => "token_wrong_type",
            Self::KeyIdRefused => "token_key_id_refused",
            Self::UnknownKey => "token_unknown_key",
            Self::AmbiguousKey => "token_ambiguous_key",
            Self::KeysUnavailable => "token_keys_unavailable",
            Self::SignatureInvalid => "token_signature_invalid",
            Self::ExpiryMissing => "token_expiry_missing",
            Self::Expired => "token_expired",
            Self::NotYetValid => "token_not_yet_valid",
            Self::WrongIssuer => "token_wrong_issuer",
            Self::WrongAudience => "token_wrong_audience",
            Self::SubjectMissing => "token_subject_missing",
            Self::ClaimMalformed => "token_claim_malformed",
            Self::TooManyPatterns => "token_too_many_patterns",
        }
    }

    /// What a client is told, which tells a forger nothing.
    #[must_use]
    pub fn refusal(self) -> Refusal {
        match self {
            Self::Expired => Refusal::Expired,
            Self::KeysUnavailable => Refusal::Unavailable,
            _ => Refusal::Invalid,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_error_has_a_code_of_its_own_and_clients_see_three() {
        let codes: BTreeSet<_> = TokenError::ALL.into_iter().map(TokenError::code).collect();
        assert_eq!(codes.len(), TokenError::ALL.len());
        assert!(codes.iter().all(|code| code.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')));
        let told: BTreeSet<_> = TokenError::ALL.into_iter().map(|error| error.refusal().code()).collect();
        assert_eq!(told, BTreeSet::from(["token_expired", "token_invalid", "identity_unavailable"]));
    }
}
