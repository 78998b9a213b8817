//! Counting what is buried, by its code, on its way to the store.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use freshet_feed::DeadLetter;
use freshet_feed::port::{DeadLetterStore, StoreError};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

/// How many letters were buried, by code. Codes are those of the rooms, so they are few.
#[derive(Clone)]
pub struct BuriedCounts(Arc<Mutex<BTreeMap<String, u64>>>);

impl BuriedCounts {
    /// Counts that begin at 0 for codes that are known beforehand, so that a first letter shows as a rise.
    #[must_use]
    pub fn beginning_with(codes: impl IntoIterator<Item = &'static str>) -> Self {
        let zeros = codes.into_iter().map(|code| (code.to_owned(), 0)).collect();
        Self(Arc::new(Mutex::new(zeros)))
    }

    /// The counts since the start of the process.
    #[must_use]
    pub fn read(&self) -> BTreeMap<String, u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn add(&self, codes: Vec<String>) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for code in codes {
            *counts.entry(code).or_default() += 1;
        }
    }
}

/// A store whose successes are counted.
pub struct CountedDeadLetters {
    /// Where the letters go.
    pub store: Arc<dyn DeadLetterStore>,
    /// Where they are counted.
    pub counts: BuriedCounts,
}

impl DeadLetterStore for CountedDeadLetters {
    fn bury(&self, letters: Vec<DeadLetter>) -> BoxFuture<'_, Result<(), StoreError>> {
        async move {
            let codes = letters.iter().map(|letter| letter.code.clone()).collect();
            self.store.bury(letters).await?;
            self.counts.add(codes);
            Ok(())
        }
        .boxed()
    }
}
