//! The messages of the WebSocket subprotocol `freshet.v1`: one JSON object in each text frame.
//!
//! | module | what it gives |
//! |---|---|
//! | [`request`] | what a client says, understood or refused with a code |
//! | [`answer`] | what the daemon says, besides events |

#![allow(dead_code, reason = "wired in by the session")]

pub(crate) mod answer;
mod members;
pub(crate) mod request;

/// The name of the subprotocol, for `Sec-WebSocket-Protocol` and the welcome.
pub(crate) const SUBPROTOCOL: &str = "freshet.v1";
