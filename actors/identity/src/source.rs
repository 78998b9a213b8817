//! Where the public keys come from: a file or an address.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::config::Config;
use crate::fetch::{FetchError, Fetcher};
use crate::keys::{KeyError, KeySet, MAX_KEYS_BYTES};

/// Why public keys could not be loaded. Those that were loaded before stay in use.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error("the key file {} cannot be read: {reason}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        reason: String,
    },
    /// The reading itself broke off.
    #[error("the key file was not read: {0}")]
    Lost(String),
    /// The address gave nothing usable.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// What was read is refused.
    #[error("{origin}: {reason}")]
    Keys {
        /// The file, or the host of the address.
        origin: String,
        /// Why.
        reason: KeyError,
    },
}

impl LoadError {
    /// The stable machine code of the error: for logs, and for the outage in the tree.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::File { .. } | Self::Lost(_) => "key_file_unreadable",
            Self::Fetch(_) => "jwks_unreachable",
            Self::Keys { .. } => "keys_refused",
        }
    }
}

/// A file's age and size, by which a change is noticed.
pub(crate) type Stamp = Option<(SystemTime, u64)>;

/// One place of public keys.
#[derive(Clone)]
pub(crate) enum KeySource {
    Pem(PathBuf),
    KeySetFile(PathBuf),
    Address(Box<Fetcher>),
}

impl KeySource {
    /// The place that the configuration names; nothing when it names none.
    pub fn of(config: &Config) -> Result<Option<Self>, FetchError> {
        if !config.public_key_file.is_empty() {
            return Ok(Some(Self::Pem(PathBuf::from(&config.public_key_file))));
        }
        if !config.jwks_file.is_empty() {
            return Ok(Some(Self::KeySetFile(PathBuf::from(&config.jwks_file))));
        }
        if config.jwks_url.is_empty() {
            return Ok(None);
        }
        let timeout = Duration::from_secs(config.jwks_timeout_secs);
        Ok(Some(Self::Address(Box::new(Fetcher::new(&config.jwks_url, timeout)?))))
    }

    pub fn is_address(&self) -> bool {
        matches!(self, Self::Address(_))
    }

    /// Reads a file's keys, unless it has this stamp. It blocks. An address has no file: nothing.
    pub fn read_file(&self, known: Stamp) -> Result<Option<(KeySet, Stamp)>, LoadError> {
        let path = match self {
            Self::Pem(path) | Self::KeySetFile(path) => path,
            Self::Address(_) => return Ok(None),
        };
        // The stamp is taken first: what is written meanwhile is read the next time.
        let stamp = stamp_of(path);
        if known.is_some() && known == stamp {
            return Ok(None);
        }
        let bytes = read_bounded(path)
            .map_err(|error| LoadError::File { path: path.clone(), reason: error.to_string() })?;
        let keys = match self {
            Self::Pem(_) => KeySet::from_pem(&bytes),
            _ => KeySet::from_jwks(&bytes),
        };
        let keys = keys.map_err(|reason| LoadError::Keys { origin: path.display().to_string(), reason })?;
        Ok(Some((keys, stamp)))
    }
}

fn stamp_of(path: &Path) -> Stamp {
    let metadata = path.metadata().ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

/// At most one byte more than is allowed, so that a file that is too large is seen as such.
fn read_bounded(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let limit = MAX_KEYS_BYTES as u64 + 1;
    std::fs::File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}
