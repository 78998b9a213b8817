//! The names of keys. All of one log carry the same hash tag, so that a cluster keeps them on one server.

use freshet_feed::event::Commit;
use freshet_feed::{ChannelName, Event};

/// Names keys after the configured prefix.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    prefix: String,
}

impl Keys {
    pub(crate) fn new(prefix: &str) -> Self {
        Self { prefix: format!("{{{prefix}}}") }
    }

    /// The hash of the epoch and the newest offset.
    pub(crate) fn head(&self) -> String {
        format!("{}:head", self.prefix)
    }

    /// The stream of events.
    pub(crate) fn log(&self) -> String {
        format!("{}:log", self.prefix)
    }

    /// Where an id is remembered: a hash of channels, each with the offset of its event.
    pub(crate) fn seen(&self, event_id: &str) -> String {
        format!("{}:seen:{event_id}", self.prefix)
    }

    /// The sorted set of a channel's keys by the offset of their newest event.
    pub(crate) fn keyed(&self, channel: &ChannelName) -> String {
        format!("{}:keys:{channel}", self.prefix)
    }

    /// Where the reports of one snapshot are remembered, for an event that has one.
    pub(crate) fn commit(&self, event: &Event) -> Option<String> {
        let Commit { table, event_type, snapshot_id, .. } = event.commit.as_ref()?;
        let snapshot_id = (*snapshot_id)?;
        let room = room(event.room.as_deref());
        // Lengths before texts: no two commits have the same name.
        Some(format!(
            "{}:commit:{}:{}:{room}{snapshot_id}:{}:{event_type}:{table}",
            self.prefix,
            event.channel.as_str().len(),
            event.channel,
            event_type.len(),
        ))
    }

    /// What lives for a while under a name of another room of the daemon.
    pub(crate) fn once(&self, name: &str) -> String {
        format!("{}:once:{name}", self.prefix)
    }
}

/// A room so that what follows it cannot be taken for a part of it.
fn room(room: Option<&str>) -> String {
    room.map_or_else(|| "-".to_owned(), |room| format!("{}:{room}", room.len()))
}

/// A key with its room, as it stands in the set of a channel's keys.
pub(crate) fn member(event: &Event) -> Option<String> {
    let key = event.key.as_deref()?;
    Some(format!("{}{key}", room(event.room.as_deref())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{commit, event};

    #[test]
    fn all_keys_of_a_log_carry_its_hash_tag() {
        let keys = Keys::new("freshet");
        let event = commit("a}b{", "prod.orders", 7);
        for key in [
            keys.head(),
            keys.log(),
            keys.seen(&event.event_id),
            keys.keyed(&event.channel),
            keys.commit(&event).unwrap(),
            keys.once("x"),
        ] {
            assert!(key.starts_with("{freshet}:"), "{key}");
        }
    }

    #[test]
    fn commits_differ_by_channel_room_table_snapshot_and_type() {
        let keys = Keys::new("freshet");
        let one = commit("a", "prod.orders", 7);
        let name = |change: &dyn Fn(&mut Event)| {
            let mut event = one.clone();
            change(&mut event);
            keys.commit(&event)
        };
        let mut names = vec![
            name(&|_| ()),
            name(&|event| event.channel = ChannelName::new("iceberg:1").unwrap()),
            name(&|event| event.room = Some(String::new())),
            name(&|event| event.room = Some("1".to_owned())),
            name(&|event| event.commit.as_mut().unwrap().snapshot_id = Some(-7)),
            name(&|event| event.commit.as_mut().unwrap().table = "prod:orders".to_owned()),
            name(&|event| event.commit.as_mut().unwrap().event_type = "COMMIT_SUCCESS:".to_owned()),
        ];
        assert!(names.iter().all(Option::is_some));
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 7);
        assert_eq!(name(&|event| event.event_id = "b".to_owned()), name(&|_| ()));
        assert_eq!(keys.commit(&event("a", "1")), None);
    }

    #[test]
    fn a_key_is_told_from_its_room() {
        let with = |room: Option<&str>, key: Option<&str>| {
            member(&Event { room: room.map(Into::into), key: key.map(Into::into), ..event("a", "1") })
        };
        assert_eq!(with(None, Some("1:ab")).as_deref(), Some("-1:ab"));
        assert_eq!(with(Some("a:b"), Some("c")).as_deref(), Some("3:a:bc"));
        assert_eq!(with(Some("a"), None), None);
    }
}
