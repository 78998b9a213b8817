//! The words that all rooms share. No I/O happens here.
//!
//! | module | what it gives |
//! |---|---|
//! | [`event`] | a table-commit event: the fields that Freshet understands, and the bytes that it passes on |
//! | [`filter`] | which events a client wants |
//! | [`position`] | where an event stands in the log: (epoch, offset) |
//! | [`secret`] | text that must not be printed |
//! | [`dead_letter`] | what could not be processed, with its reason |
//! | [`port`] | the traits through which rooms meet: [`port::Publisher`], [`port::EventLog`], [`port::DeadLetterStore`] |

pub mod dead_letter;
pub mod event;
pub mod filter;
pub mod port;
pub mod position;
pub mod secret;

pub use dead_letter::DeadLetter;
pub use event::Event;
pub use filter::EventFilter;
pub use position::{Epoch, Position};
pub use secret::Secret;
