//! Addresses that outlive the runs of their child, and the bounded mailbox behind them.

use std::sync::{Arc, Mutex, atomic::Ordering::Relaxed};

use actix::{Context, Handler, Message, dev::MessageResponse};
use tokio::{
    sync::{
        mpsc::{self, error::TrySendError},
        oneshot,
    },
    time::Instant,
};

use crate::{Child, incarnation::excuse_current, node::Node, stats::nanos, sync::lock};

/// Why a [`Address::send`] or [`Address::tell`] came to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The child was lost while it handled this message; whether the message took effect is unknown. It is being started again.
    #[error("the actor was lost while it handled the message and is being restarted")]
    Restarting,
    /// The child has ended and will not come back.
    #[error("the actor has stopped")]
    Stopped,
}

/// Why a [`Address::try_tell`] did not queue its message, with the message.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TryTellError<M> {
    /// The mailbox is full.
    #[error("the mailbox is full")]
    Full(M),
    /// The child has ended and will not come back.
    #[error("the actor has stopped")]
    Stopped(M),
}

/// A message on its way, ready to be handled without knowing its type.
pub(crate) trait Deliver<A: Child>: Send {
    fn deliver(self: Box<Self>, actor: &mut A, ctx: &mut Context<A>);
}

struct Parcel<M: Message> {
    message: M,
    reply: Option<oneshot::Sender<M::Result>>,
}

impl<A, M> Deliver<A> for Parcel<M>
where
    A: Child + Handler<M>,
    M: Message + Send + 'static,
    M::Result: Send,
{
    fn deliver(self: Box<Self>, actor: &mut A, ctx: &mut Context<A>) {
        let Self { message, reply } = *self;
        if reply.as_ref().is_some_and(oneshot::Sender::is_closed) {
            return;
        }
        actor.handle(message, ctx).handle(ctx, reply);
    }
}

pub(crate) struct Envelope<A: Child> {
    pub(crate) parcel: Box<dyn Deliver<A>>,
    pub(crate) queued_at: Instant,
}

/// The receiving end. It belongs to the child's place in the tree and is lent to each run of the child.
pub(crate) type Mailbox<A> = Arc<Mutex<Option<mpsc::Receiver<Envelope<A>>>>>;

pub(crate) fn mailbox<A: Child>(node: &Arc<Node>) -> (Address<A>, Mailbox<A>) {
    let (sender, receiver) = mpsc::channel(node.mailbox_capacity);
    let address = Address { sender, node: Arc::clone(node) };
    (address, Arc::new(Mutex::new(Some(receiver))))
}

/// Ends a mailbox: what is queued is dropped, and senders learn that the child has stopped.
pub(crate) fn close_mailbox<A: Child>(mailbox: &Mailbox<A>, node: &Arc<Node>) {
    node.close();
    let Some(mut receiver) = lock(mailbox).take() else {
        return;
    };
    receiver.close();
    let node = Arc::clone(node);
    // A sender on another thread may hold a place that it has not filled yet, so the rest is awaited and not only drained.
    crate::task::spawn("kernel-mailbox-drain", async move {
        while let Some(envelope) = receiver.recv().await {
            taken(&node);
            drop(envelope);
        }
    })
    .detach();
}

pub(crate) fn taken(node: &Node) {
    node.mailbox_depth.fetch_sub(1, Relaxed);
    node.counters.mailbox_depth.fetch_sub(1, Relaxed);
}

/// How others talk to a child. Valid before its first start and across its restarts.
///
/// Messages that wait in the mailbox are kept when the child is restarted; only the message in hand is lost.
/// Messages of one sender are handled in the order in which they were sent.
pub struct Address<A: Child> {
    sender: mpsc::Sender<Envelope<A>>,
    node: Arc<Node>,
}

impl<A: Child> Clone for Address<A> {
    fn clone(&self) -> Self {
        Self { sender: self.sender.clone(), node: Arc::clone(&self.node) }
    }
}

impl<A: Child> std::fmt::Debug for Address<A> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Address({})", self.node.id)
    }
}

