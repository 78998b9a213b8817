//! What a WebSocket client says, and what is done about it.

use std::rc::Rc;
use std::sync::Arc;
use std::task::Context as TaskContext;

use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};
use freshet_feed::scope::Denied;
use freshet_feed::{ChannelName, Position};

use crate::allowance::Allowance;
use crate::catch_up::Resume;
use crate::close_code::CloseCode;
use crate::flow::AckError;
use crate::frames::{self, FrameError, FrameLimits, Inbound, Incoming};
use crate::hub::Hub;
use crate::interest::{Interest, Transport};
use crate::pace::{self, PaceTimer};
use crate::protocol::answer::{self, Answer};
use crate::protocol::request::{self, ClientMessage, Problem, ProtocolError, Request, Start, Subscribe};
use crate::renewal::Credential;
use crate::session::{Kind, SessionActor};
use crate::subscription::{Stage, Subscription};

/// The side of one WebSocket client that its actor holds.
pub(crate) struct Websocket {
    inbound: Inbound,
    limits: FrameLimits,
    allowance: Allowance,
    subscriptions: Vec<Rc<Subscription>>,
    /// Whether a new token of the client is being judged.
    is_renewing: bool,
    /// Whether the client has said its last words, or has broken the protocol: nothing more is expected of it.
    has_ended: bool,
}

impl Websocket {
    pub(crate) fn new(hub: &Hub) -> Self {
        let config = &hub.shared.config;
        let rate = config.messages_per_sec;
        Self {
            inbound: Inbound::default(),
            limits: FrameLimits { message_bytes: config.message_max_bytes, ..FrameLimits::default() },
            allowance: Allowance::new(rate, rate, now()),
            subscriptions: Vec::new(),
            is_renewing: false,
            has_ended: false,
        }
    }

    /// After our close frame: whether the client's is still to come.
    pub(crate) fn awaits_close(&self) -> bool {
        !self.has_ended
    }

    pub(crate) fn unsubscribe_all(&mut self, hub: &Hub) {
        for subscription in self.subscriptions.drain(..) {
            hub.unsubscribe(&subscription);
        }
    }

    pub(crate) fn send_paced(&self, hub: &Hub, timer: &mut PaceTimer, task: &mut TaskContext<'_>) {
        pace::send_all(hub, &self.subscriptions, timer, task);
    }

    fn subscription(&self, channel: &ChannelName) -> Option<usize> {
        self.subscriptions.iter().position(|subscription| {
            subscription.interest.scope.rooms_of(channel).is_some() && subscription.stage() != Stage::Ended
        })
    }

    /// Takes in what was read from the socket of a WebSocket client.
    pub(crate) fn received(actor: &mut SessionActor, mut bytes: &[u8], ctx: &mut Context<SessionActor>) {
        loop {
            let Kind::Websocket(websocket) = &mut actor.kind else { return };
            match websocket.inbound.next(&mut bytes, &websocket.limits) {
                Ok(None) => return,
                Ok(Some(incoming)) => Self::incoming(actor, incoming, ctx),
                Err(error) => return Self::fail(actor, error),
            }
        }
    }

    fn fail(actor: &mut SessionActor, error: FrameError) {
        let Kind::Websocket(websocket) = &mut actor.kind else { return };
        websocket.has_ended = true;
        actor.connection.close_with(frames::close(error.close_code(), error.reason()));
    }

