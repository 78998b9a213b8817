//! What the operating system is told about each connection.

use std::any::Any;
use std::time::Duration;

use actix_web::dev::Extensions;
use actix_web::rt::net::TcpStream;
use socket2::SockRef;

use crate::config::Config;

/// For `HttpServer::on_connect`. The body of a stalled socket is never polled again, so nothing in this process
/// could end it; the operating system does (`TCP_USER_TIMEOUT`), and holds little for it until then
/// (`TCP_NOTSENT_LOWAT`). Small writes go out at once (`TCP_NODELAY`).
pub fn on_connect(config: &Config) -> impl Fn(&dyn Any, &mut Extensions) + Send + Sync + Clone + 'static {
    let stalled_after = Duration::from_secs(config.stalled_after_secs);
    let unsent_max_bytes = config.socket_unsent_max_bytes;
    move |connection, _| {
        let Some(stream) = connection.downcast_ref::<TcpStream>() else { return };
        let socket = SockRef::from(stream);
        let set = socket.set_tcp_nodelay(true);
        #[cfg(target_os = "linux")]
        let set = set
            .and_then(|()| socket.set_tcp_user_timeout(Some(stalled_after)))
            .and_then(|()| socket.set_tcp_notsent_lowat(unsent_max_bytes));
        #[cfg(not(target_os = "linux"))]
        let _ = (stalled_after, unsent_max_bytes);
        if let Err(error) = set {
            tracing::debug!(%error, "socket options cannot be set");
        }
    }
}
