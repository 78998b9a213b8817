//! The state of a channel: the newest event of each key, from which a subscription goes on with what changes.

use std::sync::Arc;

use freshet_broadcaster::Batch;
use freshet_feed::Position;
use freshet_feed::port::{NewestByKey, StoreError};
use jiff::{SignedDuration, Timestamp};

use crate::catch_up::{give_events, say_subscribed};
use crate::delivery::Delivery;
use crate::hub::Hub;
use crate::protocol::answer::Answer;
use crate::subscription::Subscription;

/// So many events of the state are read at once.
const PAGE_EVENTS: usize = 256;

/// Gives the state of the subscription's channel, and the offset after which the changes begin. Nothing when the
/// state is too large to be given: the client is told, and the subscription is over.
///
/// # Errors
/// When the log cannot be read.
pub(crate) async fn give_state(
    hub: &Hub,
    subscription: &Subscription,
    id: Option<&str>,
) -> Result<Option<u64>, StoreError> {
    let Some((channel, rooms)) = subscription.interest.scope.channels().first() else { return Ok(None) };
    let max_age = hub.shared.channels.get(channel.as_str()).and_then(|channel| channel.history_max_age);
    let since =
        max_age.and_then(|age| Timestamp::now().checked_sub(SignedDuration::try_from(age).ok()?).ok());
    let request = NewestByKey {
        channel: channel.clone(),
        rooms: rooms.clone(),
        appended_since: since,
        max_keys: hub.shared.config.snapshot_max_keys,
    };
    let state = hub.shared.backlog.newest_by_key(request).await?;
    if state.is_cut {
        let error = "the channel has more keys than a snapshot may have; narrow it by room";
        let refusal = Answer::Error { code: "snapshot_too_large", error, channel: Some(channel), id };
        hub.say(&subscription.connection, refusal.frame());
        hub.unsubscribe(subscription);
        return Ok(None);
    }
    let epoch = hub.position().epoch;
    let position = Position { epoch, offset: state.through };
    let count = state.offsets.len() as u64;
    say_subscribed(hub, subscription, position, None, Some(count), id);
    for offsets in state.offsets.chunks(PAGE_EVENTS) {
        if !subscription.is_open() {
            return Ok(None);
        }
        let events = hub.shared.backlog.read_at(offsets.to_vec()).await?;
        let Some(page) = Batch::render(epoch, events).map(Arc::new) else { continue };
        let all = 0..page.events().len();
        if let Some(delivery) = Delivery::select(&page, all, &subscription.interest) {
            give_events(hub, subscription, delivery).await;
        }
    }
    Ok(Some(state.through))
}
