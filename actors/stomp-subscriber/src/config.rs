//! What a user may set for one subscription.

use std::time::Duration;

use freshet_feed::Secret;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The largest interval that the configuration takes, in milliseconds: one day.
const MAX_MILLIS: u64 = 86_400_000;

/// One subscription to a topic or a queue of a STOMP broker.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// A short name for this subscription. It stands in logs, in the actor tree and as the source of its dead
    /// letters, so it must differ from the names of the other subscriptions.
    pub name: String,
    /// Brokers as `host:port`, tried in this order until one accepts. Several are the members of one cluster, or
    /// a primary and its standby: they must hold the same messages.
    pub brokers: Vec<String>,
    /// Which broker it is. Durable subscriptions and the prefetch are spelled differently by each.
    pub flavour: Flavour,
    /// The user name, or nothing where the broker asks for none.
    pub login: String,
    /// The password. Take it from the environment or a file rather than writing it here.
    pub passcode: Secret,
    /// The virtual host. Empty is right for ActiveMQ and for RabbitMQ's `/`.
    pub vhost: String,
    /// Encryption of the connection.
    pub tls: Tls,
    /// The name of this instance for the broker. ActiveMQ and Artemis accept one connection for each, and keep
    /// what a durable subscription missed under it: it must stay the same across restarts, and differ between
    /// instances.
    pub client_id: String,
    /// The name of the subscription for the broker. RabbitMQ names the durable queue after it, so instances that
    /// share it share the events instead of each seeing all.
    pub subscription: String,
    /// Whether the broker keeps what arrives while this subscription is away. Switch it off only where a gap
    /// after each reconnection is acceptable. Queues keep everything anyway.
    pub durable: bool,
    /// What to subscribe to. A plain name is a topic; a name with a slash in front is taken as the broker spells
    /// it, for instance `/queue/commits`.
    pub destination: String,
    /// The channel that its messages go to, one of `[[channel]]`.
    pub channel: String,
    /// How often Freshet promises to send something, in milliseconds; 0 promises nothing. It sends twice as often.
    #[schemars(range(min = 0, max = 86_400_000))]
    pub heart_beat_send_millis: u64,
    /// How often the broker should send something, in milliseconds; 0 asks for nothing, and then only the
    /// operating system notices a connection that is dead at its other end. After two and a half times the agreed
    /// interval without a byte the connection is opened anew.
    #[schemars(range(min = 0, max = 86_400_000))]
    pub heart_beat_receive_millis: u64,
    /// How many messages may be on their way without an acknowledgement. It is also the largest batch that is
    /// stored at once.
    #[schemars(range(min = 1, max = 10_000))]
    pub prefetch: u32,
    /// How many bytes of bodies may wait to be stored, together. The message that passes it is still taken.
    /// Artemis, which counts its prefetch in bytes, is told this number.
    #[schemars(range(min = 65_536, max = 1_073_741_824))]
    pub max_batch_bytes: usize,
    /// The largest frame that is taken whole, in bytes, headers included. Keep it above the limit of an event, so
    /// that an event over its limit arrives whole in the dead letters. Of a frame over this limit only the
    /// headers and the first bytes are kept, as a dead letter.
    #[schemars(range(min = 65_536, max = 1_073_741_824))]
    pub max_frame_bytes: usize,
    /// How long a connection may take until it is open, and each answer of the broker during the handshake, in
    /// milliseconds.
    #[schemars(range(min = 1, max = 86_400_000))]
    pub connect_timeout_millis: u64,
    /// How long to wait before the second attempt, in milliseconds. The wait doubles with each failure, and each
    /// is lengthened at random so that instances do not return in step.
    #[schemars(range(min = 1, max = 86_400_000))]
    pub backoff_min_millis: u64,
    /// The longest wait between attempts, in milliseconds.
    #[schemars(range(min = 1, max = 86_400_000))]
    pub backoff_max_millis: u64,
}

