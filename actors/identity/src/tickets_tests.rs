use super::*;

const TTL: Duration = Duration::from_secs(30);

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_893_456_000 + second).unwrap()
}

fn ada() -> Principal {
    Principal {
        subject: Some("ada".into()),
        tenant: Some("north".into()),
        expires_at: Some(at(20)),
        ..Principal::default()
    }
}

fn tickets(tickets_max: usize) -> (Tickets, Arc<MemoryTicketStore>) {
    let store = Arc::new(MemoryTicketStore::new(tickets_max));
    (Tickets::new(store.clone(), TTL, 100), store)
}

#[tokio::test(start_paused = true)]
async fn a_ticket_is_redeemed_once() {
    let (tickets, store) = tickets(10);
    let ticket = tickets.issue(&ada(), at(0)).await.unwrap();
    assert_eq!(ticket.expose().len(), 43);
    assert_eq!(tickets.redeem(ticket.expose(), at(1)).await, Ok(ada()));
    let replayed = tickets.redeem(ticket.expose(), at(1)).await.unwrap_err();
    assert_eq!((replayed.code(), replayed.refusal().code()), ("ticket_unknown", "token_invalid"));
    assert!(store.is_empty());
}

#[tokio::test(start_paused = true)]
async fn of_many_who_redeem_a_ticket_at_once_one_gets_in() {
    let (tickets, _) = tickets(10);
    let ticket = tickets.issue(&ada(), at(0)).await.unwrap();
    let all = (0..50).map(|_| tickets.redeem(ticket.expose(), at(0)));
    let answers = futures_util::future::join_all(all).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_ticket_ends_after_its_time() {
    let (tickets, _) = tickets(10);
    let principal = Principal { expires_at: None, ..ada() };
    let in_time = tickets.issue(&principal, at(0)).await.unwrap();
    let too_late = tickets.issue(&principal, at(0)).await.unwrap();
    tokio::time::advance(TTL - Duration::from_millis(1)).await;
    assert_eq!(tickets.redeem(in_time.expose(), at(29)).await, Ok(principal));
    tokio::time::advance(Duration::from_millis(1)).await;
    assert_eq!(tickets.redeem(too_late.expose(), at(30)).await, Err(TicketError::Unknown));
}

#[tokio::test(start_paused = true)]
async fn a_ticket_does_not_outlive_its_token() {
    let (tickets, _) = tickets(10);
    let ticket = tickets.issue(&ada(), at(19)).await.unwrap();
    let refused = tickets.redeem(ticket.expose(), at(20)).await.unwrap_err();
    assert_eq!((refused.code(), refused.refusal().code()), ("ticket_token_expired", "token_expired"));
    assert_eq!(tickets.issue(&ada(), at(20)).await.unwrap_err(), TicketError::Expired);
}

#[tokio::test(start_paused = true)]
async fn tickets_are_bounded_and_old_ones_make_room() {
    let (tickets, store) = tickets(2);
    let principal = Principal { expires_at: None, ..ada() };
    tickets.issue(&principal, at(0)).await.unwrap();
    tickets.issue(&principal, at(0)).await.unwrap();
    let refused = tickets.issue(&principal, at(0)).await.unwrap_err();
    assert_eq!((refused.code(), refused.refusal().code()), ("tickets_full", "identity_unavailable"));
    tokio::time::advance(TTL).await;
    tickets.issue(&principal, at(30)).await.unwrap();
    assert_eq!(store.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn one_subject_cannot_take_the_places_of_all_others() {
    let tickets = Tickets::new(Arc::new(MemoryTicketStore::new(10)), TTL, 3);
    let ada = Principal { expires_at: None, ..ada() };
    let grace = Principal { subject: Some("grace".into()), ..ada.clone() };
    for _ in 0..3 {
        let ticket = tickets.issue(&ada, at(0)).await.unwrap();
        // It counts although it is used up.
        tickets.redeem(ticket.expose(), at(0)).await.unwrap();
    }
    let refused = tickets.issue(&ada, at(0)).await.unwrap_err();
    assert_eq!((refused.code(), refused.refusal().code()), ("tickets_subject_full", "too_many_tickets"));
    tickets.issue(&grace, at(0)).await.unwrap();
    tokio::time::advance(TTL).await;
    tickets.issue(&ada, at(30)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_never_was_a_ticket_is_refused() {
    let (tickets, store) = tickets(10);
    let ticket = tickets.issue(&ada(), at(0)).await.unwrap();
    let good = ticket.expose();
    // The last character of 43 holds four bits; another spelling of the same bytes is not taken.
    let respelled = {
        let (rest, last) = good.split_at(42);
        let next = (last.as_bytes()[0] + 1) as char;
        format!("{rest}{next}")
    };
    let attacks =
        ["", "x", &good[..42], &format!("{good}="), &format!(" {good}"), &"A".repeat(43), &respelled];
    for attack in attacks {
        assert_eq!(tickets.redeem(attack, at(0)).await, Err(TicketError::Unknown), "{attack:?}");
    }
    assert_eq!(tickets.redeem(&"A".repeat(1_000_000), at(0)).await, Err(TicketError::Unknown));
    assert_eq!(store.len(), 1);
    assert_eq!(tickets.redeem(good, at(0)).await, Ok(ada()));
}

#[tokio::test(start_paused = true)]
async fn neither_the_store_nor_a_print_shows_a_ticket() {
    let (tickets, store) = tickets(10);
    let ticket = tickets.issue(&ada(), at(0)).await.unwrap();
    assert_eq!(format!("{ticket:?}"), "[redacted]");
    let secret = decode_base64url(ticket.expose().as_bytes()).unwrap();
    assert!(store.lock().keys().all(|key| key.as_slice() != secret));
}

#[tokio::test(start_paused = true)]
async fn tickets_differ() {
    let (tickets, _) = tickets(100);
    let mut seen = std::collections::HashSet::new();
    for _ in 0..100 {
        assert!(seen.insert(tickets.issue(&ada(), at(0)).await.unwrap().expose().to_owned()));
    }
}