    fn incoming(actor: &mut SessionActor, incoming: Incoming, ctx: &mut Context<SessionActor>) {
        let Kind::Websocket(websocket) = &mut actor.kind else { return };
        let hub = &actor.hub;
        if let Incoming::Close(code) = incoming {
            websocket.has_ended = true;
            // The client's code is repeated, as RFC 6455 has it in section 5.5.1; after our own close it is over.
            let farewell = code.map_or_else(frames::close_without_code, |code| frames::close(code, ""));
            actor.connection.close_with(farewell);
            actor.connection.wake_io();
            return;
        }
        if !actor.connection.is_open() {
            return;
        }
        let request = match &incoming {
            Incoming::Message(text) => Some(request::read(text)),
            _ => None,
        };
        // An acknowledgement that tells something new was paid for by an event; others are counted with their answer.
        let is_ack = matches!(request, Some(Ok(Request { message: ClientMessage::Ack { .. }, .. })));
        if !is_ack && !websocket.allowance.take(now()) {
            hub.close(&actor.connection, CloseCode::RateExceeded);
            return;
        }
        match incoming {
            Incoming::Ping(payload) => {
                hub.say(&actor.connection, frames::pong(&payload));
            }
            Incoming::Pong | Incoming::Close(_) => {}
            Incoming::Message(_) => match request {
                Some(Ok(request)) => Self::requested(actor, request, ctx),
                Some(Err(error)) => {
                    hub.say(&actor.connection, answer::refusal(&error));
                }
                None => {}
            },
        }
    }

    fn requested(actor: &mut SessionActor, request: Request, ctx: &mut Context<SessionActor>) {
        let Request { id, message } = request;
        let (hub, connection) = (Rc::clone(&actor.hub), Rc::clone(&actor.connection));
        let Kind::Websocket(websocket) = &mut actor.kind else { return };
        let answered = match message {
            ClientMessage::Ping => Ok(Answer::Pong { id: id.as_deref() }.frame()),
            ClientMessage::Unsubscribe { channel } => match websocket.subscription(&channel) {
                Some(index) => {
                    hub.unsubscribe(&websocket.subscriptions.swap_remove(index));
                    Ok(Answer::Unsubscribed { channel: &channel, id: id.as_deref() }.frame())
                }
                None => Err(refused("not_subscribed", "there is no such subscription", Some(&channel), &id)),
            },
            ClientMessage::Ack { channel, position } => {
                return Self::acknowledged(actor, &channel, position, &id);
            }
            ClientMessage::Renew(credential) => return Self::renew(actor, credential, id, ctx),
            ClientMessage::Subscribe(subscribe) => {
                return Self::subscribe(actor, *subscribe, id, ctx);
            }
        };
        hub.say(&connection, answered.unwrap_or_else(|refusal| refusal));
    }

    fn acknowledged(
        actor: &mut SessionActor,
        channel: &ChannelName,
        position: Position,
        id: &Option<String>,
    ) {
        let Kind::Websocket(websocket) = &mut actor.kind else { return };
        let hub = &actor.hub;
        let found = websocket.subscription(channel).map(|index| Rc::clone(&websocket.subscriptions[index]));
        let acknowledged = match found.as_ref().and_then(|subscription| subscription.pace.as_ref()) {
            // No event of another log was ever sent.
            Some(_) if position.epoch != hub.position().epoch => Err(AckError::Ahead),
            Some(pace) => pace.acknowledge(position.offset),
            None => Ok(false),
        };
        if !matches!(acknowledged, Ok(true)) && !websocket.allowance.take(now()) {
            hub.close(&actor.connection, CloseCode::RateExceeded);
            return;
        }
        // Without a window there is nothing to acknowledge, and nothing wrong with it.
        if found.is_none() {
            let refusal = refused("not_subscribed", "there is no such subscription", Some(channel), id);
            hub.say(&actor.connection, refusal);
            return;
        }
        match acknowledged {
            Ok(_) => actor.connection.wake_io(),
            Err(error) => {
                let refusal = refused(error.code(), &error.to_string(), Some(channel), id);
                hub.say(&actor.connection, refusal);
            }
        }
    }

    /// One renewal at a time: each may ask another machine.
    fn renew(
        actor: &mut SessionActor,
        credential: Credential,
        id: Option<String>,
        ctx: &mut Context<SessionActor>,
    ) {
        let (hub, connection) = (Rc::clone(&actor.hub), Rc::clone(&actor.connection));
        let Kind::Websocket(websocket) = &mut actor.kind else { return };
        let Some(renewer) = hub.shared.renewer.get().map(Arc::clone) else {
            let text = "this session does not end with a token";
            hub.say(&connection, refused("renewal_unavailable", text, None, &id));
            return;
        };
        if websocket.is_renewing {
            let text = "another renewal of this session is being judged";
            hub.say(&connection, refused("renewal_in_progress", text, None, &id));
            return;
        }
        websocket.is_renewing = true;
        let renewal = async move {
            let judged = renewer.renew(&connection.holder(), &credential).await;
            let renewed = judged.and_then(|principal| hub.renew(&connection, principal));
            let answer = match renewed {
                Ok(()) => {
                    Answer::Renewed { expires_at: connection.holder().expires_at, id: id.as_deref() }.frame()
                }
                Err(refusal) => refused(refusal.code, &refusal.error, None, &id),
            };
            hub.say(&connection, answer);
        };
        ctx.spawn(renewal.into_actor(actor).map(|(), actor, _| {
            if let Kind::Websocket(websocket) = &mut actor.kind {
                websocket.is_renewing = false;
            }
        }));
    }

