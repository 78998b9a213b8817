//! Who is connected, for administrators. Pure.

use std::collections::BTreeMap;

use freshet_feed::{Principal, Rooms, Scope};
use jiff::Timestamp;
use serde::Serialize;
use uuid::Uuid;

use crate::interest::Transport;

/// Which sessions are meant. What is not said fits every session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The session's `clientId`.
    pub client_id: Option<Uuid>,
    /// Its subject.
    pub subject: Option<String>,
    /// Its tenant.
    pub tenant: Option<String>,
    /// A channel that it follows.
    pub channel: Option<String>,
    /// A room that it follows by name.
    pub room: Option<String>,
}

/// One session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionView {
    /// What the client was told at its beginning.
    pub client_id: Uuid,
    /// `sse` or `websocket`.
    pub transport: &'static str,
    /// Whose it is; absent for someone unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// When it began.
    pub connected_at: Timestamp,
    /// When it ends with its token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// Bytes that wait for the client.
    pub queued_bytes: usize,
    /// What it follows.
    pub follows: Vec<Followed>,
}

/// A channel that a session follows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Followed {
    /// The channel.
    pub channel: String,
    /// The rooms; absent for all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rooms: Option<Vec<String>>,
}

/// The sessions that were asked for, counted, and the first of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Presence {
    /// How many they are.
    pub sessions: u64,
    /// How many by transport.
    pub transports: BTreeMap<&'static str, u64>,
    /// How many follow each channel.
    pub channels: BTreeMap<String, u64>,
    /// How many follow each room by name, by channel and room.
    pub rooms: BTreeMap<(String, String), u64>,
    /// How many each tenant and subject has.
    pub subjects: BTreeMap<(Option<String>, Option<String>), u64>,
    /// At most as many as were asked for.
    pub list: Vec<SessionView>,
}

impl Wanted {
    /// Whether a session is meant. A room counts in the named channel, or in any.
    pub(crate) fn fits(&self, session: &SessionView) -> bool {
        let same = |wanted: &Option<String>, found: &Option<String>| wanted.is_none() || wanted == found;
        let follows = |followed: &Followed| {
            let in_room = |room: &String| followed.rooms.as_ref().is_some_and(|rooms| rooms.contains(room));
            self.channel.as_ref().is_none_or(|channel| *channel == followed.channel)
                && self.room.as_ref().is_none_or(in_room)
        };
        let wants_some = self.channel.is_some() || self.room.is_some();
        self.client_id.is_none_or(|client_id| client_id == session.client_id)
            && same(&self.subject, &session.subject)
            && same(&self.tenant, &session.tenant)
            && (!wants_some || session.follows.iter().any(follows))
    }
}

impl Presence {
    pub(crate) fn count(&mut self, session: SessionView, limit: usize) {
        self.sessions += 1;
        *self.transports.entry(session.transport).or_default() += 1;
        for Followed { channel, rooms } in &session.follows {
            *self.channels.entry(channel.clone()).or_default() += 1;
            for room in rooms.iter().flatten() {
                *self.rooms.entry((channel.clone(), room.clone())).or_default() += 1;
            }
        }
        *self.subjects.entry((session.tenant.clone(), session.subject.clone())).or_default() += 1;
        if self.list.len() < limit {
            self.list.push(session);
        }
    }

    /// What another thread has counted.
    pub(crate) fn add(&mut self, other: Self, limit: usize) {
        fn add<K: Ord>(sums: &mut BTreeMap<K, u64>, counts: BTreeMap<K, u64>) {
            for (key, count) in counts {
                *sums.entry(key).or_default() += count;
            }
        }
        self.sessions += other.sessions;
        add(&mut self.transports, other.transports);
        add(&mut self.channels, other.channels);
        add(&mut self.rooms, other.rooms);
        add(&mut self.subjects, other.subjects);
        let room = limit.saturating_sub(self.list.len());
        self.list.extend(other.list.into_iter().take(room));
    }
}

