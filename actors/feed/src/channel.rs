//! Channels: what is declared about each, and which of them there are.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::event::{EventName, iceberg_mutation};
use crate::pointer::Pointer;

/// The longest name of a channel, in bytes.
pub const MAX_NAME_BYTES: usize = 64;
/// The longest name of an event on the wire, in bytes.
pub const MAX_EVENT_NAME_BYTES: usize = 64;
/// The channel of table commits, which is always there.
pub const ICEBERG: &str = "iceberg";

/// The name of a channel: 1 to 64 of the characters `a` to `z`, `A` to `Z`, `0` to `9`, `.`, `_`, `:` and `-`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChannelName(Arc<str>);

impl ChannelName {
    /// Nothing when it is no name.
    #[must_use]
    pub fn new(name: &str) -> Option<Self> {
        is_name(name, MAX_NAME_BYTES).then(|| Self(name.into()))
    }

    /// The channel of table commits.
    #[must_use]
    pub fn iceberg() -> Self {
        static NAME: LazyLock<ChannelName> = LazyLock::new(|| ChannelName(ICEBERG.into()));
        NAME.clone()
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ChannelName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

fn is_name(text: &str, max_bytes: usize) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b':' | b'-');
    (1..=max_bytes).contains(&text.len()) && text.bytes().all(allowed)
}

/// What stands in the messages of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Table commits by the event contract.
    Iceberg,
    /// Any JSON object.
    Json,
}

/// Who may read a channel. Only with authentication; without it, whoever reaches the port reads everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Read {
    /// Everybody, without a token.
    Public,
    /// Everybody with a token.
    Authenticated,
    /// Those whose token grants the channel.
    Granted,
}

/// What is done for a client that reads a channel more slowly than events come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WhenFull {
    /// End the session with code 4001. The client resumes where it stood.
    Close,
    /// Of events with the same key keep the newest, and tell the client how many were left out. When that is still
    /// too much, end the session with code 4001.
    Coalesce,
    /// Keep only the newest events, and tell the client how many were left out.
    Newest,
}

/// A channel: what it carries, who may read it, and what becomes of those who read slowly.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The name that clients subscribe to, of letters, digits and `. _ : -`. The channel `iceberg` is always there;
    /// write it to change it.
    pub name: String,
    /// What stands in its messages: `iceberg` is the event contract of table commits, `json` any JSON object.
    pub format: Format,
    /// The name that its events have on the wire. Empty is `iceberg-mutation` for table commits and `message` for
    /// other objects.
    pub event_name: String,
    /// Where the id of an event stands, as a JSON pointer such as `/id`. Empty gives each event a new id, so that
    /// an event that is sent twice counts twice. Only for the format `json`.
    pub id: String,
    /// Where the time of an event stands, as a JSON pointer to an RFC 3339 text. Empty takes the time of its
    /// arrival. Only for the format `json`.
    pub timestamp: String,
    /// Where the key of an event stands, as a JSON pointer. Of events with the same key the newest tells the state:
    /// slow clients get only that one, and so does who asks for a snapshot. Empty is `/tableIdentifier` for table
    /// commits and no key for other objects.
    pub key: String,
    /// Where the room of an event stands, as a JSON pointer such as `/payload/tenant`. Clients may narrow a
    /// channel to rooms. Empty means that it has none.
    pub room: String,
    /// Whether rooms are tenants: a client whose token names a tenant then sees the room of its tenant and no
    /// other. Clients whose token names none see nothing, unless they are administrators.
    pub rooms_are_tenants: bool,
    /// Who may read it: `public` is everybody, `authenticated` everybody with a token, `granted` those whose token
    /// grants it.
    pub read: Read,
    /// How many seconds an event can be read again, by those who resume, take a snapshot or search. 0 is as long as the
    /// log keeps it. After that time it is gone for all.
    #[schemars(range(min = 0, max = 315_360_000))]
    pub history_max_age_secs: u64,
    /// What is done for a client that reads more slowly than events come: `close` ends its session, and it resumes
    /// where it stood; `coalesce` keeps the newest event of each key; `newest` keeps the newest events.
    pub when_full: WhenFull,
    /// How many events `when_full = "newest"` keeps.
    #[schemars(range(min = 1, max = 100_000))]
    pub keep_newest: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            name: ICEBERG.to_owned(),
            format: Format::Iceberg,
            event_name: String::new(),
            id: String::new(),
            timestamp: String::new(),
            key: String::new(),
            room: String::new(),
            rooms_are_tenants: false,
            read: Read::Granted,
            history_max_age_secs: 0,
            when_full: WhenFull::Close,
            keep_newest: 100,
        }
    }
}

impl Config {
    /// Impossible values: the key's path inside this struct, and what is impossible and what to do.
    #[must_use]
    pub fn problems(&self) -> Vec<(Vec<String>, String)> {
        let mut problems = Vec::new();
        let mut problem = |key: &str, text: &str| problems.push((vec![key.to_owned()], text.to_owned()));
        if ChannelName::new(&self.name).is_none() {
            problem("name", "must be 1 to 64 letters, digits, dots, colons, underscores or hyphens");
        }
        if self.name == ICEBERG && self.format != Format::Iceberg {
            problem("format", "the channel iceberg carries table commits; give this one another name");
        }
        if !self.event_name.is_empty() && !is_name(&self.event_name, MAX_EVENT_NAME_BYTES) {
            problem("event_name", "must be 1 to 64 letters, digits, dots, colons, underscores or hyphens");
        }
        for (key, pointer) in
            [("id", &self.id), ("timestamp", &self.timestamp), ("key", &self.key), ("room", &self.room)]
        {
            if !pointer.is_empty() && Pointer::new(pointer).is_none() {
                problem(key, "must be a JSON pointer such as /payload/tenant, at most 8 levels deep");
            }
        }
        if self.format == Format::Iceberg {
            for (key, pointer) in [("id", &self.id), ("timestamp", &self.timestamp)] {
                if !pointer.is_empty() {
                    problem(key, "the event contract says where it stands; leave it empty");
                }
            }
        }
        if self.rooms_are_tenants && self.room.is_empty() {
            problem("rooms_are_tenants", "no event has a room; say with room where it stands");
        }
        if self.when_full == WhenFull::Coalesce && self.format == Format::Json && self.key.is_empty() {
            problem("when_full", "nothing can be coalesced without a key; say with key where it stands");
        }
        problems
    }
}

