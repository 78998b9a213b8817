//! What administrators, and clients that go on with another token, ask of the sessions of all threads.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use freshet_feed::Principal;
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

use crate::close_code::CloseCode;
use crate::connection::Connection;
use crate::hub::Hub;
use crate::presence::{self, Presence, SessionView, Wanted};
use crate::renewal::RenewalRefused;
use crate::sessions::Sessions;

/// So many questions may wait for one thread; whoever asks more waits.
const QUESTIONS: usize = 16;
/// A thread that does not answer within this time is left out.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// A question to the hub of one thread.
pub(crate) enum Question {
    Presence { wanted: Wanted, limit: usize, answer: oneshot::Sender<Presence> },
    Disconnect { wanted: Wanted, answer: oneshot::Sender<u64> },
    Renew { client_id: Uuid, principal: Principal, answer: oneshot::Sender<Option<Renewed>> },
}

/// What became of the renewal of a session.
type Renewed = Result<(), RenewalRefused>;

/// Some thread did not answer in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not all threads have answered")]
pub struct Incomplete;

/// Where the hubs of all threads can be asked.
#[derive(Default)]
pub(crate) struct Desk(Mutex<Vec<mpsc::Sender<Question>>>);

impl Desk {
    pub(crate) fn open(&self) -> mpsc::Receiver<Question> {
        let (sender, receiver) = mpsc::channel(QUESTIONS);
        let mut hubs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        hubs.retain(|hub| !hub.is_closed());
        hubs.push(sender);
        receiver
    }

    /// Asks every hub the same. A thread that has ended has no sessions.
    async fn ask<T>(&self, question: impl Fn(oneshot::Sender<T>) -> Question) -> Result<Vec<T>, Incomplete> {
        let hubs = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let ask = async {
            let mut answers = Vec::with_capacity(hubs.len());
            for hub in hubs {
                let (answer, answered) = oneshot::channel();
                if hub.send(question(answer)).await.is_ok() {
                    answers.push(answered);
                }
            }
            let mut answered = Vec::with_capacity(answers.len());
            for answer in answers {
                answered.extend(answer.await);
            }
            answered
        };
        tokio::time::timeout(ANSWER_WITHIN, ask).await.map_err(|_| Incomplete)
    }
}

impl Sessions {
    /// The sessions of this instance that are meant, counted, and the first `limit` of them.
    ///
    /// # Errors
    /// When a thread does not answer in time.
    pub async fn presence(&self, wanted: &Wanted, limit: usize) -> Result<Presence, Incomplete> {
        let ask = |answer| Question::Presence { wanted: wanted.clone(), limit, answer };
        let mut all = Presence::default();
        for answer in self.shared.desk.ask(ask).await? {
            all.add(answer, limit);
        }
        Ok(all)
    }

    /// Ends the sessions of this instance that are meant, and says how many they were.
    ///
    /// # Errors
    /// When a thread does not answer in time.
    pub async fn disconnect(&self, wanted: &Wanted) -> Result<u64, Incomplete> {
        let ask = |answer| Question::Disconnect { wanted: wanted.clone(), answer };
        Ok(self.shared.desk.ask(ask).await?.into_iter().sum())
    }

    /// Lets a session of the same subject and tenant go on with a new token. `None` when there is none with this id.
    ///
    /// # Errors
    /// When a thread does not answer in time.
    pub async fn renew(
        &self,
        client_id: Uuid,
        principal: &Principal,
    ) -> Result<Option<Result<(), RenewalRefused>>, Incomplete> {
        let ask = |answer| Question::Renew { client_id, principal: principal.clone(), answer };
        Ok(self.shared.desk.ask(ask).await?.into_iter().flatten().next())
    }
}

/// Answers one question. Who asked may be gone by now.
pub(crate) fn answer(hub: &Hub, question: Question) {
    match question {
        Question::Presence { wanted, limit, answer } => {
            let mut presence = Presence::default();
            for (_, session) in meant(hub, &wanted) {
                presence.count(session, limit);
            }
            let _ = answer.send(presence);
        }
        Question::Disconnect { wanted, answer } => {
            let mut ended = 0;
            for (connection, _) in meant(hub, &wanted) {
                hub.close(&connection, CloseCode::Disconnected);
                ended += 1;
            }
            let _ = answer.send(ended);
        }
        Question::Renew { client_id, principal, answer } => {
            let connection = hub.connections().into_iter().find(|known| {
                let holder = known.holder();
                let is_same = holder.subject == principal.subject && holder.tenant == principal.tenant;
                known.client_id == client_id && known.is_open() && is_same && holder.subject.is_some()
            });
            let _ = answer.send(connection.map(|connection| hub.renew(&connection, principal)));
        }
    }
}

/// The sessions that are meant, each as it looks now.
fn meant(hub: &Hub, wanted: &Wanted) -> Vec<(Rc<Connection>, SessionView)> {
    let mut follows: HashMap<Uuid, Vec<presence::Followed>> = HashMap::new();
    hub.each_subscription(|subscription| {
        let known = follows.entry(subscription.connection.client_id).or_default();
        known.extend(presence::followed(&subscription.interest.scope));
    });
    let view = |connection: Rc<Connection>| {
        let mut view = presence::view(
            connection.client_id,
            connection.transport,
            &connection.holder(),
            connection.connected_at(),
            connection.queued_bytes(),
        );
        view.follows = follows.remove(&connection.client_id).unwrap_or_default();
        view.follows.sort_by(|one, other| one.channel.cmp(&other.channel));
        (connection, view)
    };
    let open = hub.connections().into_iter().filter(|connection| connection.is_open());
    let sessions = open.map(view);
    sessions.filter(|(_, session)| wanted.fits(session)).collect()
}

#[cfg(test)]
#[path = "administration_tests.rs"]
mod tests;
