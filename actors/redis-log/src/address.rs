//! A URL as the servers that it names. No I/O.

use std::str::FromStr;

use redis::io::tcp::TcpSettings;
use redis::{ConnectionInfo, IntoConnectionInfo};

const SENTINEL_PORT: u16 = 26379;
const REDIS_PORT: u16 = 6379;

/// Where Redis is.
#[derive(Clone, Debug)]
pub(crate) enum Servers {
    /// One server.
    Single(Box<ConnectionInfo>),
    /// Sentinels that know the master.
    Sentinels {
        /// The sentinels.
        sentinels: Vec<ConnectionInfo>,
        /// What they call the master.
        master: String,
        /// How to log in to the servers; its address counts for nothing.
        servers: Box<ConnectionInfo>,
        /// Whether the servers speak TLS.
        is_tls: bool,
    },
    /// Some servers of a cluster, which name the others.
    Cluster(Vec<ConnectionInfo>),
}

impl Servers {
    /// Whether connections are encrypted.
    pub(crate) fn is_tls(&self) -> bool {
        let is_tls = |server: &ConnectionInfo| matches!(server.addr(), redis::ConnectionAddr::TcpTls { .. });
        match self {
            Self::Single(server) => is_tls(server),
            Self::Sentinels { is_tls, .. } => *is_tls,
            Self::Cluster(servers) => servers.iter().any(is_tls),
        }
    }
}

/// The text is no URL of a Redis. The text itself is not shown, since it may hold a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotAnAddress {
    #[error(
        "must begin with redis://, rediss://, redis-sentinel://, rediss-sentinel://, redis-cluster:// or rediss-cluster://"
    )]
    Scheme,
    #[error("must be like redis://user:password@host:6379/0, special characters of the password as %40")]
    Server,
    #[error("must end with the name of the master: redis-sentinel://host:26379,host:26379/name")]
    Master,
    #[error("a cluster has database 0 only; leave out what follows the servers")]
    Database,
}

impl FromStr for Servers {
    type Err = NotAnAddress;

    fn from_str(text: &str) -> Result<Self, NotAnAddress> {
        let (scheme, rest) = text.split_once("://").ok_or(NotAnAddress::Scheme)?;
        let (kind, is_tls) = match scheme {
            "redis" | "rediss" => return Ok(Self::Single(Box::new(server(text)?))),
            "redis-sentinel" | "redis-cluster" => (&scheme["redis-".len()..], false),
            "rediss-sentinel" | "rediss-cluster" => (&scheme["rediss-".len()..], true),
            _ => return Err(NotAnAddress::Scheme),
        };
        let scheme = if is_tls { "rediss" } else { "redis" };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, hosts) = match authority.rsplit_once('@') {
            Some((login, hosts)) => (format!("{login}@"), hosts),
            None => (String::new(), authority),
        };
        if kind == "cluster" {
            if !path.is_empty() {
                return Err(NotAnAddress::Database);
            }
            let cluster = hosts
                .split(',')
                .map(|host| server(&format!("{scheme}://{login}{}", with_port(host, REDIS_PORT))));
            return Ok(Self::Cluster(cluster.collect::<Result<_, _>>()?));
        }
        let (master, database) = path.split_once('/').unwrap_or((path, "0"));
        if master.is_empty() {
            return Err(NotAnAddress::Master);
        }
        let sentinels =
            hosts.split(',').map(|host| server(&format!("{scheme}://{}", with_port(host, SENTINEL_PORT))));
        Ok(Self::Sentinels {
            sentinels: sentinels.collect::<Result<_, _>>()?,
            master: master.to_owned(),
            servers: Box::new(server(&format!("{scheme}://{login}master/{database}"))?),
            is_tls,
        })
    }
}

fn with_port(host: &str, port: u16) -> String {
    // An IPv6 address stands in brackets, with colons inside.
    let has_port = host.rsplit_once(':').is_some_and(|(_, digits)| digits.parse::<u16>().is_ok());
    if has_port { host.to_owned() } else { format!("{host}:{port}") }
}

fn server(url: &str) -> Result<ConnectionInfo, NotAnAddress> {
    let server = url.into_connection_info().map_err(|_| NotAnAddress::Server)?;
    // A small call must not wait for the answer to the one before.
    Ok(server.set_tcp_settings(TcpSettings::default().set_nodelay(true)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(server: &ConnectionInfo) -> String {
        server.addr().to_string()
    }

    #[test]
    fn one_server_is_named_with_its_login() {
        let Ok(Servers::Single(server)) = "redis://ann:p%40ss@host:7000/3".parse() else { panic!() };
        assert_eq!(address(&server), "host:7000");
        let login = server.redis_settings();
        assert_eq!((login.username(), login.password(), login.db()), (Some("ann"), Some("p@ss"), 3));
        assert!(server.tcp_settings().nodelay());
        assert!("rediss://host".parse::<Servers>().unwrap().is_tls());
    }

    #[test]
    fn sentinels_are_asked_without_the_login_of_the_servers() {
        let url = "redis-sentinel://:secret@one:1,two,[::1]:3/main/2";
        let Ok(Servers::Sentinels { sentinels, master, servers, is_tls }) = url.parse() else { panic!() };
        let named: Vec<_> = sentinels.iter().map(address).collect();
        assert_eq!(named, ["one:1", "two:26379", "::1:3"]);
        assert!(sentinels.iter().all(|sentinel| sentinel.redis_settings().password().is_none()));
        assert_eq!((master.as_str(), is_tls), ("main", false));
        assert_eq!((servers.redis_settings().password(), servers.redis_settings().db()), (Some("secret"), 2));
    }

    #[test]
    fn a_cluster_is_named_by_some_of_its_servers() {
        let Ok(Servers::Cluster(servers)) = "redis-cluster://:secret@one,two:7001".parse() else { panic!() };
        assert_eq!(servers.iter().map(address).collect::<Vec<_>>(), ["one:6379", "two:7001"]);
        assert!(servers.iter().all(|server| server.redis_settings().password() == Some("secret")));
        assert!("rediss-cluster://one".parse::<Servers>().unwrap().is_tls());
    }

    #[test]
    fn other_texts_are_refused_with_their_reason() {
        for (url, expected) in [
            ("", NotAnAddress::Scheme),
            ("localhost:6379", NotAnAddress::Scheme),
            ("http://localhost", NotAnAddress::Scheme),
            ("redis://", NotAnAddress::Server),
            ("redis://host:port", NotAnAddress::Server),
            ("redis://host/database", NotAnAddress::Server),
            ("redis-sentinel://host", NotAnAddress::Master),
            ("redis-sentinel://host/", NotAnAddress::Master),
            ("redis-sentinel://one,,two/main", NotAnAddress::Server),
            ("redis-cluster://host/1", NotAnAddress::Database),
            ("redis-cluster://", NotAnAddress::Server),
        ] {
            assert_eq!(url.parse::<Servers>().err(), Some(expected), "{url}");
        }
    }
}
