//! Keeps the public keys fresh.

use std::time::Duration;

use actix::fut::ActorFutureExt;
use actix::{Actor, AsyncContext, Context, WrapFuture};
use freshet_kernel::{Backoff, Child, ChildSpec, Link, task};
use serde_json::json;

use crate::authenticator::Authenticator;
use crate::keys::KeySet;
use crate::source::{KeySource, LoadError, Stamp};

/// The shortest time between two fetches, whatever tokens come in, and the time until the next after a failed one.
pub const FETCH_PAUSE: Duration = Duration::from_secs(10);

/// How often a key file is looked at.
pub const FILE_CHECK: Duration = Duration::from_secs(5);

/// How fast it turns; tests turn faster.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// From one good load to the next.
    refresh: Duration,
    /// The shortest time between two loads.
    pause: Duration,
}

impl Pace {
    fn of(authenticator: &Authenticator, source: &KeySource) -> Self {
        if source.is_address() {
            Self { refresh: authenticator.refresh_every().max(FETCH_PAUSE), pause: FETCH_PAUSE }
        } else {
            Self { refresh: FILE_CHECK, pause: FILE_CHECK }
        }
    }
}

/// The keeper as a child of a supervisor; nothing when no public keys are configured. It takes no messages.
#[must_use]
pub fn child(id: impl Into<String>, authenticator: &Authenticator) -> Option<ChildSpec<KeyKeeper>> {
    let source = authenticator.key_source()?;
    let pace = Pace::of(authenticator, source);
    Some(spec(id.into(), authenticator, source, pace))
}

fn spec(id: String, authenticator: &Authenticator, source: &KeySource, pace: Pace) -> ChildSpec<KeyKeeper> {
    let (authenticator, source) = (authenticator.clone(), source.clone());
    let factory = move |link| KeyKeeper {
        link,
        authenticator: authenticator.clone(),
        source: source.clone(),
        pace,
        stamp: None,
        outage: None,
        loads: 0,
        failures: 0,
    };
    ChildSpec::new(id, "KeyKeeper", factory)
        .mailbox(1)
        .backoff(Backoff { min: Duration::from_millis(500), max: Duration::from_secs(30) })
}

/// Loads the public keys again, by time, by a file's change, and when a token names a key that is not known. Keys
/// that were good stay in use until others are: an issuer that is away locks nobody out.
pub struct KeyKeeper {
    link: Link<Self>,
    authenticator: Authenticator,
    source: KeySource,
    pace: Pace,
    /// Of the file that was loaded last.
    stamp: Stamp,
    /// The class of the failure that keeps fresh keys out, until a load succeeds.
    outage: Option<&'static str>,
    loads: u64,
    failures: u64,
}

impl KeyKeeper {
    fn load(&mut self, ctx: &mut Context<Self>) {
        let (source, stamp) = (self.source.clone(), self.stamp);
        let loaded = async move { load(source, stamp).await }.into_actor(self);
        ctx.spawn(loaded.map(|loaded, keeper, ctx| {
            let wait = match loaded.and_then(|loaded| keeper.take(loaded)) {
                Ok(()) => {
                    keeper.recovered();
                    keeper.pace.refresh
                }
                Err(error) => {
                    keeper.failed(&error);
                    keeper.pace.pause
                }
            };
            keeper.wait(wait, ctx);
        }));
    }

    fn wait(&mut self, wait: Duration, ctx: &mut Context<Self>) {
        let turn = turn(self.authenticator.clone(), wait, self.pace.pause, self.source.is_address());
        ctx.spawn(turn.into_actor(self).map(|(), keeper, ctx| keeper.load(ctx)));
    }

    fn take(&mut self, loaded: Option<(KeySet, Stamp)>) -> Result<(), LoadError> {
        let Some((keys, stamp)) = loaded else { return Ok(()) };
        let (count, skipped) = (keys.len(), keys.skipped());
        let replaced = self.authenticator.replace_public_keys(keys);
        replaced.map_err(|reason| LoadError::Keys { origin: "hmac_secret".to_owned(), reason })?;
        self.stamp = stamp;
        self.loads += 1;
        tracing::debug!(keys = count, skipped, "public keys loaded");
        Ok(())
    }

    fn recovered(&mut self) {
        if self.outage.take().is_some() {
            tracing::info!("public keys can be loaded again");
            self.link.healthy();
        }
    }

    fn failed(&mut self, error: &LoadError) {
        self.failures += 1;
        self.link.count_failure();
        if self.outage != Some(error.code()) {
            tracing::warn!(code = error.code(), %error, "public keys cannot be loaded, the last good ones stay in use");
        }
        self.outage = Some(error.code());
        self.link.degraded(error.code(), error.to_string());
    }
}

/// Waits for the next load: `wait` from now, or when a token names an unknown key, but never sooner than `pause`.
/// Cancel safe: what was seen meanwhile counts the next time.
async fn turn(authenticator: Authenticator, wait: Duration, pause: Duration, is_address: bool) {
    let pause = pause.min(wait);
    tokio::time::sleep(pause).await;
    tokio::select! {
        () = tokio::time::sleep(wait - pause) => {}
        () = authenticator.unknown_key_seen(), if is_address => {}
    }
}

/// Cancel safe: nothing changes until it answers.
async fn load(source: KeySource, stamp: Stamp) -> Result<Option<(KeySet, Stamp)>, LoadError> {
    let KeySource::Address(fetcher) = &source else {
        let read = task::blocking("identity_read_keys", move || source.read_file(stamp)).await;
        return read.unwrap_or_else(|lost| Err(LoadError::Lost(lost.to_string())));
    };
    let bytes = fetcher.fetch().await?;
    let keys = KeySet::from_jwks(&bytes)
        .map_err(|reason| LoadError::Keys { origin: fetcher.host().to_owned(), reason })?;
    Ok(Some((keys, None)))
}

impl Actor for KeyKeeper {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.load(ctx);
    }
}

impl Child for KeyKeeper {
    fn observe(&self) -> serde_json::Value {
        let keys = self.authenticator.keys();
        json!({
            "keys": keys.len(),
            "skipped": keys.skipped(),
            "loads": self.loads,
            "failures": self.failures,
            "outage": self.outage,
        })
    }
}

#[cfg(test)]
#[path = "keeper_tests.rs"]
mod tests;
