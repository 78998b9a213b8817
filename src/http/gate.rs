//! Which hosts a request may be addressed to, and which pages of a browser may send it. Pure.
//!
//! A page that rebinds a name of its own to the daemon's address sends that name as `Host`; a page of another site sends
//! its own `Origin` (RFC 6454; the Fetch standard). Both are refused before anything is read.

use crate::config::ServerConfig;

/// What may come in.
#[derive(Clone, Debug)]
pub struct Gate {
    hosts: Vec<String>,
    origins: Vec<String>,
    is_loopback: bool,
}

/// Where a request comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It does not say: no browser, or a page of the daemon's own that only reads.
    Unsaid,
    /// A page of the daemon's own.
    Own,
    /// A page that is allowed.
    Allowed,
    /// Another page.
    Foreign,
}

impl Gate {
    /// The one that is configured.
    pub fn new(server: &ServerConfig) -> Self {
        Self {
            hosts: server.allowed_hosts.iter().map(|host| host.to_ascii_lowercase()).collect(),
            origins: server.allowed_origins.clone(),
            is_loopback: server.listen.ip().is_loopback(),
        }
    }

    /// Whether a request may be addressed to this `Host`. HTTP/1.0 has none, and no browser speaks it.
    pub fn knows_host(&self, host: Option<&str>) -> bool {
        let Some(host) = host else { return true };
        let name = without_port(host).to_ascii_lowercase();
        if !self.hosts.is_empty() {
            return self.hosts.contains(&name);
        }
        !self.is_loopback || is_local(&name)
    }

    /// Where a request with these headers comes from. TLS may end at a proxy, so the scheme of its own origin is not
    /// compared.
    pub fn origin_of(&self, origin: Option<&str>, host: Option<&str>) -> Origin {
        let Some(origin) = origin else { return Origin::Unsaid };
        let authority = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
        match (authority, host) {
            (Some(authority), Some(host)) if authority.eq_ignore_ascii_case(host) => Origin::Own,
            _ if self.origins.iter().any(|allowed| allowed == origin) => Origin::Allowed,
            _ => Origin::Foreign,
        }
    }
}

/// The host of `name:port`, `address:port` or `[address]:port`.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => host,
    }
}

fn is_local(name: &str) -> bool {
    let address = name.trim_start_matches('[').trim_end_matches(']');
    name == "localhost" || address.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(listen: &str, hosts: &[&str], origins: &[&str]) -> Gate {
        let list = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let config = ServerConfig {
            listen: listen.parse().unwrap(),
            allowed_hosts: list(hosts),
            allowed_origins: list(origins),
            ..ServerConfig::default()
        };
        Gate::new(&config)
    }

    #[test]
    fn on_loopback_only_local_names_are_known() {
        let gate = gate("127.0.0.1:8080", &[], &[]);
        let known = ["localhost:8080", "LOCALHOST", "127.0.0.1:8080", "127.0.0.2", "[::1]:8080", "[::1]"];
        for host in known {
            assert!(gate.knows_host(Some(host)), "{host}");
        }
        assert!(gate.knows_host(None));
        let foreign = [
            "rebound.example.com:8080",
            "127.0.0.1.example.com",
            "localhost.example.com",
            "10.0.0.1",
            "",
            "127.0.0.1@example.com",
            "example.com:",
            "[::2]",
        ];
        for host in foreign {
            assert!(!gate.knows_host(Some(host)), "{host}");
        }
    }

    #[test]
    fn elsewhere_every_name_is_known_unless_they_are_listed() {
        assert!(gate("0.0.0.0:8080", &[], &[]).knows_host(Some("feed.example.com")));
        let listed = gate("0.0.0.0:8080", &["Feed.example.com"], &[]);
        assert!(listed.knows_host(Some("feed.EXAMPLE.com:443")));
        assert!(!listed.knows_host(Some("other.example.com")));
        assert!(!listed.knows_host(Some("localhost")));
    }

    #[test]
    fn a_page_is_own_allowed_or_foreign() {
        let gate = gate("127.0.0.1:8080", &[], &["https://dashboard.example.com"]);
        let host = Some("localhost:8080");
        for (origin, expected) in [
            (None, Origin::Unsaid),
            (Some("http://localhost:8080"), Origin::Own),
            (Some("https://localhost:8080"), Origin::Own),
            (Some("http://localhost:8081"), Origin::Foreign),
            (Some("https://dashboard.example.com"), Origin::Allowed),
            (Some("http://dashboard.example.com"), Origin::Foreign),
            (Some("https://dashboard.example.com.evil.example"), Origin::Foreign),
            (Some("https://dashboard.example.com:8443"), Origin::Foreign),
            (Some("null"), Origin::Foreign),
            (Some(""), Origin::Foreign),
            (Some("localhost:8080"), Origin::Foreign),
        ] {
            assert_eq!(gate.origin_of(origin, host), expected, "{origin:?}");
        }
        assert_eq!(gate.origin_of(Some("http://localhost:8080"), None), Origin::Foreign);
    }
}
