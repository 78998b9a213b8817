//! The section `[server]`.

use std::net::{Ipv4Addr, SocketAddr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// The HTTP server: feeds, history, ingest, health and metrics.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ServerConfig {
    /// The IP address and port to listen on. Port 0 takes a free port. An address that other machines can
    /// reach needs authentication (`[identity]`) or `allow_remote`.
    #[schemars(schema_with = "socket_address")]
    pub listen: SocketAddr,
    /// Whether other machines may connect although nobody has to prove who they are: whoever reaches the port then reads
    /// every event, may send events and is an administrator. Set it to true only behind a proxy or a network that decides
    /// who may connect.
    pub allow_remote: bool,
    /// The names that a request may be addressed to (its `Host`), without port. Empty accepts, on a loopback address,
    /// only `localhost` and loopback addresses, so that no web page can reach the daemon by a name of its own; on
    /// another address every name.
    pub allowed_hosts: Vec<String>,
    /// The origins whose pages may use the daemon from a browser besides its own, such as `https://dashboard.example.com`.
    pub allowed_origins: Vec<String>,
    /// The number of threads that serve connections; 0 takes one for each core.
    #[schemars(range(max = 1024))]
    pub workers: usize,
    /// The most connections that each of those threads holds, event streams included. Further ones wait in the
    /// kernel. Keep it above the number of event streams, so that health checks and searches are still served
    /// when every stream is taken.
    #[schemars(range(min = 16, max = 1_000_000))]
    pub max_connections_per_worker: usize,
    /// The seconds that a client has to send the head of its request.
    #[schemars(range(min = 1, max = 300))]
    pub request_head_timeout_secs: u64,
    /// The seconds that the body of a request has to arrive, so that a client that falls silent in the middle of one
    /// does not keep others out.
    #[schemars(range(min = 1, max = 3600))]
    pub request_body_timeout_secs: u64,
    /// The seconds that an idle connection is kept for the next request. Set it above the idle limit of the load
    /// balancer, so that the balancer is the one that closes.
    #[schemars(range(min = 1, max = 3600))]
    pub keep_alive_secs: u64,
    /// Whether `/readyz` is red while a part lives through an outage, such as a broker that is away. When every
    /// instance listens to the same broker, all of them turn red together: set it to false where the load balancer
    /// would then send nobody anywhere. The reasons are listed either way.
    pub unready_when_degraded: bool,
    /// The seconds between the signal to stop and the first closed stream. Readiness is red from the signal on,
    /// so this is the time that load balancers have to look away. Then come `drain_window_secs` of
    /// `[sessions]`.
    #[schemars(range(max = 300))]
    pub drain_delay_secs: u64,
    /// The seconds that everything has to finish after the streams are closed. What has not ended by then is cut off; what was
    /// acknowledged is on disk in any case.
    #[schemars(range(min = 1, max = 300))]
    pub shutdown_timeout_secs: u64,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)),
            allow_remote: false,
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            workers: 0,
            max_connections_per_worker: 25_000,
            request_head_timeout_secs: 10,
            request_body_timeout_secs: 30,
            keep_alive_secs: 75,
            unready_when_degraded: true,
            drain_delay_secs: 0,
            shutdown_timeout_secs: 10,
        }
    }
}

impl ServerConfig {
    /// Impossible combinations: the key's path in this section, and what to do.
    #[must_use]
    pub fn problems(&self, trusts_everyone: bool) -> Vec<(Vec<String>, String)> {
        let mut problems = Vec::new();
        if !self.listen.ip().is_loopback() && trusts_everyone && !self.allow_remote {
            let message = "this address can be reached by other machines and there is no authentication: \
                           configure [identity], set server.allow_remote = true to allow it, or listen on 127.0.0.1";
            problems.push((vec!["listen".to_owned()], message.to_owned()));
        }
        let is_host = |host: &String| {
            let allowed =
                |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'[' | b']');
            let is_address = host.starts_with('[') && host.ends_with(']');
            !host.is_empty() && (is_address || host.bytes().all(allowed))
        };
        for (index, _) in self.allowed_hosts.iter().enumerate().filter(|(_, host)| !is_host(host)) {
            let message = "must be a name or an address without scheme and port, such as feed.example.com";
            problems.push((vec!["allowed_hosts".to_owned(), index.to_string()], message.to_owned()));
        }
        for (index, _) in self.allowed_origins.iter().enumerate().filter(|(_, origin)| !is_origin(origin)) {
            let message = "must be scheme, host and port as browsers send them, such as https://dashboard.example.com, \
                           in lower case and without a slash at the end";
            problems.push((vec!["allowed_origins".to_owned(), index.to_string()], message.to_owned()));
        }
        problems
    }
}

/// Whether a browser could send it in an `Origin` header: other texts would never match.
fn is_origin(text: &str) -> bool {
    let authority = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let is_allowed =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-:[]".contains(&byte);
    authority.is_some_and(|authority| !authority.is_empty() && authority.bytes().all(is_allowed))
}

fn socket_address(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "socket-address" })
}
