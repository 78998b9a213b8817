//! The words that all rooms share. No I/O happens here.
//!
//! | module | what it gives |
//! |---|---|
//! | [`event`] | an event: the fields that Freshet understands, and the bytes that it passes on |
//! | [`channel`] | what is declared about each channel |
//! | [`principal`] | who asks, and what they may |
//! | [`scope`] | who may read what |
//! | [`filter`] | which events a client wants |
//! | [`position`] | where an event stands in the log: (epoch, offset) |
//! | [`secret`] | text that must not be printed |
//! | [`ingest`] | a request's body → its events; a broker's message → its event |
//! | [`decode`], [`intake`] | the bytes of one event → an event of a channel, or a rejection |
//! | [`cloud_events`] | the same event inside a CloudEvent |
//! | [`rejection`] | why an input is no event: the catalogue of codes |
//! | [`limits`] | how much of an input is looked at |
//! | [`dead_letter`] | what could not be processed, with its reason |
//! | [`port`] | the traits through which rooms meet: [`port::Publisher`], [`port::EventLog`], [`port::DeadLetterStore`] |

pub mod channel;
pub mod cloud_events;
pub mod dead_letter;
pub mod decode;
pub mod event;
pub mod filter;
pub mod ingest;
pub mod intake;
pub mod limits;
mod members;
mod pointer;
pub mod port;
pub mod position;
pub mod principal;
pub mod rejection;
pub mod scope;
pub mod secret;
mod timestamp;

pub use channel::{Channel, ChannelName, Channels};
pub use dead_letter::DeadLetter;
pub use event::{Commit, Event};
pub use filter::EventFilter;
pub use intake::Intake;
pub use limits::Limits;
pub use position::{Epoch, Position};
pub use principal::{Patterns, Principal};
pub use rejection::{Rejection, RejectionCode};
pub use scope::{Rooms, Scope};
pub use secret::Secret;
