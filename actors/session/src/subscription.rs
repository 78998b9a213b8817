//! What a connection gets of one interest.

use std::cell::Cell;
use std::rc::Rc;

use crate::connection::Connection;
use crate::interest::Interest;
use crate::pace::Pace;

/// Where a subscription stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// What it missed is being read; the hub passes it over.
    CatchingUp,
    /// The hub gives it each batch.
    Live,
    /// It is over.
    Ended,
}

/// One interest of one connection. Hub and actor share it, on one thread.
pub(crate) struct Subscription {
    pub(crate) connection: Rc<Connection>,
    /// What it wants; the key of its group.
    pub(crate) interest: Rc<Interest>,
    /// Where it stands in its group.
    pub(crate) index: Cell<u32>,
    /// The window and the rate that it asked for.
    pub(crate) pace: Option<Box<Pace>>,
    stage: Cell<Stage>,
}

impl Subscription {
    pub(crate) fn new(
        connection: Rc<Connection>,
        interest: Rc<Interest>,
        pace: Option<Box<Pace>>,
        stage: Stage,
    ) -> Rc<Self> {
        Rc::new(Self { connection, interest, index: Cell::new(0), pace, stage: Cell::new(stage) })
    }

    pub(crate) fn stage(&self) -> Stage {
        self.stage.get()
    }

    /// Whether it and its connection go on.
    pub(crate) fn is_open(&self) -> bool {
        self.stage.get() != Stage::Ended && self.connection.is_open()
    }

    pub(crate) fn go_live(&self) {
        if self.stage.get() == Stage::CatchingUp {
            self.stage.set(Stage::Live);
            self.move_id();
        }
    }

    /// From now on heartbeats tell a client that filters how far it is.
    pub(crate) fn move_id(&self) {
        let moved_by = (!self.interest.wants_all()).then(|| Rc::clone(&self.interest));
        self.connection.moved_by.replace(moved_by);
    }

    pub(crate) fn end(&self) {
        self.stage.set(Stage::Ended);
    }
}
