//! The section `[server]`.

use std::net::{Ipv4Addr, SocketAddr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// The HTTP server: feeds, history, ingest, health and metrics.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ServerConfig {
    /// The IP address and port to listen on. Port 0 takes a free port. An address that other machines can
    /// reach also needs `allow_remote`.
    #[schemars(schema_with = "socket_address")]
    pub listen: SocketAddr,
    /// Whether other machines may connect. There is no authentication: whoever reaches the port reads every
    /// event and may send events. Set it to true only behind a proxy or a network that decides who may connect.
    pub allow_remote: bool,
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
    pub fn problems(&self) -> Vec<(Vec<String>, String)> {
        let mut problems = Vec::new();
        if !self.listen.ip().is_loopback() && !self.allow_remote {
            let message = "this address can be reached by other machines and there is no authentication: \
                           set server.allow_remote = true to allow it, or listen on 127.0.0.1";
            problems.push((vec!["listen".to_owned()], message.to_owned()));
        }
        problems
    }
}

fn socket_address(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "socket-address" })
}