impl<A: Child> Address<A> {
    /// Sends `message` and waits for the answer: first for room in the mailbox (that time is counted), then until it
    /// is handled.
    ///
    /// Dropping the future takes back a message that is not queued yet; a message that is queued is skipped when its
    /// turn comes; one that is being handled is handled to the end.
    ///
    /// # Errors
    /// [`SendError::Restarting`] when the child was lost with this message in hand, [`SendError::Stopped`] when it
    /// has ended for good.
    pub async fn send<M>(&self, message: M) -> Result<M::Result, SendError>
    where
        A: Handler<M>,
        M: Message + Send + 'static,
        M::Result: Send,
    {
        let place = self.room().await?;
        let (reply, answer) = oneshot::channel();
        self.post(place, message, Some(reply));
        answer.await.map_err(|_| if self.node.closed() { SendError::Stopped } else { SendError::Restarting })
    }

    /// Queues `message` and returns; waits for room in the mailbox only (that time is counted).
    ///
    /// Dropping the future before it is ready takes the message back.
    ///
    /// # Errors
    /// [`SendError::Stopped`] when the child has ended for good.
    pub async fn tell<M>(&self, message: M) -> Result<(), SendError>
    where
        A: Handler<M>,
        M: Message + Send + 'static,
        M::Result: Send,
    {
        let place = self.room().await?;
        self.post(place, message, None);
        Ok(())
    }

    /// Queues `message` if there is room at once.
    ///
    /// # Errors
    /// The message comes back when the mailbox is full or the child has ended for good.
    pub fn try_tell<M>(&self, message: M) -> Result<(), TryTellError<M>>
    where
        A: Handler<M>,
        M: Message + Send + 'static,
        M::Result: Send,
    {
        match self.sender.try_reserve() {
            Ok(place) => {
                self.post(place, message, None);
                Ok(())
            }
            Err(TrySendError::Full(())) => Err(TryTellError::Full(message)),
            Err(TrySendError::Closed(())) => Err(TryTellError::Stopped(message)),
        }
    }

    /// Whether the child has ended for good.
    pub fn is_stopped(&self) -> bool {
        self.node.closed()
    }

    /// The child's place in the tree, as its specification named it.
    pub fn id(&self) -> &str {
        &self.node.id
    }

    async fn room(&self) -> Result<mpsc::Permit<'_, Envelope<A>>, SendError> {
        match self.sender.try_reserve() {
            Ok(place) => return Ok(place),
            Err(TrySendError::Closed(())) => return Err(SendError::Stopped),
            Err(TrySendError::Full(())) => {}
        }
        let waiting = Wait::begin(&self.node);
        let place = self.sender.reserve().await;
        drop(waiting);
        place.map_err(|_| SendError::Stopped)
    }

    fn post<M>(
        &self,
        place: mpsc::Permit<'_, Envelope<A>>,
        message: M,
        reply: Option<oneshot::Sender<M::Result>>,
    ) where
        A: Handler<M>,
        M: Message + Send + 'static,
        M::Result: Send,
    {
        self.node.mailbox_depth.fetch_add(1, Relaxed);
        self.node.counters.mailbox_depth.fetch_add(1, Relaxed);
        place.send(Envelope { parcel: Box::new(Parcel { message, reply }), queued_at: Instant::now() });
    }
}

/// A wait for room. Counted when it ends, also when the sender gives up; while it lasts the sending child is excused
/// from stuck detection, because the cause lies downstream.
struct Wait<'a> {
    node: &'a Node,
    since: Instant,
    _excuse: Option<crate::incarnation::Excuse>,
}

impl<'a> Wait<'a> {
    fn begin(node: &'a Node) -> Self {
        node.waits.fetch_add(1, Relaxed);
        node.counters.mailbox_waits.fetch_add(1, Relaxed);
        Self { node, since: Instant::now(), _excuse: excuse_current() }
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        let waited = nanos(self.since.elapsed());
        self.node.wait_nanos.fetch_add(waited, Relaxed);
        self.node.counters.mailbox_wait_nanos.fetch_add(waited, Relaxed);
    }
}
