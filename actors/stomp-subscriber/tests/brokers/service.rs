//! Starts and stops a real broker by its script.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, Weak};

use freshet_feed::Secret;
use freshet_stomp_subscriber::Config;
use freshet_stomp_subscriber::config::Flavour;
use tempfile::TempDir;

/// A broker of this test binary. It is stopped and forgotten when it is dropped.
pub struct Service {
    pub flavour: Flavour,
    pub port: u16,
    pub tls_port: u16,
    variables: Vec<(&'static str, String)>,
    directory: TempDir,
}

impl Service {
    /// Starts a broker of one's own.
    pub fn start(flavour: Flavour) -> Arc<Self> {
        let [port, second, third] = free_ports();
        let directory = tempfile::tempdir().unwrap();
        let mut variables = vec![
            ("STOMP_PORT", port.to_string()),
            ("FRESHET_SERVICES", directory.path().to_str().unwrap().to_owned()),
        ];
        match flavour {
            Flavour::ActivemqClassic => variables.push(("STOMP_TLS_PORT", second.to_string())),
            Flavour::Rabbitmq => {
                variables.push(("DIST_PORT", second.to_string()));
                variables.push(("EPMD_PORT", third.to_string()));
            }
            Flavour::Artemis => panic!("there is no script for Artemis"),
        }
        let service = Self { flavour, port, tls_port: second, variables, directory };
        service.run("start");
        Arc::new(service)
    }

    /// A broker that tests share while they overlap; the last one stops it.
    pub fn shared(flavour: Flavour) -> Arc<Self> {
        static ACTIVEMQ: Mutex<Weak<Service>> = Mutex::new(Weak::new());
        static RABBITMQ: Mutex<Weak<Service>> = Mutex::new(Weak::new());
        let place = match flavour {
            Flavour::ActivemqClassic => &ACTIVEMQ,
            _ => &RABBITMQ,
        };
        let mut place = place.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        place.upgrade().unwrap_or_else(|| {
            let service = Self::start(flavour);
            *place = Arc::downgrade(&service);
            service
        })
    }

    /// Runs a verb of the script, and fails the test with its words when it fails.
    pub fn run(&self, verb: &str) {
        let script = match self.flavour {
            Flavour::ActivemqClassic => "activemq.sh",
            _ => "rabbitmq.sh",
        };
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/services").join(script);
        let output = Command::new(&path).arg(verb).envs(self.variables.iter().cloned()).output();
        let output = output.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(
            output.status.success(),
            "{script} {verb} failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    /// As [`run`](Self::run), while other futures go on.
    pub async fn run_aside(self: &Arc<Self>, verb: &'static str) {
        let service = Arc::clone(self);
        freshet_kernel::task::blocking("test_service", move || service.run(verb)).await.unwrap();
    }

    /// The certificate authority of the broker.
    pub fn authority(&self) -> PathBuf {
        self.directory.path().join(format!("activemq-{}/tls/authority.pem", self.port))
    }

    /// A configuration whose names belong to one test alone. It tries again soon, for the test's sake, and is patient
    /// with a broker that shares two cores with the start of another.
    pub fn config(&self, test: &str) -> Config {
        Config {
            name: test.to_owned(),
            brokers: vec![format!("127.0.0.1:{}", self.port)],
            flavour: self.flavour,
            login: "admin".into(),
            passcode: Secret::new("admin"),
            client_id: format!("client-{test}"),
            subscription: format!("subscription-{test}"),
            destination: topic(test),
            connect_timeout_millis: 30_000,
            backoff_min_millis: 100,
            backoff_max_millis: 1000,
            ..Config::default()
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.run("wipe");
    }
}

/// The topic of a test.
pub fn topic(test: &str) -> String {
    format!("EVENTS_{test}")
}

fn free_ports<const N: usize>() -> [u16; N] {
    // All are held until all are known.
    let listeners = [(); N].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}
