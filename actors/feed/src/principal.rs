//! Who asks, and what they may.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::channel::ChannelName;
use crate::filter::Glob;

/// The most patterns that one grant may hold.
pub const MAX_PATTERNS: usize = 64;
/// The longest pattern, in bytes.
pub const MAX_PATTERN_BYTES: usize = 256;

/// Which channels a grant covers: those that fit one of its patterns. The default covers none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Patterns(Arc<[Glob]>);

/// The patterns are too many, or one is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at most {MAX_PATTERNS} patterns of at most {MAX_PATTERN_BYTES} bytes each")]
pub struct TooManyPatterns;

impl Patterns {
    /// Takes patterns as they are: `*` stands for any text, `?` for one character.
    ///
    /// # Errors
    /// When there are too many, or one is too long.
    pub fn new(patterns: impl IntoIterator<Item = impl Into<String>>) -> Result<Self, TooManyPatterns> {
        let mut globs = Vec::new();
        for pattern in patterns {
            let pattern = pattern.into();
            if globs.len() == MAX_PATTERNS || pattern.len() > MAX_PATTERN_BYTES {
                return Err(TooManyPatterns);
            }
            globs.push(Glob::new(pattern));
        }
        Ok(Self(globs.into()))
    }

    /// Covers every channel.
    #[must_use]
    pub fn everything() -> Self {
        Self([Glob::new("*")].into())
    }

    /// Covers what either of them covers.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        if other.0.is_empty() {
            return self.clone();
        }
        Self(self.0.iter().chain(other.0.iter()).cloned().collect())
    }

    /// Whether the channel is covered.
    #[must_use]
    pub fn cover(&self, channel: &ChannelName) -> bool {
        self.0.iter().any(|glob| glob.matches(channel.as_str()))
    }

    /// The patterns.
    #[must_use]
    pub fn globs(&self) -> &[Glob] {
        &self.0
    }
}

/// Who asks, as far as a token told, and what they may. The default is someone unknown who may nothing but what is
/// public.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Principal {
    /// Who it is; nothing for someone unknown.
    pub subject: Option<Arc<str>>,
    /// Whose rooms it may see, in channels whose rooms are tenants.
    pub tenant: Option<Arc<str>>,
    /// The channels that it may read.
    pub reads: Patterns,
    /// The channels that it may publish to.
    pub publishes: Patterns,
    /// Whether it may see and do everything.
    pub is_administrator: bool,
    /// When its token ends, and its sessions with it; nothing when they do not.
    pub expires_at: Option<jiff::Timestamp>,
}

impl Principal {
    /// Whoever reaches the port, when there is no authentication.
    #[must_use]
    pub fn everything() -> Self {
        Self {
            subject: None,
            tenant: None,
            reads: Patterns::everything(),
            publishes: Patterns::everything(),
            is_administrator: true,
            expires_at: None,
        }
    }

    /// Whether it may publish to the channel.
    #[must_use]
    pub fn may_publish(&self, channel: &ChannelName) -> bool {
        self.is_administrator || self.publishes.cover(channel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_covers_what_fits_one_of_its_patterns() {
        let patterns = Patterns::new(["iceberg", "products.*"]).unwrap();
        for (channel, covered) in
            [("iceberg", true), ("products.eu", true), ("products", false), ("iceberg2", false)]
        {
            assert_eq!(patterns.cover(&ChannelName::new(channel).unwrap()), covered, "{channel}");
        }
        assert!(!Patterns::default().cover(&ChannelName::iceberg()));
    }

    #[test]
    fn two_grants_together_cover_what_either_covers() {
        let both = Patterns::new(["iceberg"]).unwrap().and(&Patterns::new(["news.*"]).unwrap());
        for (channel, covered) in [("iceberg", true), ("news.eu", true), ("orders", false)] {
            assert_eq!(both.cover(&ChannelName::new(channel).unwrap()), covered, "{channel}");
        }
    }

    #[test]
    fn patterns_are_bounded() {
        assert!(Patterns::new(vec!["*"; MAX_PATTERNS]).is_ok());
        assert_eq!(Patterns::new(vec!["*"; MAX_PATTERNS + 1]), Err(TooManyPatterns));
        assert_eq!(Patterns::new(["x".repeat(MAX_PATTERN_BYTES + 1)]), Err(TooManyPatterns));
    }

    #[test]
    fn a_principal_survives_being_stored() {
        let principal = Principal {
            subject: Some("ada".into()),
            tenant: Some("north".into()),
            reads: Patterns::new(["iceberg"]).unwrap(),
            expires_at: Some("2030-01-01T00:00:00Z".parse().unwrap()),
            ..Principal::default()
        };
        let stored = serde_json::to_vec(&principal).unwrap();
        assert_eq!(serde_json::from_slice::<Principal>(&stored).unwrap(), principal);
    }
}
