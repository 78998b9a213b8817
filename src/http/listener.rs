//! The actor that owns the HTTP server and its worker threads.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, ActorContext, ActorFutureExt, AsyncContext, Context, Running, WrapFuture};
use actix_web::dev::ServerHandle;
use actix_web::middleware::from_fn;
use actix_web::{App, web};
use freshet_kernel::{Child, ChildSpec, ExitReason, Link};
use freshet_session::server::Options;
use serde_json::json;

use super::identity::identify;
use super::ingest::IngestPermits;
use super::{Services, routes};
use crate::config::Configuration;

/// The class of the actor in the tree.
pub const CLASS: &str = "HttpServer";

/// Owns the HTTP server: it starts with the actor and stops with it.
pub struct Listener {
    link: Link<Self>,
    socket: Arc<TcpListener>,
    services: web::Data<Services>,
    config: Configuration,
    server: Option<ServerHandle>,
}

/// The child that serves on an open socket. The socket outlives a restart, so that no client is refused by it.
pub fn child(socket: TcpListener, services: Services, config: &Configuration) -> ChildSpec<Listener> {
    let socket = Arc::new(socket);
    let services = web::Data::new(services);
    let config = config.clone();
    // The server looks at its own limit once a second; it is to end by that one and not to be killed.
    let shutdown_within = Duration::from_secs(config.server.shutdown_timeout_secs + 3);
    ChildSpec::new("http", CLASS, move |link| Listener {
        link,
        socket: Arc::clone(&socket),
        services: services.clone(),
        config: config.clone(),
        server: None,
    })
    .shutdown_within(shutdown_within)
}

impl Listener {
    fn serve(&self) -> std::io::Result<actix_web::dev::Server> {
        let services = self.services.clone();
        let application = move || {
            App::new()
                .app_data(services.clone())
                .app_data(web::Data::new(services.sessions.clone()))
                .app_data(web::Data::new(IngestPermits::default()))
                .wrap(from_fn(identify))
                .configure(routes)
        };
        let server = &self.config.server;
        let options = Options {
            workers: (server.workers > 0).then_some(server.workers),
            max_connections_per_worker: server.max_connections_per_worker,
            keep_alive: Duration::from_secs(server.keep_alive_secs),
            request_head_timeout: Duration::from_secs(server.request_head_timeout_secs),
            shutdown_timeout: Duration::from_secs(server.shutdown_timeout_secs),
        };
        freshet_session::serve(self.socket.try_clone()?, &options, &self.config.sessions, application)
    }
}

impl Actor for Listener {
    type Context = Context<Self>;

    fn started(&mut self, context: &mut Context<Self>) {
        let server = match self.serve() {
            Ok(server) => server,
            Err(error) => {
                let reason = ExitReason::Error(format!("the server cannot start: {error}"));
                self.link.exit(context, reason);
                return;
            }
        };
        self.server = Some(server.handle());
        context.spawn(server.into_actor(self).map(|ended, actor, context| {
            let reason = match ended {
                Ok(()) => ExitReason::Error("the server ended by itself".to_owned()),
                Err(error) => ExitReason::Error(format!("the server failed: {error}")),
            };
            if actor.server.is_some() {
                actor.link.exit(context, reason);
            }
        }));
    }

    fn stopping(&mut self, context: &mut Context<Self>) -> Running {
        let Some(server) = self.server.take() else { return Running::Stop };
        // Streams are closed by now; what still runs are short requests, and they are finished first.
        let stopped = server.stop(true);
        context.spawn(stopped.into_actor(self).map(|(), _, context| context.terminate()));
        Running::Continue
    }
}

impl Child for Listener {
    fn observe(&self) -> serde_json::Value {
        json!({ "address": self.socket.local_addr().map(|address| address.to_string()).ok() })
    }
}
