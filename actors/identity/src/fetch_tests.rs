use freshet_kernel::task::{self, TaskHandle};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::*;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nkeys";
const LONG: Duration = Duration::from_secs(30);

fn certificate() -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(include_bytes!("../tests/keys/server-certificate.pem")).unwrap()
}

/// Answers one request over TLS, as `localhost`; its port.
async fn secure_server() -> (u16, TaskHandle<()>) {
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("../tests/keys/server-key.pem")).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = task::spawn("secure server", async move {
        let (socket, _) = listener.accept().await.unwrap();
        // A client that does not trust the certificate ends the handshake.
        let Ok(mut socket) = acceptor.accept(socket).await else { return };
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            request.push(socket.read_u8().await.unwrap());
        }
        socket.write_all(ANSWER).await.unwrap();
        socket.shutdown().await.unwrap();
    });
    (port, server)
}

fn trust_the_server() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add(certificate()).unwrap();
    roots
}

#[test]
fn a_server_is_asked_when_its_certificate_is_trusted_and_of_its_name() {
    actix::System::new().block_on(async {
        let (port, _server) = secure_server().await;
        let url = format!("https://localhost:{port}/keys");
        let trusting = Fetcher::trusting(trust_the_server, &url, LONG).unwrap();
        assert_eq!(trusting.fetch().await, Ok(Bytes::from_static(b"keys")));

        let (port, _server) = secure_server().await;
        let url = format!("https://127.0.0.1:{port}/keys");
        let other_name = Fetcher::trusting(trust_the_server, &url, LONG).unwrap().fetch().await;
        assert!(matches!(other_name, Err(FetchError::Tls(..))), "{other_name:?}");

        let (port, _server) = secure_server().await;
        let url = format!("https://localhost:{port}/keys");
        let untrusted = Fetcher::new(&url, LONG).unwrap().fetch().await;
        assert!(matches!(untrusted, Err(FetchError::Tls(..))), "{untrusted:?}");
    });
}

#[test]
fn a_server_without_tls_is_no_https_server() {
    actix::System::new().block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}/", listener.local_addr().unwrap());
        let server = task::spawn("plain server", async move {
            let (mut socket, _) = listener.accept().await.unwrap();
            socket.write_all(ANSWER).await.unwrap();
            // The client's first words are read, so that the end is no reset.
            let _ = socket.read(&mut [0; 4096]).await;
        });
        let refused = Fetcher::trusting(trust_the_server, &url, LONG).unwrap().fetch().await;
        assert!(matches!(refused, Err(FetchError::Tls(..))), "{refused:?}");
        server.await.unwrap();
    });
}

#[test]
fn a_server_that_does_not_answer_is_given_up() {
    actix::System::new().block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let soon = Duration::from_millis(5);
        let silent = Fetcher::new(&url, soon).unwrap().fetch().await;
        assert_eq!(silent, Err(FetchError::Timeout("127.0.0.1".to_owned(), soon)));
        drop(listener);
        let closed = Fetcher::new(&url, LONG).unwrap().fetch().await;
        assert!(matches!(closed, Err(FetchError::Connect(..))), "{closed:?}");
    });
}

#[test]
fn an_address_is_taken_apart() {
    let of = |host: &str, port, authority: &str, path: &str, is_secure| {
        let (host, authority, path) = (host.to_owned(), authority.to_owned(), path.to_owned());
        Some(Address { host, port, authority, path, is_secure })
    };
    let cases = [
        ("https://issuer.example/a?b=c", of("issuer.example", 443, "issuer.example", "/a?b=c", true)),
        ("https://issuer.example:8443", of("issuer.example", 8443, "issuer.example:8443", "/", true)),
        ("https://192.0.2.1/x", of("192.0.2.1", 443, "192.0.2.1", "/x", true)),
        ("http://[::1]:81/x", of("::1", 81, "[::1]:81", "/x", false)),
        ("http://127.0.0.1", of("127.0.0.1", 80, "127.0.0.1", "/", false)),
        ("http://127.8.9.1:80/x", of("127.8.9.1", 80, "127.8.9.1:80", "/x", false)),
    ];
    for (url, expected) in cases {
        assert_eq!(Address::parse(url), expected, "{url}");
        assert!(Fetcher::trusting(trust_the_server, url, LONG).is_ok(), "{url}");
    }
}

#[test]
fn keys_do_not_cross_a_network_in_the_clear() {
    for url in [
        "",
        "/keys",
        "issuer.example",
        "ftp://issuer.example/",
        "file:///etc/jwks.json",
        "https://",
        "https:///keys",
        "https://issuer.example:x/",
        "https://issuer.example:99999/",
        "https://user@issuer.example/",
        "https://issuer.example /",
        "http://issuer.example/",
        "http://localhost/",
        "http://0.0.0.0/",
        "http://[::]/",
        "http://[::ffff:192.0.2.1]/",
        "http://192.0.2.1/",
        "http://169.254.169.254/",
        "http://2130706433/",
        "http://127.0.0.1.issuer.example/",
        "http://127.0.0.1:80@issuer.example/",
        "http://127.0.0.1:80.issuer.example/",
        "http://127.0.0.1\\@issuer.example/",
        "http://127.0.0.1%2eissuer.example/",
    ] {
        assert_eq!(Address::parse(url), None, "{url}");
        let refused = Fetcher::trusting(trust_the_server, url, LONG).err();
        assert_eq!(refused, Some(FetchError::Address), "{url}");
    }
}

#[test]
fn without_a_trusted_certificate_nothing_is_fetched() {
    let no_roots = Fetcher::trusting(RootCertStore::empty, "https://issuer.example/", LONG);
    assert!(matches!(no_roots.err(), Some(FetchError::TlsSetup(_))));
}
