//! The frames that we send, in the spelling of each broker.

use async_stomp::{AckMode, Message, ToServer};

use crate::config::{Config, Flavour};

/// The receipt that answers our SUBSCRIBE.
pub const SUBSCRIBE_RECEIPT: &str = "subscribed";
/// The receipt that answers our DISCONNECT.
pub const DISCONNECT_RECEIPT: &str = "disconnected";

/// The frame that opens a session with the broker on this host.
#[must_use]
pub fn connect(config: &Config, broker_host: &str) -> Message<ToServer> {
    let host = match (config.vhost.as_str(), config.flavour) {
        ("", Flavour::Rabbitmq) => "/",
        ("", _) => broker_host,
        (vhost, _) => vhost,
    };
    let credentials = !config.login.is_empty() || !config.passcode.is_empty();
    let content = ToServer::Connect {
        accept_version: "1.2".to_owned(),
        host: host.to_owned(),
        login: credentials.then(|| config.login.clone()),
        passcode: credentials.then(|| config.passcode.expose().to_owned()),
        heartbeat: Some((
            u32::try_from(config.heart_beat_send_millis).unwrap_or(u32::MAX),
            u32::try_from(config.heart_beat_receive_millis).unwrap_or(u32::MAX),
        )),
    };
    let mut extra_headers = Vec::new();
    if config.flavour != Flavour::Rabbitmq && !config.client_id.is_empty() {
        extra_headers.push(header("client-id", &config.client_id));
    }
    Message { content, extra_headers }
}

/// The frame that subscribes, and asks for [`SUBSCRIBE_RECEIPT`].
#[must_use]
pub fn subscribe(config: &Config) -> Message<ToServer> {
    let content = ToServer::Subscribe {
        destination: destination(config),
        id: config.subscription.clone(),
        ack: Some(AckMode::ClientIndividual),
    };
    let mut extra_headers = vec![header("receipt", SUBSCRIBE_RECEIPT)];
    let prefetch = config.prefetch.to_string();
    // A queue keeps its messages by itself, and brokers refuse or misread a durable subscription to one.
    let durable = config.durable && !is_queue(config);
    match config.flavour {
        Flavour::ActivemqClassic => {
            extra_headers.push(header("activemq.prefetchSize", &prefetch));
            if durable {
                extra_headers.push(header("activemq.subscriptionName", &config.subscription));
            }
        }
        Flavour::Artemis => {
            // Artemis counts bytes, not messages.
            extra_headers.push(header("consumer-window-size", &config.max_batch_bytes.to_string()));
            let subscription_type = if is_queue(config) { "ANYCAST" } else { "MULTICAST" };
            extra_headers.push(header("subscription-type", subscription_type));
            if durable {
                extra_headers.push(header("durable-subscription-name", &config.subscription));
            }
        }
        Flavour::Rabbitmq => {
            extra_headers.push(header("prefetch-count", &prefetch));
            if durable {
                extra_headers.push(header("durable", "true"));
                extra_headers.push(header("auto-delete", "false"));
            }
        }
    }
    Message { content, extra_headers }
}

/// The frame that acknowledges one message, by the `ack` header that it came with.
#[must_use]
pub fn acknowledge(ack: String) -> Message<ToServer> {
    ToServer::Ack { id: ack, transaction: None }.into()
}

/// The frame that ends a session, and asks for [`DISCONNECT_RECEIPT`].
#[must_use]
pub fn disconnect() -> Message<ToServer> {
    ToServer::Disconnect { receipt: Some(DISCONNECT_RECEIPT.to_owned()) }.into()
}

fn is_queue(config: &Config) -> bool {
    ["/queue/", "/amq/queue/"].iter().any(|prefix| config.destination.starts_with(prefix))
}

/// A plain name is a topic. Artemis takes addresses as they are; the others want a prefix.
fn destination(config: &Config) -> String {
    match config.flavour {
        Flavour::Artemis => config.destination.clone(),
        _ if config.destination.starts_with('/') => config.destination.clone(),
        _ => format!("/topic/{}", config.destination),
    }
}

