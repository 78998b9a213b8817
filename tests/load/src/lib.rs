//! Measures the fan-out to SSE clients against its floor.
//!
//! **What is measured.** For each row of clients and events a second: CPU seconds of the server for a million
//! deliveries, its memory for each connection, the latency from publication to reception, and what was lost,
//! came twice or out of order. The daemon is compared with the floor, a plain loop of `send()`, on the same
//! machine in the same run, in turns.
//!
//! ```text
//! cargo build --release -p freshet -p freshet-load
//! freshet-load bench --freshet target/release/freshet --out docs/benchmarks.md
//! ```
//!
//! **What it promises.** Every figure comes from exact counts: each event has a number, each client must receive
//! each number once and in order. Runs are bounded in time and count, talk to loopback only, and end only the
//! processes that they started.
//!
//! **What it may not touch.** The daemon's code: it knows the wire contract and nothing else.
//!
//! **How to read the figures.** The clients share the cores with the server, so latency contains the wait for
//! them; and on loopback the sender pays for the receiver's part of TCP. Compare rows of one run only.
//!
//! | module | what it does |
//! |---|---|
//! | [`mod@bench`] | runs the servers one after the other and measures them |
//! | [`swarm`] | many SSE clients and the publisher on one thread |
//! | [`publisher`] | the connection that publishes |
//! | [`floor`] | the plain loop of `send()` |
//! | [`process`] | the servers as processes |
//! | [`system`] | clock, CPU time, memory, limits |
//! | [`scenario`], [`event`] | what is published, how fast, to how many |
//! | [`response`], [`sse`] | HTTP and SSE, in pieces of any size |
//! | [`tally`], [`histogram`], [`statistics`] | counting |
//! | [`report`] | the tables |

pub mod bench;
pub mod event;
pub mod floor;
pub mod histogram;
pub mod process;
pub mod publisher;
pub mod report;
pub mod response;
pub mod scenario;
pub mod sse;
pub mod statistics;
pub mod swarm;
pub mod system;
pub mod tally;