/// A kind of broker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Flavour {
    /// Apache ActiveMQ Classic, 5 or 6.
    #[default]
    ActivemqClassic,
    /// Apache ActiveMQ Artemis.
    Artemis,
    /// RabbitMQ with its STOMP plugin.
    Rabbitmq,
}

/// Encryption of a connection.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Tls {
    /// Whether the brokers speak TLS on the ports given.
    pub enabled: bool,
    /// A PEM file of the authorities to trust. Empty trusts those of the operating system.
    pub ca_file: String,
    /// The name that the broker's certificate must carry. Empty expects the host as it stands in `brokers`.
    pub server_name: String,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            name: "events".to_owned(),
            brokers: vec!["127.0.0.1:61613".to_owned()],
            flavour: Flavour::default(),
            login: String::new(),
            passcode: Secret::default(),
            vhost: String::new(),
            tls: Tls::default(),
            client_id: "freshet".to_owned(),
            subscription: "freshet-events".to_owned(),
            durable: true,
            destination: "ICEBERG_METADATA_EVENTS".to_owned(),
            channel: freshet_feed::channel::ICEBERG.to_owned(),
            heart_beat_send_millis: 10_000,
            heart_beat_receive_millis: 10_000,
            prefetch: 256,
            max_batch_bytes: 16 * 1024 * 1024,
            // The default limit of an event is 1 MiB. A body up to twelve times that is buried whole.
            max_frame_bytes: 12 * 1024 * 1024,
            connect_timeout_millis: 10_000,
            backoff_min_millis: 500,
            backoff_max_millis: 30_000,
        }
    }
}

impl Config {
    /// Impossible values and combinations: the path of the key inside this struct, and what to do about it.
    #[must_use]
    pub fn problems(&self) -> Vec<(Vec<String>, String)> {
        let mut problems = Vec::new();
        let mut report = |path: &[&str], text: String| {
            problems.push((path.iter().map(|&key| key.to_owned()).collect(), text));
        };
        if self.name.is_empty() {
            report(&["name"], "must not be empty: it names the subscription in logs and dead letters".into());
        }
        if self.brokers.is_empty() {
            report(&["brokers"], "must name at least one broker as host:port".into());
        }
        for broker in &self.brokers {
            if split_broker(broker).is_none() {
                report(&["brokers"], format!("'{broker}' is not host:port"));
            }
        }
        let texts = [
            ("login", self.login.as_str()),
            ("passcode", self.passcode.expose()),
            ("vhost", &self.vhost),
            ("client_id", &self.client_id),
            ("subscription", &self.subscription),
            ("destination", &self.destination),
        ];
        for (key, text) in texts {
            // The headers of a CONNECT frame have no way to escape these.
            if text.chars().any(char::is_control) {
                report(&[key], "must not contain control characters".into());
            }
        }
        if self.destination.is_empty() {
            report(&["destination"], "must name a topic or a queue".into());
        }
        if self.subscription.is_empty() {
            report(&["subscription"], "must not be empty: the broker names the subscription by it".into());
        }
        if self.durable && self.client_id.is_empty() && self.flavour != Flavour::Rabbitmq {
            report(
                &["client_id"],
                "must not be empty for a durable subscription: the broker keeps it under this name".into(),
            );
        }
        if !(1..=10_000).contains(&self.prefetch) {
            report(&["prefetch"], "must be from 1 to 10000".into());
        }
        for (key, bytes) in
            [("max_batch_bytes", self.max_batch_bytes), ("max_frame_bytes", self.max_frame_bytes)]
        {
            if !(65_536..=1_073_741_824).contains(&bytes) {
                report(&[key], "must be from 65536 (64 KiB) to 1073741824 (1 GiB)".into());
            }
        }
        let intervals = [
            ("heart_beat_send_millis", self.heart_beat_send_millis, 0),
            ("heart_beat_receive_millis", self.heart_beat_receive_millis, 0),
            ("connect_timeout_millis", self.connect_timeout_millis, 1),
            ("backoff_min_millis", self.backoff_min_millis, 1),
            ("backoff_max_millis", self.backoff_max_millis, 1),
        ];
        for (key, millis, min) in intervals {
            if !(min..=MAX_MILLIS).contains(&millis) {
                report(&[key], format!("must be from {min} to {MAX_MILLIS} (one day)"));
            }
        }
        if self.backoff_min_millis > self.backoff_max_millis {
            report(&["backoff_min_millis"], "must not be greater than backoff_max_millis".into());
        }
        let tls_is_described = !self.tls.ca_file.is_empty() || !self.tls.server_name.is_empty();
        if tls_is_described && !self.tls.enabled {
            report(&["tls", "enabled"], "is false, but ca_file or server_name is set: set it to true".into());
        }
        problems
    }

