//! How clients prove who they are.

use freshet_feed::{Patterns, Secret};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fetch::Address;

/// The fewest bytes of `hmac_secret`: the length of the hash of HS256 (RFC 7518, section 3.2).
pub const MIN_HMAC_SECRET_BYTES: usize = 32;

/// Whether clients must prove who they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Every client may do everything.
    #[default]
    None,
    /// Clients bring a signed JSON Web Token.
    Jwt,
}

/// A signature algorithm of JSON Web Tokens, by its registered name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
pub enum Algorithm {
    /// HMAC with SHA-256.
    HS256,
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    RS256,
    /// ECDSA on P-256 with SHA-256.
    ES256,
    /// EdDSA on Ed25519.
    EdDSA,
}

/// Who clients are. With `mode = "jwt"`, `issuer` and `audience` are required.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// `none` trusts every client, `jwt` asks for a signed token.
    pub mode: Mode,
    /// The algorithms that are accepted. Each needs a key of its own kind.
    pub algorithms: Vec<Algorithm>,
    /// The shared secret of HS256, at least 32 bytes, as it stands: it is not decoded from base64. A PEM is refused.
    /// Empty means none.
    pub hmac_secret: Secret,
    /// A file with one public key as PEM (RSA, EC P-256 or Ed25519). Empty means none.
    pub public_key_file: String,
    /// A file with a JSON Web Key Set. Empty means none.
    pub jwks_file: String,
    /// Where a JSON Web Key Set is fetched, https, or http to a loopback address. Empty means none.
    pub jwks_url: String,
    /// The key set is fetched again after this many seconds.
    #[schemars(range(min = 10, max = 86_400))]
    pub jwks_refresh_secs: u64,
    /// A fetch of the key set is given up after this many seconds.
    #[schemars(range(min = 1, max = 60))]
    pub jwks_timeout_secs: u64,
    /// The `iss` that a token must have.
    pub issuer: String,
    /// The `aud` that a token must have, alone or in its list.
    pub audience: String,
    /// Accept tokens for any audience. Only where the issuer signs for Freshet alone; `audience` must then be empty.
    pub audience_not_checked: bool,
    /// How many seconds the clocks of issuer and daemon may differ.
    #[schemars(range(min = 0, max = 300))]
    pub clock_skew_secs: u64,
    /// The cookie that may carry a token. Empty means that cookies are not accepted.
    pub cookie_name: String,
    /// The claim with the subject; a token without it is refused. Dots lead into nested objects unless a claim has
    /// this very name, here and in the other claim names.
    pub subject_claim: String,
    /// The claim with the tenant. Empty, here and in the following, means that no token says it.
    pub tenant_claim: String,
    /// The claim with the patterns of channels that may be read, a list or text separated by spaces.
    pub channels_claim: String,
    /// The claim with the patterns of channels that may be published to.
    pub publish_claim: String,
    /// The claim that is `true` for administrators.
    pub administrator_claim: String,
    /// Patterns of channels that may be read without a token.
    pub anonymous_channels: Vec<String>,
    /// A ticket may be redeemed for this many seconds.
    #[schemars(range(min = 1, max = 300))]
    pub ticket_ttl_secs: u64,
    /// The most tickets that wait to be redeemed.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub tickets_max: usize,
    /// The most tickets that one subject gets in `ticket_ttl_secs`, so that nobody takes the places of all others.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub tickets_per_subject_max: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            mode: Mode::None,
            algorithms: Vec::new(),
            hmac_secret: Secret::default(),
            public_key_file: String::new(),
            jwks_file: String::new(),
            jwks_url: String::new(),
            jwks_refresh_secs: 300,
            jwks_timeout_secs: 5,
            issuer: String::new(),
            audience: String::new(),
            audience_not_checked: false,
            clock_skew_secs: 30,
            cookie_name: String::new(),
            subject_claim: "sub".to_owned(),
            tenant_claim: "tenant".to_owned(),
            channels_claim: "channels".to_owned(),
            publish_claim: "publish".to_owned(),
            administrator_claim: "admin".to_owned(),
            anonymous_channels: Vec::new(),
            ticket_ttl_secs: 30,
            tickets_max: 10_000,
            tickets_per_subject_max: 100,
        }
    }
}

impl Config {
    /// Impossible combinations: the key's path in this struct, and what to do.
    #[must_use]
    pub fn problems(&self) -> Vec<(Vec<String>, String)> {
        let mut problems = Vec::new();
        let mut report = |key: &str, text: &str| problems.push((vec![key.to_owned()], text.to_owned()));
        if self.mode == Mode::None {
            if self.says_how_to_check() {
                report(
                    "mode",
                    "it is said how tokens are checked, but none is: set mode = \"jwt\" or remove the rest",
                );
            }
            return problems;
        }
        if self.algorithms.is_empty() {
            report("algorithms", "no algorithm is accepted; name at least one");
        }
        let uses_hmac = self.algorithms.contains(&Algorithm::HS256);
        let uses_public = self.algorithms.iter().any(|algorithm| *algorithm != Algorithm::HS256);
        let secret = self.hmac_secret.expose();
        if uses_hmac && secret.len() < MIN_HMAC_SECRET_BYTES {
            report("hmac_secret", "HS256 needs a secret of at least 32 bytes");
        }
        if secret.contains("-----BEGIN") {
            report("hmac_secret", "a PEM is not a secret; use public_key_file for a public key");
        }
        if !uses_hmac && !secret.is_empty() {
            report("hmac_secret", "a secret is set but HS256 is not accepted; remove one or add the other");
        }
        let sources = [&self.public_key_file, &self.jwks_file, &self.jwks_url];
        let sources = sources.iter().filter(|source| !source.is_empty()).count();
        if uses_public && sources != 1 {
            report("algorithms", "set exactly one of public_key_file, jwks_file and jwks_url");
        }
        if !uses_public && sources != 0 {
            report("algorithms", "a public key is set but no algorithm uses it; add RS256, ES256 or EdDSA");
        }
        if !self.jwks_url.is_empty() && Address::parse(&self.jwks_url).is_none() {
            report("jwks_url", "use https, or http to a loopback address, without a user name");
        }
        if self.issuer.is_empty() {
            report("issuer", "a token's issuer must be checked; set issuer");
        }
        if self.audience.is_empty() != self.audience_not_checked {
            report("audience", "set either audience or audience_not_checked = true");
        }
        if self.subject_claim.is_empty() {
            report("subject_claim", "a token without a subject is refused; say in which claim it stands");
        }
        if !self.cookie_name.bytes().all(is_of_token) {
            report(
                "cookie_name",
                "no cookie can have this name; use letters, digits, hyphens and underscores",
            );
        }
        if let Err(error) = Patterns::new(&self.anonymous_channels) {
            report("anonymous_channels", &error.to_string());
        }
        problems
    }

    /// Whether somebody wrote down what only matters when tokens are checked, and so believes that they are.
    fn says_how_to_check(&self) -> bool {
        let texts = [
            &self.public_key_file,
            &self.jwks_file,
            &self.jwks_url,
            &self.issuer,
            &self.audience,
            &self.cookie_name,
        ];
        texts.iter().any(|text| !text.is_empty())
            || !self.algorithms.is_empty()
            || !self.hmac_secret.is_empty()
            || !self.anonymous_channels.is_empty()
    }
}

/// What names of cookies are made of (RFC 9110, section 5.6.2).
fn is_of_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
