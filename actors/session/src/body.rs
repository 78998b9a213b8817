//! The response body that empties a slot.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};

use actix_web::body::{BodySize, MessageBody};
use bytes::Bytes;

use crate::hub::Hub;
use crate::slot::Slot;

/// Gives the connection whatever its slot holds, joined, so that one write carries it. It is polled only when the
/// connection can take more; what happens meanwhile to a client that reads too slowly is the slot's affair.
///
/// When the connection ends it is dropped: that unregisters the slot, and ends the session's actor.
pub(crate) struct SessionBody {
    hub: Rc<Hub>,
    slot: Rc<Slot>,
    /// The first block, which nothing may overtake. Boxed, since the place for it stays for the life of the
    /// connection.
    connected: Option<Box<Bytes>>,
}

impl SessionBody {
    pub(crate) fn new(hub: Rc<Hub>, slot: Rc<Slot>, connected: Bytes) -> Self {
        let counters = &hub.shared.counters;
        counters.sessions.fetch_add(1, Relaxed);
        counters.opened.fetch_add(1, Relaxed);
        Self { hub, slot, connected: Some(Box::new(connected)) }
    }
}

impl MessageBody for SessionBody {
    type Error = std::convert::Infallible;

    fn size(&self) -> BodySize {
        BodySize::Stream
    }

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Self::Error>>> {
        if let Some(connected) = self.connected.take() {
            return Poll::Ready(Some(Ok(*connected)));
        }
        self.slot.poll_take(context).map(|bytes| bytes.map(Ok))
    }
}

impl Drop for SessionBody {
    fn drop(&mut self) {
        let dropped = self.slot.body_is_gone();
        self.hub.shared.counters.dropped.fetch_add(dropped, Relaxed);
        self.hub.unregister(&self.slot);
        self.hub.shared.session_ended();
    }
}
