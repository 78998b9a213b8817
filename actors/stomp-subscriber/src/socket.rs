//! A socket to a broker: TCP, and TLS where it is wanted.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::config::{Config, split_broker};
use crate::failure::{Failure, FailureClass};
use crate::heartbeat::SILENCE_INTERVALS;

/// How long sent bytes may stay without the other side's confirmation before the operating system gives up, at
/// least. A broker that is merely busy confirms within it.
const MIN_USER_TIMEOUT: Duration = Duration::from_secs(30);

/// After how long without traffic the operating system probes a connection. It matters only where no heart-beats
/// were agreed.
const KEEP_ALIVE_AFTER: Duration = Duration::from_secs(60);

/// The least time that one address of a host gets to answer, whatever the number of its addresses.
const MIN_ADDRESS_SHARE: Duration = Duration::from_millis(500);

/// Bytes in both directions.
pub trait Socket: AsyncRead + AsyncWrite + Unpin {}
impl<T: AsyncRead + AsyncWrite + Unpin> Socket for T {}

/// Connects to the broker (`host:port`) within the configured time, and agrees on TLS where it is enabled. The
/// addresses of a host share the time, so that one that swallows packets leaves the others theirs.
///
/// # Errors
/// When the name, the network or TLS fails, by class.
pub async fn open(broker: &str, config: &Config) -> Result<Box<dyn Socket>, Failure> {
    let Some((host, port)) = split_broker(broker) else {
        return Err(Failure::new(FailureClass::HostUnknown, format!("'{broker}' is not host:port")));
    };
    let stream = connect(host, port, config).await?;
    prepare(&stream, config).map_err(|error| Failure::from_io(&error))?;
    if !config.tls.enabled {
        return Ok(Box::new(stream));
    }
    let name = match config.tls.server_name.as_str() {
        "" => host,
        name => name,
    };
    let name = ServerName::try_from(name.to_owned())
        .map_err(|error| tls_failure(format!("'{name}' is no name for a certificate: {error}")))?;
    let connector = TlsConnector::from(Arc::new(tls_configuration(config).await?));
    let handshake =
        async { connector.connect(name, stream).await.map_err(|error| tls_failure(error.to_string())) };
    let stream = in_time(config, "TLS was not agreed", handshake).await?;
    Ok(Box::new(stream))
}

async fn in_time<T>(
    config: &Config,
    what: &str,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let limit = config.connect_timeout();
    tokio::time::timeout(limit, work).await.unwrap_or_else(|_| {
        let reason = format!("{what} within {} ms", limit.as_millis());
        Err(Failure::new(FailureClass::ConnectTimedOut, reason))
    })
}

async fn connect(host: &str, port: u16, config: &Config) -> Result<TcpStream, Failure> {
    let resolving = async {
        let addresses = lookup_host((host, port)).await;
        addresses.map_err(|error| Failure::new(FailureClass::HostUnknown, error.to_string()))
    };
    let addresses: Vec<_> = in_time(config, "the name was not resolved", resolving).await?.collect();
    first_that_opens(&addresses, config.connect_timeout(), TcpStream::connect).await
}

/// Tries all addresses in the resolver's order, each for its share of the time.
async fn first_that_opens<T>(
    addresses: &[SocketAddr],
    limit: Duration,
    open: impl AsyncFn(SocketAddr) -> io::Result<T>,
) -> Result<T, Failure> {
    let count = u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
    let share = (limit / count).max(MIN_ADDRESS_SHARE.min(limit));
    let mut failure = Failure::new(FailureClass::HostUnknown, "the name has no address");
    for &address in addresses {
        failure = match tokio::time::timeout(share, open(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => Failure::from_io(&error),
            Err(_) => {
                let reason = format!("{address} did not answer within {} ms", share.as_millis());
                Failure::new(FailureClass::ConnectTimedOut, reason)
            }
        };
    }
    Err(failure)
}

fn prepare(stream: &TcpStream, config: &Config) -> io::Result<()> {
    // Acknowledgements are small and leave at once.
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    let keep_alive =
        TcpKeepalive::new().with_time(KEEP_ALIVE_AFTER).with_interval(KEEP_ALIVE_AFTER / 4).with_retries(4);
    socket.set_tcp_keepalive(&keep_alive)?;
    #[cfg(target_os = "linux")]
    {
        let silence = Duration::from_millis(config.heart_beat_receive_millis).mul_f32(SILENCE_INTERVALS);
        socket.set_tcp_user_timeout(Some(silence.max(MIN_USER_TIMEOUT)))?;
    }
    #[cfg(not(target_os = "linux"))]
    let _ = config;
    Ok(())
}

/// Read anew for each connection, so that an authority that was exchanged on disk counts from the next one on.
async fn tls_configuration(config: &Config) -> Result<ClientConfig, Failure> {
    let ca_file = config.tls.ca_file.clone();
    let roots = freshet_kernel::task::blocking("stomp_trusted_authorities", move || match ca_file.as_str() {
        "" => Ok(system_roots()),
        path => roots_of(PathBuf::from(path)),
    })
    .await
    .map_err(|error| tls_failure(error.to_string()))??;
    // Named, because another crate of the tree enables a second provider and rustls then chooses none.
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| tls_failure(error.to_string()))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// Authorities that cannot be read are left out; a broker that needs one of them is then refused with its reason.
fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

fn roots_of(path: PathBuf) -> Result<RootCertStore, Failure> {
    let unreadable = |error: String| tls_failure(format!("ca_file '{}': {error}", path.display()));
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(&path).map_err(|error| unreadable(error.to_string()))? {
        let certificate = certificate.map_err(|error| unreadable(error.to_string()))?;
        roots.add(certificate).map_err(|error| unreadable(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(unreadable("holds no certificate".to_owned()));
    }
    Ok(roots)
}

fn tls_failure(reason: String) -> Failure {
    Failure::new(FailureClass::TlsFailed, reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::Instant;

    /// Addresses of a host, told apart by their port.
    fn addresses(count: u16) -> Vec<SocketAddr> {
        (1..=count).map(|port| ([192, 0, 2, 1], port).into()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_that_swallows_packets_leaves_the_next_one_its_time() {
        let begun = Instant::now();
        let open = async |address: SocketAddr| match address.port() {
            1 => std::future::pending().await,
            port => Ok(port),
        };
        let opened = first_that_opens(&addresses(2), Duration::from_secs(10), open).await;
        assert_eq!(opened, Ok(2));
        assert_eq!(begun.elapsed().as_secs(), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn each_of_many_addresses_gets_half_a_second_unless_all_time_is_less() {
        for (limit_millis, expected_millis) in [(1000, 40 * 500), (100, 40 * 100)] {
            let begun = Instant::now();
            let open = async |_: SocketAddr| std::future::pending::<io::Result<()>>().await;
            let opened = first_that_opens(&addresses(40), Duration::from_millis(limit_millis), open).await;
            assert_eq!(opened.unwrap_err().class, FailureClass::ConnectTimedOut);
            let waited = begun.elapsed().as_millis();
            assert!((expected_millis..expected_millis + 100).contains(&waited), "{waited}");
        }
    }

    #[tokio::test]
    async fn a_host_without_an_address_is_unknown() {
        let open = async |_: SocketAddr| Ok(());
        let opened = first_that_opens(&[], Duration::from_secs(1), open).await;
        assert_eq!(opened.unwrap_err().class, FailureClass::HostUnknown);
    }
}
