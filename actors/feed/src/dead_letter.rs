//! What could not be processed, with its reason.

use bytes::Bytes;

/// An input that could not be processed. Its bytes and headers are kept as they came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// Where it came from: a subscription's name, or `http`.
    pub source: String,
    /// Where it stood at its source, for a person who looks for it: a message id, an offset, an address.
    pub source_position: String,
    /// A stable code of the reason, from the catalogue of the room that gave up on it: `event_not_json`.
    pub code: String,
    /// The reason in a sentence, without the contents of the input.
    pub reason: String,
    /// Headers in the order in which they came.
    pub headers: Vec<(String, String)>,
    /// The body, byte for byte.
    pub body: Bytes,
}
