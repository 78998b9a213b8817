//! Who may read what: the one decision that live streams, replays, snapshots and searches share.

use crate::channel::{Channel, ChannelName, Channels, Read};
use crate::{Event, Principal};

/// The most channels that one request may name.
pub const MAX_CHANNELS: usize = 32;
/// The most rooms that one request may name.
pub const MAX_ROOMS: usize = 64;
/// The longest name of a room, in bytes.
pub const MAX_ROOM_BYTES: usize = 256;

/// The rooms of a channel that may be read and are wanted.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rooms {
    /// All of it, events without a room included.
    All,
    /// These rooms only; sorted, without repeats.
    Only(Vec<Box<str>>),
}

impl Rooms {
    /// Whether an event of this room belongs to it.
    #[must_use]
    pub fn hold(&self, room: Option<&str>) -> bool {
        match self {
            Self::All => true,
            Self::Only(rooms) => {
                room.is_some_and(|room| rooms.binary_search_by(|known| (**known).cmp(room)).is_ok())
            }
        }
    }
}

/// What one request may read: channels, each with its rooms. At least one channel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Scope(Vec<(ChannelName, Rooms)>);

impl Scope {
    /// All of one channel, without asking who may read it: for what the daemon reads for itself.
    #[must_use]
    pub fn all_of(channel: ChannelName) -> Self {
        Self(vec![(channel, Rooms::All)])
    }

    /// Whether the event belongs to it.
    #[must_use]
    pub fn holds(&self, event: &Event) -> bool {
        self.holds_room(&event.channel, event.room.as_deref())
    }

    /// Whether an event of this channel and room belongs to it.
    #[must_use]
    pub fn holds_room(&self, channel: &ChannelName, room: Option<&str>) -> bool {
        self.rooms_of(channel).is_some_and(|rooms| rooms.hold(room))
    }

    /// The rooms of this channel that belong to it.
    #[must_use]
    pub fn rooms_of(&self, channel: &ChannelName) -> Option<&Rooms> {
        self.0.iter().find(|(name, _)| name == channel).map(|(_, rooms)| rooms)
    }

    /// Its channels, sorted by name, with their rooms.
    #[must_use]
    pub fn channels(&self) -> &[(ChannelName, Rooms)] {
        &self.0
    }
}

/// A request is refused. What exists and is not the asker's is refused like what does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// `unknown_channel`.
    #[error("there is no such channel")]
    UnknownChannel,
    /// `unknown_room`.
    #[error("there is no such room")]
    UnknownRoom,
    /// `too_many_channels`.
    #[error("more than {MAX_CHANNELS} channels, or more than {MAX_ROOMS} rooms")]
    TooMany,
}

impl Denied {
    /// The stable machine code of the error.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::UnknownChannel => "unknown_channel",
            Self::UnknownRoom => "unknown_room",
            Self::TooMany => "too_many_channels",
        }
    }
}

impl Channels {
    /// What a principal may read of the channels and rooms that it names. No channel named is `iceberg`; no room
    /// named is every room that it may read. Room names are exact: no pattern reaches another's room.
    ///
    /// # Errors
    /// When one of them does not exist, or is not the principal's.
    pub fn scope<'a>(
        &self,
        principal: &Principal,
        channels: impl IntoIterator<Item = &'a str>,
        rooms: impl IntoIterator<Item = &'a str>,
    ) -> Result<Scope, Denied> {
        let mut wanted: Vec<Box<str>> = Vec::new();
        for room in rooms {
            if room.is_empty() || room.len() > MAX_ROOM_BYTES {
                return Err(Denied::UnknownRoom);
            }
            if wanted.len() == MAX_ROOMS {
                return Err(Denied::TooMany);
            }
            wanted.push(room.into());
        }
        wanted.sort_unstable();
        wanted.dedup();
        let mut scope: Vec<(ChannelName, Rooms)> = Vec::new();
        let mut names: Vec<&str> = channels.into_iter().take(MAX_CHANNELS + 1).collect();
        if names.len() > MAX_CHANNELS {
            return Err(Denied::TooMany);
        }
        if names.is_empty() {
            names.push(crate::channel::ICEBERG);
        }
        names.sort_unstable();
        names.dedup();
        for name in names {
            let channel = self.get(name).filter(|channel| may_read(principal, channel));
            let channel = channel.ok_or(Denied::UnknownChannel)?;
            scope.push((channel.name.clone(), rooms_of(principal, channel, &wanted)?));
        }
        Ok(Scope(scope))
    }
}

/// Whether a principal may send an event of this room to the channel: where rooms are tenants, only into its own.
///
/// # Errors
/// When it may not. What is another's answers like what does not exist.
pub fn may_publish(principal: &Principal, channel: &Channel, room: Option<&str>) -> Result<(), Denied> {
    if !principal.may_publish(&channel.name) {
        return Err(Denied::UnknownChannel);
    }
    let is_own = room.is_some() && room == principal.tenant.as_deref();
    if channel.rooms_are_tenants && !principal.is_administrator && !is_own {
        return Err(Denied::UnknownRoom);
    }
    Ok(())
}

fn may_read(principal: &Principal, channel: &Channel) -> bool {
    principal.is_administrator
        || match channel.read {
            Read::Public => true,
            Read::Authenticated => principal.subject.is_some(),
            Read::Granted => principal.reads.cover(&channel.name),
        }
}

fn rooms_of(principal: &Principal, channel: &Channel, wanted: &[Box<str>]) -> Result<Rooms, Denied> {
    let own = match &principal.tenant {
        _ if !channel.rooms_are_tenants || principal.is_administrator => None,
        Some(tenant) => Some(&**tenant),
        None => return Err(Denied::UnknownChannel),
    };
    match own {
        None if wanted.is_empty() => Ok(Rooms::All),
        None => Ok(Rooms::Only(wanted.to_vec())),
        Some(own) if wanted.iter().all(|room| **room == *own) => Ok(Rooms::Only(vec![own.into()])),
        Some(_) => Err(Denied::UnknownRoom),
    }
}

#[cfg(test)]
#[path = "scope_tests.rs"]
mod tests;