    /// How long opening a connection, or an answer of the broker, may take.
    #[must_use]
    pub fn connect_timeout(&self) -> Duration {
        Duration::from_millis(self.connect_timeout_millis)
    }
}

/// The host and the port of `host:port`; the host of an IPv6 address stands in brackets.
#[must_use]
pub fn split_broker(broker: &str) -> Option<(&str, u16)> {
    let (host, port) = broker.rsplit_once(':')?;
    let port = port.parse().ok().filter(|&port| port != 0)?;
    let host = match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']')?,
        None if host.contains(':') => return None,
        None => host,
    };
    let plain = !host.is_empty() && !host.chars().any(|c| c.is_whitespace() || c.is_control() || c == '/');
    plain.then_some((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(config: &Config) -> Vec<String> {
        config.problems().into_iter().map(|(path, _)| path.join(".")).collect()
    }

    #[test]
    fn the_default_is_possible() {
        assert_eq!(keys(&Config::default()), Vec::<String>::new());
    }

    #[test]
    fn each_impossible_value_is_named_by_its_key() {
        type Change = fn(&mut Config);
        let cases: [(&str, Change); 16] = [
            ("name", |config| config.name.clear()),
            ("brokers", |config| config.brokers.clear()),
            ("brokers", |config| config.brokers.push("stomp://broker:61613".into())),
            ("brokers", |config| config.brokers.push("broker".into())),
            ("destination", |config| config.destination.clear()),
            ("subscription", |config| config.subscription.clear()),
            ("client_id", |config| config.client_id.clear()),
            ("client_id", |config| config.client_id = "a\npasscode:b".into()),
            ("passcode", |config| config.passcode = Secret::new("a\0b")),
            ("prefetch", |config| config.prefetch = 0),
            ("max_frame_bytes", |config| config.max_frame_bytes = 1),
            ("max_batch_bytes", |config| config.max_batch_bytes = usize::MAX),
            ("connect_timeout_millis", |config| config.connect_timeout_millis = 0),
            ("heart_beat_send_millis", |config| config.heart_beat_send_millis = u64::MAX),
            ("backoff_min_millis", |config| config.backoff_min_millis = 40_000),
            ("tls.enabled", |config| config.tls.ca_file = "ca.pem".into()),
        ];
        for (key, change) in cases {
            let mut config = Config::default();
            change(&mut config);
            assert_eq!(keys(&config), [key]);
        }
    }

    #[test]
    fn rabbitmq_needs_no_client_id() {
        let config = Config { flavour: Flavour::Rabbitmq, client_id: String::new(), ..Config::default() };
        assert_eq!(keys(&config), Vec::<String>::new());
    }

    #[test]
    fn brokers_are_host_and_port() {
        assert_eq!(split_broker("broker.example:61613"), Some(("broker.example", 61613)));
        assert_eq!(split_broker("[::1]:61613"), Some(("::1", 61613)));
        for text in ["", ":1", "host:", "host:0", "host:65536", "::1:61613", "[::1:1", "a b:1"] {
            assert_eq!(split_broker(text), None, "{text}");
        }
    }
}
