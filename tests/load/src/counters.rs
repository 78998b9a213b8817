//! What the daemon counts of its sessions, read from its metrics page.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::response::ResponseDecoder;

const PATH: &str = "/metrics";
/// How long each read and write may take.
const TIMEOUT: Duration = Duration::from_secs(10);
const MAX_PAGE_BYTES: usize = 4 << 20;
const CLOSED: &str = "freshet_sessions_closed_total{code=\"";
const COALESCED: &str = "freshet_session_coalesced_total ";
const DROPPED: &str = "freshet_session_dropped_total ";

/// Counts since the daemon's start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Sessions that the daemon ended, by the name of the close code.
    pub closed: BTreeMap<String, u64>,
    /// Events that were left out for slow clients.
    pub coalesced: u64,
    /// Events that sessions were still owed at their end.
    pub dropped: u64,
}

impl Counters {
    /// Asks a daemon.
    ///
    /// # Errors
    /// When it does not answer, or with something else.
    pub fn of(address: SocketAddr) -> Result<Self> {
        let mut stream = TcpStream::connect(address).context("the metrics cannot be asked for")?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        write!(stream, "GET {PATH} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
        let mut decoder = ResponseDecoder::default();
        let mut page = Vec::new();
        let mut buffer = [0; 16 * 1024];
        while !decoder.is_complete() {
            let read = stream.read(&mut buffer).context("the metrics cannot be read")?;
            if read == 0 {
                break;
            }
            let mut input = &buffer[..read];
            while let Some(piece) = decoder.next_piece(&mut input)? {
                page.extend_from_slice(piece);
            }
            ensure!(page.len() <= MAX_PAGE_BYTES, "the metrics are too long");
        }
        ensure!(decoder.status() == Some(200), "the metrics are answered with {:?}", decoder.status());
        Self::read(std::str::from_utf8(&page)?).context("the metrics do not tell of sessions")
    }

    /// Finds the counts in a page of the Prometheus text format; `None` when one is not there.
    fn read(page: &str) -> Option<Self> {
        let value = |name: &str| page.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        let closed: BTreeMap<String, u64> = page
            .lines()
            .filter_map(|line| {
                let (code, count) = line.strip_prefix(CLOSED)?.split_once("\"} ")?;
                Some((code.to_owned(), count.trim().parse().ok()?))
            })
            .collect();
        (!closed.is_empty()).then_some(Self {
            closed,
            coalesced: value(COALESCED)?,
            dropped: value(DROPPED)?,
        })
    }

    /// What was counted after `before`; codes that were not used meanwhile are left out.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let grown = |(code, count): (&String, &u64)| {
            let count = count.saturating_sub(before.closed.get(code).copied().unwrap_or(0));
            (count > 0).then(|| (code.clone(), count))
        };
        Self {
            closed: self.closed.iter().filter_map(grown).collect(),
            coalesced: self.coalesced.saturating_sub(before.coalesced),
            dropped: self.dropped.saturating_sub(before.dropped),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    const PAGE: &str = "# HELP freshet_session_coalesced_total Events left out for slow clients.\n\
        # TYPE freshet_session_coalesced_total counter\nfreshet_session_coalesced_total 12\n\
        freshet_session_dropped_total 3\nfreshet_sessions_closed_total{code=\"shutting_down\"} 0\n\
        freshet_sessions_closed_total{code=\"outbox_full\"} 2\n";

    #[test]
    fn counts_are_found_by_their_names_and_codes() {
        let counters = Counters::read(PAGE).unwrap();
        assert_eq!((counters.coalesced, counters.dropped), (12, 3));
        assert_eq!(counters.closed, BTreeMap::from([("outbox_full".into(), 2), ("shutting_down".into(), 0)]));
        for absent in ["coalesced_total 12", "dropped_total 3", "sessions_closed_total"] {
            assert_eq!(Counters::read(&PAGE.replace(absent, "other 1")), None, "{absent}");
        }
    }

    #[test]
    fn what_was_counted_meanwhile_is_the_difference() {
        let before = Counters::read(PAGE).unwrap();
        let mut after = before.clone();
        after.coalesced = 20;
        after.closed.insert("outbox_full".to_owned(), 5);
        let meanwhile = after.since(&before);
        assert_eq!((meanwhile.coalesced, meanwhile.dropped), (8, 0));
        assert_eq!(meanwhile.closed, BTreeMap::from([("outbox_full".into(), 3)]));
    }

    #[test]
    fn the_page_is_asked_for_over_http() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (mut server, counters) = std::thread::scope(|scope| {
            let asking = scope.spawn(|| Counters::of(address));
            let (mut server, _) = listener.accept().unwrap();
            write!(server, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{PAGE}", PAGE.len()).unwrap();
            (server, asking.join().unwrap().unwrap())
        });
        let mut request = String::new();
        server.read_to_string(&mut request).unwrap();
        assert!(request.starts_with("GET /metrics HTTP/1.1\r\n"), "{request}");
        assert_eq!(counters, Counters::read(PAGE).unwrap());
    }
}