/// A session as its parts know it, following nothing yet.
pub(crate) fn view(
    client_id: Uuid,
    transport: Transport,
    principal: &Principal,
    connected_at: Timestamp,
    queued_bytes: usize,
) -> SessionView {
    SessionView {
        client_id,
        transport: match transport {
            Transport::Sse => "sse",
            Transport::Websocket => "websocket",
        },
        subject: principal.subject.as_deref().map(str::to_owned),
        tenant: principal.tenant.as_deref().map(str::to_owned),
        connected_at,
        expires_at: principal.expires_at,
        queued_bytes,
        follows: Vec::new(),
    }
}

/// What a subscription with this scope follows.
pub(crate) fn followed(scope: &Scope) -> impl Iterator<Item = Followed> {
    scope.channels().iter().map(|(channel, rooms)| Followed {
        channel: channel.to_string(),
        rooms: match rooms {
            Rooms::All => None,
            Rooms::Only(rooms) => Some(rooms.iter().map(|room| room.to_string()).collect()),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(number: u128, subject: &str, follows: &[(&str, Option<&str>)]) -> SessionView {
        let principal =
            Principal { subject: Some(subject.into()), tenant: Some("acme".into()), ..Principal::default() };
        let mut session = view(Uuid::from_u128(number), Transport::Sse, &principal, Timestamp::UNIX_EPOCH, 7);
        session.follows = follows
            .iter()
            .map(|(channel, room)| Followed {
                channel: (*channel).to_owned(),
                rooms: room.map(|room| vec![room.to_owned()]),
            })
            .collect();
        session
    }

    #[test]
    fn a_session_is_meant_when_all_that_is_said_fits_it() {
        let ada = session(1, "ada", &[("iceberg", None), ("stock", Some("north"))]);
        let text = |text: &str| Some(text.to_owned());
        let cases = [
            (Wanted::default(), true),
            (Wanted { client_id: Some(Uuid::from_u128(1)), ..Wanted::default() }, true),
            (Wanted { client_id: Some(Uuid::from_u128(2)), ..Wanted::default() }, false),
            (Wanted { subject: text("ada"), tenant: text("acme"), ..Wanted::default() }, true),
            (Wanted { subject: text("ada"), tenant: text("other"), ..Wanted::default() }, false),
            (Wanted { subject: text("ad"), ..Wanted::default() }, false),
            (Wanted { channel: text("stock"), ..Wanted::default() }, true),
            (Wanted { room: text("north"), ..Wanted::default() }, true),
            (Wanted { channel: text("stock"), room: text("north"), ..Wanted::default() }, true),
            (Wanted { channel: text("iceberg"), room: text("north"), ..Wanted::default() }, false),
            (Wanted { channel: text("orders"), ..Wanted::default() }, false),
        ];
        for (wanted, fits) in cases {
            assert_eq!(wanted.fits(&ada), fits, "{wanted:?}");
        }
    }

    #[test]
    fn counts_of_threads_add_up_and_the_list_is_bounded() {
        let mut all = Presence::default();
        all.count(session(1, "ada", &[("iceberg", None)]), 2);
        let mut other = Presence::default();
        other.count(session(2, "ada", &[("iceberg", None), ("stock", Some("north"))]), 2);
        other.count(session(3, "bob", &[]), 2);
        all.add(other, 2);
        assert_eq!(all.sessions, 3);
        assert_eq!(all.transports, BTreeMap::from([("sse", 3)]));
        assert_eq!(all.channels, BTreeMap::from([("iceberg".to_owned(), 2), ("stock".to_owned(), 1)]));
        assert_eq!(all.rooms, BTreeMap::from([(("stock".to_owned(), "north".to_owned()), 1)]));
        let of = |subject: &str| (Some("acme".to_owned()), Some(subject.to_owned()));
        assert_eq!(all.subjects, BTreeMap::from([(of("ada"), 2), (of("bob"), 1)]));
        let listed: Vec<u128> = all.list.iter().map(|session| session.client_id.as_u128()).collect();
        assert_eq!(listed, [1, 2]);
    }
}
