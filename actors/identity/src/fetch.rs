//! Fetches a key set: one request on a connection of its own, bounded in bytes and time. Redirects are not followed,
//! and no proxy is used: keys come from where the configuration says, or not at all.

use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{Either, select};
use http_body_util::{BodyExt, Empty, LengthLimitError, Limited};
use hyper::header::{ACCEPT, CONNECTION, HOST, USER_AGENT};
use hyper::http::uri::Authority;
use hyper::{Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring};

use crate::keys::MAX_KEYS_BYTES;

/// Why a key set could not be fetched. Texts name no more of the address than its host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// The address is none, names a user, or would be asked over a network without TLS.
    #[error("the address of the key set is neither https nor http to a loopback address")]
    Address,
    /// TLS cannot be set up, such as without any trusted certificate.
    #[error("tls cannot be set up: {0}")]
    TlsSetup(String),
    /// No connection.
    #[error("cannot connect to {0}: {1}")]
    Connect(String, String),
    /// The server is not who it should be, or speaks no TLS.
    #[error("no secure connection to {0}: {1}")]
    Tls(String, String),
    /// No answer, or half of one.
    #[error("{0} did not answer as a web server: {1}")]
    Protocol(String, String),
    /// Another status than 200.
    #[error("{0} answered with status {1}")]
    Status(String, u16),
    /// More than [`MAX_KEYS_BYTES`].
    #[error("{0} sent more than {MAX_KEYS_BYTES} bytes")]
    TooLarge(String),
    /// It took too long.
    #[error("{0} did not answer within {1:?}")]
    Timeout(String, Duration),
}

/// Where a key set is fetched: https, or http to this machine. Whoever can change the answer on its way decides who
/// everybody is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    host: String,
    port: u16,
    authority: String,
    path: String,
    is_secure: bool,
}

impl Address {
    /// Takes a URL apart. Nothing when it is none, names a user (who can look like the host), or is http to anything
    /// but a loopback address; the name `localhost` is none, since a resolver decides what it means.
    pub fn parse(url: &str) -> Option<Self> {
        let url: Uri = url.parse().ok()?;
        let authority = url.authority()?;
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let (is_secure, default_port) = match url.scheme_str()? {
            "https" => (true, 443),
            "http" if host.parse().is_ok_and(|host: IpAddr| host.is_loopback()) => (false, 80),
            _ => return None,
        };
        Some(Self {
            port: port_of(authority)?.unwrap_or(default_port),
            authority: authority.as_str().to_owned(),
            path: url.path_and_query().map_or("/", |path| path.as_str()).to_owned(),
            host,
            is_secure,
        })
    }
}

/// Fetches one address.
#[derive(Clone)]
pub(crate) struct Fetcher {
    address: Address,
    /// Nothing for http.
    tls: Option<(TlsConnector, ServerName<'static>)>,
    timeout: Duration,
}

impl Fetcher {
    /// Trusts the certificates that the system trusts.
    pub fn new(url: &str, timeout: Duration) -> Result<Self, FetchError> {
        Self::trusting(system_roots, url, timeout)
    }

    fn trusting(
        roots: impl FnOnce() -> RootCertStore,
        url: &str,
        timeout: Duration,
    ) -> Result<Self, FetchError> {
        let address = Address::parse(url).ok_or(FetchError::Address)?;
        let mut tls = None;
        if address.is_secure {
            let name = ServerName::try_from(address.host.clone()).map_err(|_| FetchError::Address)?;
            tls = Some((connector(roots())?, name));
        }
        Ok(Self { address, tls, timeout })
    }

    pub fn host(&self) -> &str {
        &self.address.host
    }

    /// The body of a 200. Cancel safe: the connection ends with the future.
    pub async fn fetch(&self) -> Result<Bytes, FetchError> {
        let answer = tokio::time::timeout(self.timeout, self.connect_and_get()).await;
        answer.unwrap_or_else(|_| Err(FetchError::Timeout(self.host().to_owned(), self.timeout)))
    }

    async fn connect_and_get(&self) -> Result<Bytes, FetchError> {
        let stream = TcpStream::connect((self.address.host.as_str(), self.address.port))
            .await
            .map_err(|error| FetchError::Connect(self.host().to_owned(), error.to_string()))?;
        let Some((connector, name)) = &self.tls else { return self.get(stream).await };
        let stream = connector
            .connect(name.clone(), stream)
            .await
            .map_err(|error| FetchError::Tls(self.host().to_owned(), error.to_string()))?;
        self.get(stream).await
    }

    async fn get(&self, stream: impl AsyncRead + AsyncWrite + Unpin) -> Result<Bytes, FetchError> {
        let protocol =
            |error: &dyn std::error::Error| FetchError::Protocol(self.host().to_owned(), error.to_string());
        let request = Request::get(&self.address.path)
            .header(HOST, &self.address.authority)
            .header(ACCEPT, "application/jwk-set+json, application/json")
            .header(USER_AGENT, "freshet")
            .header(CONNECTION, "close")
            .body(Empty::<Bytes>::new())
            .map_err(|_| FetchError::Address)?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| protocol(&error))?;
        let exchange = async {
            let response = sender.send_request(request).await.map_err(|error| protocol(&error))?;
            if response.status() != StatusCode::OK {
                return Err(FetchError::Status(self.host().to_owned(), response.status().as_u16()));
            }
            let body = Limited::new(response.into_body(), MAX_KEYS_BYTES).collect().await;
            match body {
                Ok(body) => Ok(body.to_bytes()),
                Err(error) if error.is::<LengthLimitError>() => {
                    Err(FetchError::TooLarge(self.host().to_owned()))
                }
                Err(error) => Err(protocol(&*error)),
            }
        };
        // The connection moves the bytes while the exchange waits for them; it may end first, with all of them read.
        match select(pin!(exchange), pin!(connection)).await {
            Either::Left((answer, _)) => answer,
            Either::Right((_, exchange)) => exchange.await,
        }
    }
}

/// The port that follows the host, where one does. The parser takes a port that is no number for none, and a user's
/// name before the host; here neither is an address.
fn port_of(authority: &Authority) -> Option<Option<u16>> {
    match authority.as_str().strip_prefix(authority.host())? {
        "" => Some(None),
        port => port.strip_prefix(':')?.parse().ok().map(Some),
    }
}

fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

fn connector(roots: RootCertStore) -> Result<TlsConnector, FetchError> {
    if roots.is_empty() {
        return Err(FetchError::TlsSetup("the system has no trusted certificates".to_owned()));
    }
    // Named, because another crate of the tree enables a second provider and rustls then chooses none.
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| FetchError::TlsSetup(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

#[cfg(test)]
#[path = "fetch_tests.rs"]
mod tests;
