//! Freshet, the daemon: command line, configuration, HTTP, and the building of the tree.

pub mod cli;
pub mod config;
mod counted;
mod demo;
pub mod exit_code;
mod http;
mod lifecycle;
mod listen;
mod open_files;
mod readiness;
pub mod run;
mod shared_log;
mod telemetry;
mod tree;
