//! What a subscription wants, and in which form.

use freshet_feed::channel::WhenFull;
use freshet_feed::{Channels, Event, EventFilter, Rooms, Scope};

/// How a client is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Transport {
    /// Server-sent events.
    Sse,
    /// WebSocket, protocol `freshet.v1`.
    Websocket,
}

/// What one subscription wants. Those that want the same share the same bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Interest {
    pub(crate) transport: Transport,
    pub(crate) scope: Scope,
    pub(crate) filter: EventFilter,
    /// Whether it wants all that there is, so that nothing need be looked at.
    wants_all: bool,
    /// Whether one of its channels may be left out in part for a slow client.
    may_leave_out: bool,
}

impl Interest {
    pub(crate) fn new(transport: Transport, scope: Scope, filter: EventFilter, channels: &Channels) -> Self {
        let is_whole = |name| scope.rooms_of(name) == Some(&Rooms::All);
        let wants_all = filter.is_all() && channels.iter().all(|channel| is_whole(&channel.name));
        let may_leave_out = scope
            .channels()
            .iter()
            .filter_map(|(name, _)| channels.get(name.as_str()))
            .any(|channel| channel.when_full != WhenFull::Close);
        Self { transport, scope, filter, wants_all, may_leave_out }
    }

    /// The same for a subscription with a pace of its own, whose events are looked at one by one.
    pub(crate) fn paced(self) -> Self {
        Self { may_leave_out: true, ..self }
    }

    pub(crate) fn wants(&self, event: &Event) -> bool {
        self.wants_all || (self.scope.holds(event) && self.filter.matches(event))
    }

    pub(crate) fn wants_all(&self) -> bool {
        self.wants_all
    }

    pub(crate) fn may_leave_out(&self) -> bool {
        self.may_leave_out
    }
}

#[cfg(test)]
pub(crate) mod sample {
    use freshet_feed::ChannelName;
    use freshet_feed::channel::Config;

    use super::*;

    pub(crate) fn channels(when_full: WhenFull) -> Channels {
        Channels::new(&[Config { when_full, keep_newest: 2, ..Config::default() }])
    }

    /// Server-sent events of the channel of commits.
    pub(crate) fn interest_of(filter: EventFilter, when_full: WhenFull) -> Interest {
        let scope = Scope::all_of(ChannelName::iceberg());
        Interest::new(Transport::Sse, scope, filter, &channels(when_full))
    }
}
