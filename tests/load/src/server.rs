//! The servers that can be measured, and how each is spoken to. How they are started is in [`crate::process`].

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use anyhow::{Error, Result, anyhow};

use crate::client::Target;
use crate::publisher::{Many, Publication};

/// How clients receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Transport {
    /// Server-sent events.
    Sse,
    /// WebSocket.
    #[value(name = "ws")]
    WebSocket,
}

impl fmt::Display for Transport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Sse => "SSE",
            Self::WebSocket => "WebSocket",
        })
    }
}

/// Whose server it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Product {
    /// The daemon.
    Freshet,
    /// The plain loop of `send()`.
    Floor,
    /// nginx with the module nchan.
    Nchan,
    /// Centrifugo.
    Centrifugo,
    /// A plain Node.js service.
    Node,
}

const PRODUCTS: [(Product, &str); 5] = [
    (Product::Freshet, "freshet"),
    (Product::Floor, "floor"),
    (Product::Nchan, "nchan"),
    (Product::Centrifugo, "centrifugo"),
    (Product::Node, "node"),
];
const TRANSPORTS: [(Transport, &str); 2] = [(Transport::Sse, "sse"), (Transport::WebSocket, "ws")];

/// One server with one transport. Its text form is `PRODUCT-TRANSPORT`, such as `freshet-ws`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Server {
    /// How its clients receive.
    pub transport: Transport,
    /// Whose it is.
    pub product: Product,
}

/// A token for Centrifugo with the subject `load` and the channel `iceberg`, signed with the key of
/// `peers/centrifugo.json`. It opens nothing but the server that the benchmark starts.
const CENTRIFUGO_TOKEN: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJsb2FkIiwiY2hhbm5lbHMiOlsiaWNlYmVyZyJdfQ.\
    DEAuHGutbCzNzSxPjQ-GVrv9tKXxN8O6Ot-Yq3aW7wY";

impl Server {
    /// Every server, with both transports.
    pub fn all() -> impl Iterator<Item = Self> {
        TRANSPORTS
            .iter()
            .flat_map(|(transport, _)| PRODUCTS.map(|(product, _)| Self { transport: *transport, product }))
    }

    /// Where and how its clients connect.
    #[must_use]
    pub fn target(self, address: SocketAddr, connects_per_second: u32) -> Target {
        let plain = Target {
            address,
            transport: self.transport,
            path: match self.transport {
                Transport::Sse => "/events".to_owned(),
                Transport::WebSocket => "/ws".to_owned(),
            },
            subprotocol: String::new(),
            first_messages: Vec::new(),
            ready: String::new(),
            answers_empty_objects: false,
            connects_per_second,
        };
        match (self.product, self.transport) {
            (Product::Freshet | Product::Floor, Transport::WebSocket) => Target {
                subprotocol: "freshet.v1".to_owned(),
                first_messages: vec![r#"{"type":"subscribe","channel":"iceberg"}"#.to_owned()],
                ready: r#""type":"subscribed""#.to_owned(),
                ..plain
            },
            (Product::Freshet | Product::Floor | Product::Node, Transport::Sse) => {
                Target { ready: "event: connected".to_owned(), ..plain }
            }
            // Their head says that the client is subscribed.
            (Product::Nchan, _) | (Product::Node, Transport::WebSocket) => plain,
            (Product::Centrifugo, Transport::Sse) => Target {
                path: format!("/connection/uni_sse?cf_connect=%7B%22token%22%3A%22{CENTRIFUGO_TOKEN}%22%7D"),
                ready: "\"connect\"".to_owned(),
                ..plain
            },
            (Product::Centrifugo, Transport::WebSocket) => Target {
                path: "/connection/websocket".to_owned(),
                first_messages: vec![
                    "{\"id\":1,\"connect\":{}}\n{\"id\":2,\"subscribe\":{\"channel\":\"iceberg\"}}"
                        .to_owned(),
                ],
                ready: "\"id\":2,\"subscribe\"".to_owned(),
                answers_empty_objects: true,
                ..plain
            },
        }
    }

    /// How events reach it.
    #[must_use]
    pub fn publication(self) -> Publication {
        let plain = Publication {
            path: "/publish".to_owned(),
            headers: String::new(),
            before: String::new(),
            behind: String::new(),
            many: Many::BackToBack,
        };
        match self.product {
            Product::Freshet | Product::Floor => {
                Publication { path: "/api/v2/events".to_owned(), many: Many::OneRequest, ..plain }
            }
            Product::Nchan | Product::Node => plain,
            Product::Centrifugo => Publication {
                path: "/api/publish".to_owned(),
                headers: "X-API-Key: benchmark\r\n".to_owned(),
                before: "{\"channel\":\"iceberg\",\"data\":".to_owned(),
                behind: "}".to_owned(),
                ..plain
            },
        }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let product =
            PRODUCTS.iter().find(|(product, _)| *product == self.product).map_or("", |found| found.1);
        let transport =
            TRANSPORTS.iter().find(|(transport, _)| *transport == self.transport).map_or("", |found| found.1);
        write!(formatter, "{product}-{transport}")
    }
}

impl FromStr for Server {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::all().find(|server| server.to_string() == text).ok_or_else(|| {
            let names: Vec<String> = Self::all().map(|server| server.to_string()).collect();
            anyhow!("expected one of {}", names.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_documentation_and_round_trip() {
        let names: Vec<String> = Server::all().map(|server| server.to_string()).collect();
        assert_eq!(
            names,
            [
                "freshet-sse",
                "floor-sse",
                "nchan-sse",
                "centrifugo-sse",
                "node-sse",
                "freshet-ws",
                "floor-ws",
                "nchan-ws",
                "centrifugo-ws",
                "node-ws"
            ]
        );
        for name in names {
            assert_eq!(name.parse::<Server>().unwrap().to_string(), name);
        }
        assert!("nginx-sse".parse::<Server>().unwrap_err().to_string().contains("nchan-sse"));
    }
}
