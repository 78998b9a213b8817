//! The HTTP server whose sockets streams can take.

use std::fmt;
use std::future::ready;
use std::net::TcpListener;
use std::time::Duration;

use actix_http::body::MessageBody;
use actix_http::{HttpService, Protocol, Request, Response};
use actix_server::Server;
use actix_service::{IntoServiceFactory, ServiceFactory, ServiceFactoryExt, fn_service, map_config};
use actix_web::Error;
use actix_web::dev::AppConfig;
use actix_web::rt::net::TcpStream;

use crate::config::Config;
use crate::door::Door;
use crate::socket;

/// A response gathers this much before it is written. Larger buffers would be kept by each connection; smaller ones
/// cost more system calls.
const WRITE_BUFFER_BYTES: usize = 8192;

/// How the server treats connections that are no streams.
#[derive(Clone, Debug)]
pub struct Options {
    /// The threads that serve; nothing takes one for each core.
    pub workers: Option<usize>,
    /// Connections of each thread, streams not counted.
    pub max_connections_per_worker: usize,
    /// How long an idle connection is kept.
    pub keep_alive: Duration,
    /// How long the head of a request may take.
    pub request_head_timeout: Duration,
    /// How long requests may take to finish at the end.
    pub shutdown_timeout: Duration,
}

/// Serves an application on an open socket. It is `HttpServer` of actix-web, but that a
/// [stream](crate::events()) can take its socket with it.
///
/// # Errors
/// When the socket cannot be used.
pub fn serve<F, I, S, B>(
    listener: TcpListener,
    options: &Options,
    sessions: &Config,
    application: F,
) -> std::io::Result<Server>
where
    F: Fn() -> I + Send + Clone + 'static,
    I: IntoServiceFactory<S, Request>,
    S: ServiceFactory<Request, Config = AppConfig> + 'static,
    S::Error: Into<Error> + 'static,
    S::InitError: fmt::Debug,
    S::Response: Into<Response<B>> + 'static,
    <S::Service as actix_service::Service<Request>>::Future: 'static,
    B: MessageBody + 'static,
{
    let http_options = options.clone();
    let prepare = socket::prepare(sessions);
    let server = Server::build()
        .max_concurrent_connections(options.max_connections_per_worker)
        .shutdown_timeout(options.shutdown_timeout.as_secs())
        .disable_signals();
    let server = match options.workers {
        Some(workers) => server.workers(workers),
        None => server,
    };
    let stopping = server.graceful_shutdown_signal();
    let server = server.listen("http", listener, move || {
        let stopping = stopping.clone();
        let application = application().into_factory().map_err(|error| error.into().error_response());
        let http = HttpService::build()
            // A connection that waits for its next request ends then; otherwise a balancer's would hold up the stop.
            .graceful_shutdown_signal(move || {
                let stopping = stopping.clone();
                async move { stopping.notified().await }
            })
            .keep_alive(http_options.keep_alive)
            .client_request_timeout(http_options.request_head_timeout)
            .h1_write_buffer_size(WRITE_BUFFER_BYTES)
            // A client that closed its side reads no more either.
            .h1_allow_half_closed(false)
            .on_connect_ext(|door: &Door, data: &mut actix_web::dev::Extensions| {
                data.insert(door.handle());
            })
            .finish(map_config(application, |()| AppConfig::default()));
        let prepare = prepare.clone();
        fn_service(move |stream: TcpStream| {
            prepare(&stream);
            let peer = stream.peer_addr().ok();
            ready(Ok((Door::new(stream), Protocol::Http1, peer)))
        })
        .and_then(http)
    })?;
    Ok(server.run())
}