/// A channel, ready for use.
#[derive(Clone, Debug)]
pub struct Channel {
    /// Its name.
    pub name: ChannelName,
    /// What stands in its messages.
    pub format: Format,
    /// The name of its events.
    pub event_name: EventName,
    /// Who may read it.
    pub read: Read,
    /// Whether rooms are tenants.
    pub rooms_are_tenants: bool,
    /// How long an event can be read again; nothing is as long as the log keeps it.
    pub history_max_age: Option<Duration>,
    /// What becomes of clients that read slowly.
    pub when_full: WhenFull,
    /// How many events are kept for them with [`WhenFull::Newest`].
    pub keep_newest: usize,
    pub(crate) id: Option<Pointer>,
    pub(crate) timestamp: Option<Pointer>,
    pub(crate) key: Option<Pointer>,
    pub(crate) room: Option<Pointer>,
}

impl Channel {
    /// Nothing when the configuration has [problems](Config::problems).
    #[must_use]
    pub fn new(config: &Config) -> Option<Self> {
        if !config.problems().is_empty() {
            return None;
        }
        let age = config.history_max_age_secs;
        Some(Self {
            name: ChannelName::new(&config.name)?,
            format: config.format,
            event_name: match (config.event_name.as_str(), config.format) {
                ("", Format::Iceberg) => iceberg_mutation(),
                ("", Format::Json) => "message".into(),
                (name, _) => name.into(),
            },
            read: config.read,
            rooms_are_tenants: config.rooms_are_tenants,
            history_max_age: (age > 0).then(|| Duration::from_secs(age)),
            when_full: config.when_full,
            keep_newest: config.keep_newest,
            id: Pointer::new(&config.id),
            timestamp: Pointer::new(&config.timestamp),
            key: Pointer::new(&config.key),
            room: Pointer::new(&config.room),
        })
    }
}

/// Every channel that is declared, and `iceberg`.
#[derive(Clone, Debug)]
pub struct Channels(Arc<BTreeMap<ChannelName, Arc<Channel>>>);

impl Channels {
    /// Takes those without problems; of two with one name the last.
    #[must_use]
    pub fn new(declared: &[Config]) -> Self {
        let iceberg = Config::default();
        let channels = [&iceberg].into_iter().chain(declared).filter_map(Channel::new);
        Self(Arc::new(channels.map(|channel| (channel.name.clone(), Arc::new(channel))).collect()))
    }

    /// The channel with this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<Channel>> {
        self.0.get(&ChannelName::new(name)?)
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Channel>> {
        self.0.values()
    }

    /// The channel of table commits.
    #[must_use]
    pub fn iceberg(&self) -> Arc<Channel> {
        self.get(ICEBERG).map_or_else(default_iceberg, Arc::clone)
    }
}

fn default_iceberg() -> Arc<Channel> {
    Arc::new(Channel {
        name: ChannelName::iceberg(),
        format: Format::Iceberg,
        event_name: iceberg_mutation(),
        read: Read::Granted,
        rooms_are_tenants: false,
        history_max_age: None,
        when_full: WhenFull::Close,
        keep_newest: Config::default().keep_newest,
        id: None,
        timestamp: None,
        key: None,
        room: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_channel_of_commits_is_always_there_and_may_be_changed() {
        let channels = Channels::new(&[]);
        assert_eq!(channels.iter().count(), 1);
        assert_eq!(&*channels.iceberg().event_name, "iceberg-mutation");
        let changed = Channels::new(&[Config { when_full: WhenFull::Coalesce, ..Config::default() }]);
        assert_eq!(changed.iceberg().when_full, WhenFull::Coalesce);
        assert_eq!(Config::default().problems(), []);
    }

    #[test]
    fn impossible_declarations_name_their_key() {
        let json = Config { name: "products".into(), format: Format::Json, ..Config::default() };
        assert_eq!(json.problems(), []);
        let cases = [
            (Config { name: "no spaces".into(), ..json.clone() }, "name"),
            (Config { name: ICEBERG.into(), ..json.clone() }, "format"),
            (Config { event_name: "a\nb".into(), ..json.clone() }, "event_name"),
            (Config { room: "tenant".into(), ..json.clone() }, "room"),
            (Config { id: "/id".into(), ..Config::default() }, "id"),
            (Config { rooms_are_tenants: true, ..json.clone() }, "rooms_are_tenants"),
            (Config { when_full: WhenFull::Coalesce, ..json.clone() }, "when_full"),
        ];
        for (config, key) in cases {
            assert_eq!(config.problems().first().map(|(path, _)| path.join(".")).as_deref(), Some(key));
            assert!(Channel::new(&config).is_none());
        }
    }

    #[test]
    fn names_are_plain() {
        assert!(ChannelName::new(&"x".repeat(64)).is_some());
        for wrong in ["", "a,b", "a b", "a/b", "é", &"x".repeat(65)] {
            assert_eq!(ChannelName::new(wrong), None, "{wrong}");
        }
    }
}
