//! The words that all rooms share. No I/O happens here.
//!
//! | module | what it gives |
//! |---|---|
//! | [`event`] | a table-commit event: the fields that Freshet understands, and the bytes that it passes on |
//! | [`filter`] | which events a client wants |
//! | [`position`] | where an event stands in the log: (epoch, offset) |
//! | [`secret`] | text that must not be printed |
//! | [`ingest`] | a request's body → its events; a broker's message → its event |
//! | [`decode`] | the bytes of one event → an event, or a rejection |
//! | [`cloud_events`] | the same event inside a CloudEvent |
//! | [`rejection`] | why an input is no event: the catalogue of codes |
//! | [`limits`] | how much of an input is looked at |
//! | [`dead_letter`] | what could not be processed, with its reason |
//! | [`port`] | the traits through which rooms meet: [`port::Publisher`], [`port::EventLog`], [`port::DeadLetterStore`] |

pub mod cloud_events;
pub mod dead_letter;
pub mod decode;
pub mod event;
pub mod filter;
pub mod ingest;
pub mod limits;
mod members;
pub mod port;
pub mod position;
pub mod rejection;
pub mod secret;
mod timestamp;

pub use dead_letter::DeadLetter;
pub use event::Event;
pub use filter::EventFilter;
pub use limits::Limits;
pub use position::{Epoch, Position};
pub use rejection::{Rejection, RejectionCode};
pub use secret::Secret;
