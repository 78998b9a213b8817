//! Freshet, the daemon: command line, configuration, HTTP, and the building of the tree.

pub mod cli;
pub mod config;
pub mod exit_code;
mod counted;
mod demo;
mod http;
mod lifecycle;
mod listen;
mod open_files;
mod readiness;
pub mod run;
mod telemetry;
mod tree;
