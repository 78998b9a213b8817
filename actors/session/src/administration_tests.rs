//! Two subjects on one thread, and an administrator who looks at them.

use std::sync::Arc;

use freshet_broadcaster::{Backlog, Live};
use freshet_feed::channel::Config as ChannelConfig;
use freshet_feed::channel::{Format, Read};
use freshet_feed::port::Announce;
use freshet_feed::{Channels, EventFilter, Patterns, Position};
use freshet_kernel::Nursery;
use futures_util::FutureExt;
use jiff::Timestamp;

use super::*;
use crate::config::Config;
use crate::connection::State;
use crate::hub_task;
use crate::interest::{Interest, Transport};
use crate::memory_log::{EPOCH, MemoryLog};
use crate::subscription::Stage;

const END: i64 = 1_900_000_000;

struct Story {
    sessions: Sessions,
    hub: Rc<Hub>,
}

/// A channel whose rooms are tenants, beside the one of commits.
fn story() -> Story {
    let config = freshet_broadcaster::Config::default();
    let live = Live::new(&config);
    let position = Position { epoch: EPOCH, offset: 7 };
    live.stands_at(position);
    let backlog = Arc::new(Backlog::new(&config, Arc::clone(&live), MemoryLog::new()));
    let stock = ChannelConfig {
        name: "stock".to_owned(),
        read: Read::Granted,
        format: Format::Json,
        id: "/id".to_owned(),
        room: "/tenant".to_owned(),
        rooms_are_tenants: true,
        ..ChannelConfig::default()
    };
    let channels = Channels::new(&[stock]);
    let sessions = Sessions::new(Config::default(), channels, live, backlog, Nursery::new("test", 9));
    let hub = Hub::new(Arc::clone(&sessions.shared), position);
    Story { sessions, hub }
}

fn principal(subject: &str, tenant: &str, channels: &[&str], end: i64) -> Principal {
    Principal {
        subject: Some(subject.into()),
        tenant: Some(tenant.into()),
        reads: Patterns::new(channels.iter().copied()).unwrap(),
        expires_at: Some(Timestamp::from_second(end).unwrap()),
        ..Principal::default()
    }
}

impl Story {
    fn follows(&self, principal: &Principal, channel: &str) -> Rc<Connection> {
        let channels = &self.sessions.shared.channels;
        let scope = channels.scope(principal, [channel], []).unwrap();
        let interest = Interest::new(Transport::Sse, scope, EventFilter::default(), channels);
        let connection = self.hub.connect(Transport::Sse, principal.clone());
        self.hub.subscribe(&connection, interest, None, Stage::Live);
        connection
    }

    /// Runs a script while the hub answers questions.
    async fn while_running<T>(&self, script: impl Future<Output = T>) -> T {
        let mut script = std::pin::pin!(script);
        // The hub opens its desk before anyone asks.
        let mut running = std::pin::pin!(hub_task::run(Rc::clone(&self.hub)));
        assert!(running.as_mut().now_or_never().is_none());
        tokio::select! {
            () = running => panic!("the hub's task ended"),
            done = &mut script => done,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_administrator_sees_who_is_there_and_ends_sessions_by_subject_and_by_id() {
    let story = story();
    let ada = [1, 2].map(|_| story.follows(&principal("ada", "north", &["stock"], END), "stock"));
    let bob = story.follows(&principal("bob", "south", &["*"], END), "iceberg");
    story
        .while_running(async {
            let all = story.sessions.presence(&Wanted::default(), 2).await.unwrap();
            assert_eq!((all.sessions, all.list.len()), (3, 2));
            assert_eq!(all.channels.get("stock"), Some(&2));
            assert_eq!(all.rooms.get(&("stock".to_owned(), "north".to_owned())), Some(&2));

            let subject = Wanted { subject: Some("ada".to_owned()), ..Wanted::default() };
            assert_eq!(story.sessions.disconnect(&subject).await, Ok(2));
            assert_eq!(ada.each_ref().map(|session| session.state()), [State::Closed; 2]);
            assert_eq!(story.sessions.disconnect(&subject).await, Ok(0), "they have ended already");

            let other = Wanted { client_id: Some(Uuid::from_u128(1)), ..Wanted::default() };
            assert_eq!(story.sessions.disconnect(&other).await, Ok(0));
            assert!(bob.is_open());
            let id = Wanted { client_id: Some(bob.client_id), ..Wanted::default() };
            assert_eq!(story.sessions.disconnect(&id).await, Ok(1));
            assert_eq!(bob.state(), State::Closed);
            assert_eq!(story.sessions.counters().closed(CloseCode::Disconnected), 3);
        })
        .await;
}

#[tokio::test]
async fn a_session_ends_at_the_second_at_which_its_token_does_unless_it_was_renewed() {
    let story = story();
    let token = principal("ada", "north", &["stock"], END);
    let (renewed, other) = (story.follows(&token, "stock"), story.follows(&token, "stock"));
    story.hub.tick(END - 1);
    assert!(renewed.is_open() && other.is_open());
    assert_eq!(story.hub.renew(&renewed, principal("ada", "north", &["stock"], END + 60)), Ok(()));
    story.hub.tick(END);
    assert!(renewed.is_open());
    assert_eq!(other.state(), State::Closed);
    assert_eq!(story.sessions.counters().closed(CloseCode::TokenExpired), 1);
    story.hub.tick(END + 60);
    assert_eq!(renewed.state(), State::Closed);
}

#[tokio::test]
async fn a_session_goes_on_only_with_a_token_that_allows_all_it_follows() {
    let story = story();
    let session = story.follows(&principal("ada", "north", &["stock"], END), "stock");
    for less in
        [principal("ada", "north", &["products"], END + 60), principal("ada", "south", &["stock"], END + 60)]
    {
        let refused = story.hub.renew(&session, less).unwrap_err();
        assert_eq!(refused.code, "renewal_allows_less");
        assert_eq!(session.holder().expires_at.unwrap().as_second(), END, "it keeps what it has");
    }
}

#[tokio::test(start_paused = true)]
async fn a_renewal_by_id_finds_only_the_sessions_of_its_own_subject() {
    let story = story();
    let session = story.follows(&principal("ada", "north", &["stock"], END), "stock");
    let anybody = story.hub.connect(Transport::Sse, Principal::default());
    story
        .while_running(async {
            let longer = |subject: &str| principal(subject, "north", &["stock"], END + 60);
            let sessions = &story.sessions;
            assert_eq!(sessions.renew(session.client_id, &longer("bob")).await, Ok(None));
            assert_eq!(sessions.renew(anybody.client_id, &Principal::default()).await, Ok(None));
            assert_eq!(sessions.renew(session.client_id, &longer("ada")).await, Ok(Some(Ok(()))));
            assert_eq!(session.holder().expires_at.unwrap().as_second(), END + 60);
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_thread_that_does_not_answer_is_told_and_one_that_has_ended_is_left_out() {
    let story = story();
    let silent = story.sessions.shared.desk.open();
    assert_eq!(story.sessions.disconnect(&Wanted::default()).await, Err(Incomplete));
    drop(silent);
    assert_eq!(story.sessions.disconnect(&Wanted::default()).await, Ok(0));
}
