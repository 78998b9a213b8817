//! Opening the port before anything else starts, so that a port in use is a clear error and not a restart.

use std::io;
use std::net::{SocketAddr, TcpListener};

use socket2::{Domain, Protocol, Socket, Type};

/// Connections that the kernel may hold before they are accepted: room for all dashboards of a house that
/// reconnect at once.
const BACKLOG: i32 = 4096;

/// The address cannot be listened on.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Another process listens there.
    #[error(
        "cannot listen on {0}: the port is in use by another process; stop it, or choose another with --listen"
    )]
    InUse(SocketAddr),
    /// Another reason of the operating system.
    #[error("cannot listen on {0}: {1}")]
    Other(SocketAddr, #[source] io::Error),
}

/// Opens the port.
///
/// # Errors
/// When it is in use, or may not be used.
pub fn listen(address: SocketAddr) -> Result<TcpListener, ListenError> {
    let open = || {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        // A restart may take the port while connections of the last life still fade away.
        socket.set_reuse_address(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        socket.set_nonblocking(true)?;
        Ok(TcpListener::from(socket))
    };
    open().map_err(|error: io::Error| match error.kind() {
        io::ErrorKind::AddrInUse => ListenError::InUse(address),
        _ => ListenError::Other(address, error),
    })
}
