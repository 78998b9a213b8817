//! Measures the fan-out to SSE and WebSocket clients against its floor and against other servers.
//!
//! **What is measured.** For each server, transport, and row of clients and events a second: CPU seconds of the server
//! for a million deliveries, its memory and CPU for each connection, the latency from publication to reception, and
//! what was lost, came twice or out of order. Besides: bursts, clients without events, one slow client in a hundred,
//! the memory after an hour's worth of events, clients that stop reading, and ten minutes beside clients that do not keep
//! up. The daemon, the floor, nchan, Centrifugo
//! and plain Node.js services get the same events at the same pace on the same machine in one run, in turns.
//!
//! ```text
//! tests/load/peers/install
//! cargo build --release -p freshet -p freshet-load
//! freshet-load bench --freshet target/release/freshet --out docs/benchmarks.md
//! ```
//!
//! **What it promises.** Every figure comes from exact counts: each event has a number, each client must receive
//! each number once and in order. Runs are bounded in time and count, talk to loopback only, and end only the
//! processes that they started. A server that is absent or fails has a line that says so.
//!
//! **What it may not touch.** The daemon's code: it knows the wire contract and nothing else.
//!
//! **How to read the figures.** The clients share the cores with the server, so latency contains the wait for
//! them; and on loopback the sender pays for the receiver's part of TCP. Compare rows of one run only.
//!
//! | module | what it does |
//! |---|---|
//! | [`mod@bench`] | runs the servers one after the other, in every scenario |
//! | [`measure`] | one measurement: start, connect, publish, read the meters, end |
//! | [`server`] | the servers, and how each is spoken to |
//! | [`process`] | the servers as processes |
//! | [`floor`] | the plain loop of `send()` |
//! | [`swarm`], [`client`] | many clients and the publisher on one thread |
//! | [`publisher`] | the connection that publishes |
//! | [`scenario`], [`event`] | what is published, how fast, to how many |
//! | [`response`], [`sse`], [`websocket`] | HTTP, SSE and WebSocket, in pieces of any size |
//! | [`tally`], [`histogram`], [`statistics`] | counting |
//! | [`system`] | clock, CPU time, memory, limits |
//! | [`targets`] | what the daemon is to reach |
//! | [`laggard`], [`laggards`] | clients that do not keep up, and what they do to the others |
//! | [`counters`] | what the daemon counts of its sessions |
//! | [`report`], [`tables`], [`laggards_tables`] | the report |

pub mod bench;
pub mod client;
pub mod counters;
pub mod event;
pub mod floor;
pub mod histogram;
pub mod laggard;
pub mod laggards;
pub mod laggards_tables;
pub mod measure;
pub mod process;
pub mod publisher;
pub mod report;
pub mod response;
pub mod scenario;
pub mod server;
pub mod sse;
pub mod statistics;
pub mod swarm;
pub mod system;
pub mod tables;
pub mod tally;
pub mod targets;
pub mod websocket;
