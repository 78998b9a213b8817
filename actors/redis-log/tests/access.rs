//! Who may use a Redis, and how that is said.

#![allow(clippy::unwrap_used, clippy::panic, reason = "the support of tests fails as tests do")]

mod support;

use std::process::Command;

use freshet_feed::Secret;
use freshet_feed::port::EventLog;
use freshet_redis_log::{Config, RedisEventLog, RedisStore, Server};
use support::{ALL, Beside, Redis, event, follow, ids, until};

fn at(url: &str) -> Config {
    Config { url: Secret::new(url), ..Config::default() }
}

fn log(config: &Config) -> RedisEventLog {
    RedisEventLog::new(Server::new(config).unwrap(), config)
}

#[test]
fn what_cannot_be_reached_or_is_refused_has_its_class() {
    actix_rt::System::new().block_on(async {
        let redis = Redis::start("single", 16540);
        redis.command(&["CONFIG", "SET", "requirepass", "right"]).await;
        for (url, class) in [
            ("redis://:wrong@127.0.0.1:16540", "redis_auth"),
            ("redis://127.0.0.1:16540", "redis_auth"),
            ("redis://127.0.0.1:1", "redis_unreachable"),
            // It waits for the end of a line that is no command.
            ("rediss://127.0.0.1:16540", "redis_timeout"),
            ("redis-sentinel://127.0.0.1:1/freshet", "redis_unreachable"),
            ("redis-cluster://127.0.0.1:1", "redis_unreachable"),
        ] {
            let error = log(&at(url)).bounds().await.unwrap_err().to_string();
            assert!(error.contains(&format!("{class}: ")), "{url}: {error}");
            assert!(!error.contains("wrong"), "{error}");
        }
        assert!(log(&at("redis://:right@127.0.0.1:16540")).bounds().await.is_ok());
    });
}

#[test]
fn a_user_needs_no_more_than_the_keys_of_the_log() {
    actix_rt::System::new().block_on(async {
        let redis = Redis::start("single", 16542);
        let rights = ["~{freshet}:*", "+@all", "-@admin", "-@dangerous"];
        redis.command(&[&["ACL", "SETUSER", "app", "on", ">p@ss"], &rights[..]].concat()).await;
        let config = at("redis://app:p%40ss@127.0.0.1:16542");
        let (tree, listener) = follow(log(&config), &config).await;
        log(&config).append(vec![event("a")]).await.unwrap();
        listener.until(|listener| listener.events() == [(1, "a".to_owned())]).await;
        let store = RedisStore::new(Server::new(&config).unwrap(), &config);
        store.put("ticket", "value".into(), std::time::Duration::from_secs(9)).await.unwrap();
        assert_eq!(store.take("ticket").await, Ok(Some("value".into())));
        let elsewhere = Config { prefix: "elsewhere".to_owned(), ..config };
        let error = log(&elsewhere).append(vec![event("a")]).await.unwrap_err().to_string();
        assert!(error.contains("redis_auth: "), "{error}");
        tree.shutdown().await;
    });
}

const TLS_URL: &str = "FRESHET_TEST_REDIS_TLS_URL";

/// Which certificates the system believes is said to a process when it starts, so this test starts itself once more.
#[test]
fn tls_believes_the_certificates_of_the_system_and_no_others() {
    if let Ok(url) = std::env::var(TLS_URL) {
        actix_rt::System::new().block_on(append_and_follow(&at(&url)));
        return;
    }
    actix_rt::System::new().block_on(async {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        let (certificate, key) = (file("certificate.pem"), file("key.pem"));
        let made = Command::new("openssl")
            .args(["req", "-x509", "-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"])
            .args([
                "-days",
                "2",
                "-subj",
                "/CN=Redis of a test of Freshet",
                "-addext",
                "subjectAltName=DNS:localhost",
            ])
            .args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout", &key, "-out", &certificate])
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let tls = ["--tls-port", "16544", "--tls-auth-clients", "no", "--requirepass", "right"];
        let files = ["--tls-cert-file", &certificate, "--tls-key-file", &key];
        let _redis = Beside::start(&[&["--port", "0"], &tls[..], &files[..]].concat(), directory.path());
        until("the server listens", async || {
            tokio::net::TcpStream::connect(("127.0.0.1", 16544)).await.is_ok()
        })
        .await;

        let url = "rediss://:right@localhost:16544";
        let error = log(&at(url)).bounds().await.unwrap_err().to_string();
        assert!(error.contains("UnknownIssuer"), "{error}");
        let this = std::env::current_exe().unwrap();
        let client = Command::new(this)
            .args(["--exact", "tls_believes_the_certificates_of_the_system_and_no_others", "--nocapture"])
            .envs([(TLS_URL, url), ("SSL_CERT_FILE", &certificate)])
            .output()
            .unwrap();
        assert!(client.status.success(), "{}", String::from_utf8_lossy(&client.stderr));
        assert!(String::from_utf8_lossy(&client.stdout).contains("1 passed"));
    });
}

async fn append_and_follow(config: &Config) {
    let (tree, listener) = follow(log(config), config).await;
    log(config).append(vec![event("a"), event("b")]).await.unwrap();
    listener.until(|listener| listener.events().len() == 2).await;
    assert_eq!(ids(&log(config).read_after(0, ALL).await.unwrap()), ["a", "b"]);
    tree.shutdown().await;
}
