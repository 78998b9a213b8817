//! The room against real brokers: ActiveMQ Classic and RabbitMQ, started by `tests/services`.
//!
//! A broker that cannot be started fails its tests with the words of the start script.
#![allow(clippy::unwrap_used, reason = "helpers of tests may end a test")]

#[path = "../support/mod.rs"]
mod support;

mod activemq;
mod producer;
mod proxy;
mod rabbitmq;
mod scripts;
mod service;
mod stories;
mod supervised;