    fn subscribe(
        actor: &mut SessionActor,
        wish: Subscribe,
        id: Option<String>,
        ctx: &mut Context<SessionActor>,
    ) {
        let (hub, connection) = (Rc::clone(&actor.hub), Rc::clone(&actor.connection));
        let Kind::Websocket(websocket) = &mut actor.kind else { return };
        let subscription = match websocket.admit(&hub, &connection, &wish, &id) {
            Ok(subscription) => subscription,
            Err(refusal) => {
                hub.say(&connection, refusal);
                return;
            }
        };
        websocket.subscriptions.push(Rc::clone(&subscription));
        let resume = match wish.from {
            Start::Now => {
                let position = hub.position();
                let channel = &wish.channel;
                let id = id.as_deref();
                let answer = Answer::Subscribed {
                    channel,
                    position,
                    recovered: true,
                    missing: None,
                    snapshot: None,
                    id,
                };
                hub.say(&connection, answer.frame());
                subscription.go_live();
                return;
            }
            Start::Snapshot => Resume::Snapshot,
            Start::Position(position) => Resume::Position(position),
            Start::EventId(event_id) => Resume::EventId(event_id.into()),
        };
        actor.start_catch_up(ctx, subscription, resume, id);
    }

    /// Registers a subscription that catches up, or says why not.
    fn admit(
        &mut self,
        hub: &Rc<Hub>,
        connection: &Rc<crate::connection::Connection>,
        wish: &Subscribe,
        id: &Option<String>,
    ) -> Result<Rc<Subscription>, bytes::Bytes> {
        let channels = &hub.shared.channels;
        let rooms = wish.rooms.iter().map(String::as_str);
        let denied = |denied: Denied| {
            let problem = Problem::Denied(denied);
            answer::refusal(&ProtocolError { problem, id: id.clone(), channel: Some(wish.channel.clone()) })
        };
        let scope = channels.scope(&connection.holder(), [wish.channel.as_str()], rooms).map_err(denied)?;
        let channel = channels.get(wish.channel.as_str()).ok_or_else(|| denied(Denied::UnknownChannel))?;
        self.subscriptions.retain(|subscription| subscription.stage() != Stage::Ended);
        if self.subscription(&wish.channel).is_some() {
            let text = "this connection is subscribed to the channel already; unsubscribe first";
            return Err(refused("already_subscribed", text, Some(&wish.channel), id));
        }
        if self.subscriptions.len() >= hub.shared.config.max_subscriptions {
            let text = "this connection has as many subscriptions as it may have";
            return Err(refused("too_many_subscriptions", text, Some(&wish.channel), id));
        }
        let interest = Interest::new(Transport::Websocket, scope, wish.filter.clone(), channels);
        let start = if wish.from == Start::Now { hub.position().offset } else { 0 };
        let pace = pace::new(wish.window, wish.max_rate_per_sec, channel, &hub.shared.config, start);
        let interest = if pace.is_some() { interest.paced() } else { interest };
        Ok(hub.subscribe(connection, interest, pace, Stage::CatchingUp))
    }
}

fn refused(
    code: &'static str,
    error: &str,
    channel: Option<&ChannelName>,
    id: &Option<String>,
) -> bytes::Bytes {
    Answer::Error { code, error, channel, id: id.as_deref() }.frame()
}

fn now() -> std::time::Instant {
    tokio::time::Instant::now().into_std()
}
