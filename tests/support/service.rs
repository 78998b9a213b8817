//! Real services, started by the scripts of `tests/services/`.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Output};

/// A service that one story owns. Dropping it stops it.
pub struct Service {
    script: PathBuf,
    environment: Vec<(String, String)>,
    _state: tempfile::TempDir,
    /// The port that clients connect to.
    pub port: u16,
}

/// A port that is free now. Another process may take it before it is used; then the service says so.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    listener.local_addr().expect("its address").port()
}

impl Service {
    /// ActiveMQ Classic with STOMP on its port.
    pub fn activemq() -> Self {
        Self::start("activemq.sh", "STOMP_PORT", &[])
    }

    /// RabbitMQ with its STOMP plugin.
    pub fn rabbitmq() -> Self {
        let ports = [free_port(), free_port()].map(|port| port.to_string());
        let more = [("DIST_PORT", ports[0].as_str()), ("EPMD_PORT", &ports[1])];
        Self::start("rabbitmq.sh", "STOMP_PORT", &more)
    }

    /// nginx in front of an address, with its default buffering and with compression.
    pub fn nginx(upstream: &str) -> Self {
        Self::start("nginx.sh", "PROXY_PORT", &[("UPSTREAM", upstream)])
    }

    /// nginx with the configuration that is shipped, in front of instances.
    pub fn nginx_balancer(upstreams: &[&str]) -> Self {
        Self::start("nginx.sh", "PROXY_PORT", &[("UPSTREAMS", &upstreams.join(" "))])
    }

    /// HAProxy with the configuration that is shipped, in front of instances, which it calls one, two, three.
    pub fn haproxy(upstreams: &[&str]) -> Self {
        Self::start("haproxy.sh", "PROXY_PORT", &[("UPSTREAMS", &upstreams.join(" "))])
    }

    /// Redis: `single`, or `sentinel` and `cluster`, which take the ports after its own too.
    pub fn redis(mode: &str) -> Self {
        Self::start("redis.sh", "REDIS_PORT", &[("REDIS_MODE", mode)])
    }

    fn start(script: &str, port_variable: &str, more: &[(&str, &str)]) -> Self {
        let state = tempfile::tempdir().expect("a temporary directory");
        let port = free_port();
        let mut environment = vec![
            ("FRESHET_SERVICES".to_owned(), state.path().display().to_string()),
            (port_variable.to_owned(), port.to_string()),
        ];
        environment.extend(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/services").join(script);
        let service = Self { script, environment, _state: state, port };
        service.control("start");
        service
    }

    /// Starts it again, on the same port and with the same state.
    pub fn start_again(&self) {
        self.control("start");
    }

    /// Stops it and keeps its state.
    pub fn stop(&self) {
        self.control("stop");
    }

    /// Any other verb of its script, such as `crash`, which is `kill -9`.
    pub fn control(&self, verb: &str) {
        let output = self.run(verb);
        assert!(
            output.status.success(),
            "{} {verb}: {}{}",
            self.script.display(),
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }

    fn run(&self, verb: &str) -> Output {
        Command::new(&self.script)
            .arg(verb)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .output()
            .expect("the script runs")
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.run("stop");
    }
}
