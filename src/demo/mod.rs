//! The demo: a lake that commits, so that somebody who tries Freshet sees it live with no service and no network.

mod feed;
mod scenario;

pub use feed::child;
pub use scenario::{Commit, Scenario};
