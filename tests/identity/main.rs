//! Who may see what, asked of the real daemon by clients, attackers and administrators.

#[path = "../support/mod.rs"]
mod support;

mod administrators;
mod attacks;
mod browsers;
mod endings;
mod nobody;
mod place;
mod tenants;
mod tickets;
mod websocket;