fn header(key: &str, value: &str) -> (Vec<u8>, Vec<u8>) {
    (key.as_bytes().to_vec(), value.as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use async_stomp::client::ClientCodec;
    use bytes::BytesMut;
    use freshet_feed::Secret;
    use tokio_util::codec::Encoder as _;

    use super::*;

    /// The frame's command and headers as they stand on the wire, sorted.
    fn lines(frame: Message<ToServer>) -> Vec<String> {
        let mut wire = BytesMut::new();
        ClientCodec::new().encode(frame, &mut wire).unwrap();
        let text = String::from_utf8(wire.to_vec()).unwrap();
        let head = text.strip_suffix("\n\n\0").expect("a frame without a body");
        let mut lines: Vec<String> = head.lines().map(str::to_owned).collect();
        lines[1..].sort_unstable();
        lines
    }

    fn config(flavour: Flavour) -> Config {
        Config {
            flavour,
            login: "portal".into(),
            passcode: Secret::new("p:a\\ss"),
            client_id: "portal-1".into(),
            subscription: "commits".into(),
            prefetch: 10,
            ..Config::default()
        }
    }

    #[test]
    fn activemq_classic_gets_its_own_names() {
        let config = config(Flavour::ActivemqClassic);
        assert_eq!(
            lines(connect(&config, "broker.example")),
            [
                "CONNECT",
                "accept-version:1.2",
                "client-id:portal-1",
                "heart-beat:10000,10000",
                "host:broker.example",
                "login:portal",
                // The standard leaves CONNECT unescaped.
                "passcode:p:a\\ss",
            ]
        );
        assert_eq!(
            lines(subscribe(&config)),
            [
                "SUBSCRIBE",
                "ack:client-individual",
                "activemq.prefetchSize:10",
                "activemq.subscriptionName:commits",
                "destination:/topic/ICEBERG_METADATA_EVENTS",
                "id:commits",
                "receipt:subscribed",
            ]
        );
    }

    #[test]
    fn artemis_gets_its_own_names() {
        let config = config(Flavour::Artemis);
        assert!(lines(connect(&config, "b")).contains(&"client-id:portal-1".to_owned()));
        assert_eq!(
            lines(subscribe(&config)),
            [
                "SUBSCRIBE",
                "ack:client-individual",
                "consumer-window-size:16777216",
                "destination:ICEBERG_METADATA_EVENTS",
                "durable-subscription-name:commits",
                "id:commits",
                "receipt:subscribed",
                "subscription-type:MULTICAST",
            ]
        );
    }

    #[test]
    fn rabbitmq_gets_its_own_names() {
        let config = config(Flavour::Rabbitmq);
        let connect = lines(connect(&config, "broker.example"));
        assert!(connect.contains(&"host:/".to_owned()), "{connect:?}");
        assert!(!connect.iter().any(|line| line.starts_with("client-id")), "{connect:?}");
        assert_eq!(
            lines(subscribe(&config)),
            [
                "SUBSCRIBE",
                "ack:client-individual",
                "auto-delete:false",
                "destination:/topic/ICEBERG_METADATA_EVENTS",
                "durable:true",
                "id:commits",
                "prefetch-count:10",
                "receipt:subscribed",
            ]
        );
    }

    #[test]
    fn a_queue_is_never_a_durable_subscription() {
        for flavour in [Flavour::ActivemqClassic, Flavour::Artemis, Flavour::Rabbitmq] {
            let config = Config { destination: "/queue/commits".into(), ..config(flavour) };
            let lines = lines(subscribe(&config));
            assert!(lines.contains(&"destination:/queue/commits".to_owned()));
            assert!(!lines.iter().any(|line| line.contains("durable") || line.contains("Name")), "{lines:?}");
        }
    }

    #[test]
    fn without_credentials_none_are_sent() {
        let lines = lines(connect(&Config::default(), "b"));
        assert!(!lines.iter().any(|line| line.starts_with("login") || line.starts_with("passcode")));
    }

    #[test]
    fn an_acknowledgement_is_escaped() {
        assert_eq!(lines(acknowledge("ID:vm-1:2".into())), ["ACK", "id:ID\\cvm-1\\c2"]);
    }

    #[test]
    fn the_end_asks_for_a_receipt() {
        assert_eq!(lines(disconnect()), ["DISCONNECT", "receipt:disconnected"]);
    }
}
