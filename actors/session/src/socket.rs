//! What the operating system is told about each connection.

use std::time::Duration;

use actix_web::rt::net::TcpStream;
use socket2::SockRef;

use crate::config::Config;

/// Prepares a connection. A client that has stalled is ended by the operating system (`TCP_USER_TIMEOUT`), which holds
/// little for it until then (`TCP_NOTSENT_LOWAT`). Small writes go out at once (`TCP_NODELAY`).
pub(crate) fn prepare(config: &Config) -> impl Fn(&TcpStream) + Send + Clone + 'static {
    let stalled_after = Duration::from_secs(config.stalled_after_secs);
    let unsent_max_bytes = config.socket_unsent_max_bytes;
    move |stream| {
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
