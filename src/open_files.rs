//! Room for the sockets of all clients: each takes one open file of the process.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// What the process opens besides its clients: stores, brokers, requests.
const BESIDES_CLIENTS: u64 = 256;

/// Raises the limit of open files as far as the system allows, since the usual soft limit of 1,024 would end
/// clients, health checks and stores alike; warns when even the hard limit is too low for the sessions.
pub fn prepare(max_sessions: usize) {
    let wanted = max_sessions as u64 + BESIDES_CLIENTS;
    let raised = getrlimit(Resource::RLIMIT_NOFILE).and_then(|(soft, hard)| {
        if soft < hard {
            setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
        }
        Ok(hard)
    });
    match raised {
        Ok(limit) if limit >= wanted => {}
        Ok(limit) => tracing::warn!(limit, wanted, "fewer files may be open than sessions are allowed"),
        Err(error) => tracing::warn!(%error, "the limit of open files cannot be raised"),
    }
}
