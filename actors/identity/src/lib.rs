//! The identity room owns the settings by which clients prove who they are.
//!
//! It promises that settings which would let a client in unchecked are reported as problems.
//! It may not touch events, sockets or the event log.

pub mod config;
pub use config::Config;
