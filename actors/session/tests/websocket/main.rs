//! What a client of the WebSocket protocol `freshet.v1` sees: a real server, real sockets, and a client that takes RFC
//! 6455 at its word.

#![allow(dead_code, reason = "each test uses its part of the support")]
#![allow(clippy::unwrap_used, reason = "the support of tests fails as tests do")]

#[path = "../support/daemon.rs"]
mod daemon;
#[path = "../../../broadcaster/tests/support/memory_log.rs"]
mod memory_log;
#[path = "../support/orders.rs"]
mod orders;
#[path = "../support/sse.rs"]
mod sse;
#[path = "../support/websocket.rs"]
mod websocket;

mod channels;
mod endings;
mod farewells;
mod frames;
mod handshake;
mod knowledge;
mod messages;
mod pace;
mod recovery;
mod snapshot;
mod windows;
