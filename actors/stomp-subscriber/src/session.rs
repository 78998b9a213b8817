//! The protocol as a state machine: frames, closings and the clock go in, frames to send come out. It does no
//! I/O.
//!
//! ```text
//! CONNECT → Opening ─CONNECTED→ Subscribing ─RECEIPT→ Subscribed ─DISCONNECT→ Closing ─RECEIPT→ Closed
//!              └───────────── ERROR, silence, time-out, end of stream: Failure ────────────┘
//! ```

use std::time::Duration;

use async_stomp::{Message, ToServer};
use tokio::time::Instant;

use crate::config::Config;
use crate::connect;
use crate::failure::{Failure, FailureClass};
use crate::frame::{Delivery, Frame};
use crate::heartbeat::{Agreement, HeartBeat};

/// Where a session stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// CONNECT is sent.
    Opening,
    /// SUBSCRIBE is sent.
    Subscribing,
    /// Messages flow.
    Subscribed,
    /// DISCONNECT is sent.
    Closing,
    /// The broker has confirmed the end.
    Closed,
}

/// What follows from a frame.
#[derive(Debug)]
pub enum Reaction {
    /// Nothing.
    None,
    /// This frame is to be sent.
    Send(Message<ToServer>),
    /// The broker has confirmed the subscription.
    Subscribed,
    /// A message came.
    Deliver(Delivery),
    /// The broker has confirmed the end.
    Closed,
}

/// What is due by the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Nothing yet.
    Nothing,
    /// A heart-beat of ours.
    Beat,
}

/// One session, from CONNECT to its end.
#[derive(Debug)]
pub struct Session<'a> {
    config: &'a Config,
    phase: Phase,
    /// When the broker must have answered what we asked.
    answer_by: Option<Instant>,
    heart_beat: HeartBeat,
}

impl<'a> Session<'a> {
    /// Starts a session with the broker on this host, and gives the frame that opens it.
    #[must_use]
    pub fn open(config: &'a Config, broker_host: &str, now: Instant) -> (Self, Message<ToServer>) {
        let session = Self {
            config,
            phase: Phase::Opening,
            answer_by: Some(now + config.connect_timeout()),
            // Nothing is agreed before CONNECTED.
            heart_beat: HeartBeat::new(Agreement { send_within: None, receive_within: None }, now),
        };
        (session, connect::connect(config, broker_host))
    }

    /// Where it stands.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// A frame came.
    ///
    /// # Errors
    /// When the broker refuses something, or when the frame has no place in this phase.
    pub fn frame(&mut self, frame: Frame, now: Instant) -> Result<Reaction, Failure> {
        match (self.phase, frame) {
            (_, Frame::Error { message, detail }) => Err(Failure::from_error_frame(&message, &detail)),
            (Phase::Opening, Frame::Connected { version, heart_beat }) => {
                if version != "1.2" {
                    let reason = format!("the broker chose STOMP {version}; 1.2 is needed");
                    return Err(Failure::new(FailureClass::VersionUnsupported, reason));
                }
                let agreement = Agreement::of(
                    self.config.heart_beat_send_millis,
                    self.config.heart_beat_receive_millis,
                    heart_beat.as_deref(),
                );
                self.heart_beat = HeartBeat::new(agreement, now);
                self.phase = Phase::Subscribing;
                self.answer_by = Some(now + self.config.connect_timeout());
                Ok(Reaction::Send(connect::subscribe(self.config)))
            }
            (Phase::Subscribing, Frame::Receipt(receipt)) if receipt == connect::SUBSCRIBE_RECEIPT => {
                self.phase = Phase::Subscribed;
                self.answer_by = None;
                Ok(Reaction::Subscribed)
            }
            // A broker may deliver before it confirms, and after we said goodbye. The latter come again later.
            (Phase::Subscribing | Phase::Subscribed, Frame::Message(delivery)) => {
                Ok(Reaction::Deliver(delivery))
            }
            (Phase::Closing, Frame::Message(_)) => Ok(Reaction::None),
            (Phase::Closing, Frame::Receipt(receipt)) if receipt == connect::DISCONNECT_RECEIPT => {
                self.phase = Phase::Closed;
                self.answer_by = None;
                Ok(Reaction::Closed)
            }
            (_, Frame::Receipt(_)) => Ok(Reaction::None),
            (phase, Frame::Connected { .. } | Frame::Message(_)) => {
                let reason = format!("a frame came that has no place while {phase:?}");
                Err(Failure::new(FailureClass::FrameMalformed, reason))
            }
        }
    }

    /// We want to end it: gives the frame to send. The answer must come within this time.
    #[must_use]
    pub fn close(&mut self, now: Instant, within: Duration) -> Message<ToServer> {
        self.phase = Phase::Closing;
        self.answer_by = Some(now + within);
        connect::disconnect()
    }

    /// Bytes came.
    pub fn received(&mut self, now: Instant) {
        self.heart_beat.received(now);
    }

    /// Bytes were sent.
    pub fn sent(&mut self, now: Instant) {
        self.heart_beat.sent(now);
    }

    /// We stop reading for a while.
    pub fn reading_paused(&mut self) {
        self.heart_beat.reading_paused();
    }

    /// We read again. Answers may have waited in the socket, so their time starts anew.
    pub fn resumed(&mut self, now: Instant) {
        self.heart_beat.received(now);
        if self.answer_by.is_some() {
            self.answer_by = Some(now + self.config.connect_timeout());
        }
    }

    /// When the next heart-beat of ours is due.
    #[must_use]
    pub fn beat_due(&self) -> Option<Instant> {
        self.heart_beat.beat_due()
    }

    /// When the clock must be looked at next.
    #[must_use]
    pub fn due_at(&self) -> Option<Instant> {
        [self.answer_by, self.heart_beat.beat_due(), self.heart_beat.silence_ends()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Looks at the clock.
    ///
    /// # Errors
    /// When the broker did not answer in time, or was silent for too long.
    pub fn tick(&mut self, now: Instant) -> Result<Due, Failure> {
        let passed = |time: Option<Instant>| time.is_some_and(|time| time <= now);
        if passed(self.answer_by) {
            let reason = format!("the broker did not answer in time while {:?}", self.phase);
            return Err(Failure::new(FailureClass::HandshakeTimedOut, reason));
        }
        if passed(self.heart_beat.silence_ends()) {
            let reason = "nothing came for two and a half times the agreed heart-beat";
            return Err(Failure::new(FailureClass::HeartBeatMissed, reason));
        }
        Ok(if passed(self.heart_beat.beat_due()) { Due::Beat } else { Due::Nothing })
    }

    /// The broker closed the connection.
    #[must_use]
    pub fn closed(&self) -> Failure {
        let reason = match self.phase {
            Phase::Opening => "the broker closed the connection instead of answering",
            Phase::Subscribing => "the broker closed the connection instead of confirming the subscription",
            Phase::Subscribed | Phase::Closing | Phase::Closed => "the broker closed the connection",
        };
        Failure::new(FailureClass::ConnectionClosed, reason)
    }
}
