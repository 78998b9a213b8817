//! What a request may read, by the keys of the channels in the file.

use freshet_feed::{Rooms, Scope};
use rusqlite::{Connection, OptionalExtension};

/// The channels and rooms to which a request is limited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Readable {
    /// Everything, for what the daemon reads for itself.
    All,
    /// These channels, each with its rooms.
    Only(Vec<(i64, Rooms)>),
}

impl Readable {
    /// Looks up the channels of a scope. Those that never had an event are left out.
    pub(crate) fn of(connection: &Connection, scope: Option<&Scope>) -> rusqlite::Result<Self> {
        let Some(scope) = scope else { return Ok(Self::All) };
        let mut channels = Vec::new();
        for (name, rooms) in scope.channels() {
            let is_nothing = matches!(rooms, Rooms::Only(rooms) if rooms.is_empty());
            if let Some(id) = label_id(connection, name.as_str())?
                && !is_nothing
            {
                channels.push((id, rooms.clone()));
            }
        }
        Ok(Self::Only(channels))
    }

    /// Whether nothing can be read.
    pub(crate) fn is_nothing(&self) -> bool {
        *self == Self::Only(Vec::new())
    }

    /// Whether what belongs to this room of this channel can be read.
    pub(crate) fn holds(&self, channel_id: i64, room: Option<&str>) -> bool {
        match self {
            Self::All => true,
            Self::Only(channels) => channels.iter().any(|(id, rooms)| *id == channel_id && rooms.hold(room)),
        }
    }
}

/// The key of the name of a channel or an event, when it was ever written.
pub(crate) fn label_id(connection: &Connection, text: &str) -> rusqlite::Result<Option<i64>> {
    connection
        .prepare_cached("SELECT id FROM labels WHERE text = ?1")?
        .query_row([text], |row| row.get(0))
        .optional()
}

/// What names a scope in cursors.
pub(crate) fn identity(scope: Option<&Scope>) -> Vec<u8> {
    use crate::cursor::canonical;
    let Some(scope) = scope else { return canonical([]) };
    let mut parts = vec![b"scope".to_vec()];
    for (name, rooms) in scope.channels() {
        let rooms = match rooms {
            Rooms::All => canonical([]),
            Rooms::Only(rooms) => {
                let listed = canonical(rooms.iter().map(|room| room.as_bytes()));
                canonical([b"only".as_slice(), listed.as_slice()])
            }
        };
        parts.extend([name.as_str().as_bytes().to_vec(), rooms]);
    }
    canonical(parts.iter().map(Vec::as_slice))
}

#[cfg(test)]
#[path = "scope_tests.rs"]
mod tests;
