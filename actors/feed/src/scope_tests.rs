use super::*;
use crate::channel::{Config, Format};
use crate::principal::Patterns;

fn channels() -> Channels {
    let json =
        |name: &str, read| Config { name: name.into(), format: Format::Json, read, ..Config::default() };
    Channels::new(&[
        json("open", Read::Public),
        json("members", Read::Authenticated),
        json("secret", Read::Granted),
        Config { room: "/tenant".into(), rooms_are_tenants: true, ..json("orders", Read::Authenticated) },
    ])
}

fn ada() -> Principal {
    Principal {
        subject: Some("ada".into()),
        tenant: Some("north".into()),
        reads: Patterns::new(["iceberg"]).unwrap(),
        ..Principal::default()
    }
}

fn outcome(principal: &Principal, names: &[&str], rooms: &[&str]) -> Result<Vec<(String, Rooms)>, Denied> {
    let scope = channels().scope(principal, names.iter().copied(), rooms.iter().copied())?;
    Ok(scope.channels().iter().map(|(name, rooms)| (name.to_string(), rooms.clone())).collect())
}

fn only(rooms: &[&str]) -> Rooms {
    Rooms::Only(rooms.iter().map(|room| (*room).into()).collect())
}

#[test]
fn a_channel_is_read_by_those_for_whom_it_is() {
    let unknown = Principal::default();
    let administrator = Principal { is_administrator: true, ..Principal::default() };
    for (principal, channel, may) in [
        (&unknown, "open", true),
        (&unknown, "members", false),
        (&unknown, "secret", false),
        (&unknown, "iceberg", false),
        (&ada(), "open", true),
        (&ada(), "members", true),
        (&ada(), "secret", false),
        (&ada(), "iceberg", true),
        (&administrator, "secret", true),
        (&Principal::everything(), "secret", true),
    ] {
        assert_eq!(outcome(principal, &[channel], &[]).is_ok(), may, "{channel}");
    }
    assert_eq!(outcome(&ada(), &[], &[]), Ok(vec![("iceberg".to_owned(), Rooms::All)]));
}

#[test]
fn what_is_not_yours_answers_like_what_does_not_exist() {
    let absent = outcome(&ada(), &["nowhere"], &[]);
    assert_eq!(absent, Err(Denied::UnknownChannel));
    assert_eq!(outcome(&ada(), &["secret"], &[]), absent);
    assert_eq!(outcome(&ada(), &["iceberg", "secret"], &[]), absent, "one of several is enough");
    for pattern in ["*", "secret*", "s?cret", "", "a,b"] {
        assert_eq!(outcome(&ada(), &[pattern], &[]), absent, "{pattern}");
    }
    let nowhere = outcome(&ada(), &["orders"], &["no-such-tenant"]);
    assert_eq!(nowhere, Err(Denied::UnknownRoom));
    assert_eq!(outcome(&ada(), &["orders"], &["south"]), nowhere);
}

#[test]
fn a_tenant_sees_its_own_room_and_no_pattern_reaches_another() {
    assert_eq!(outcome(&ada(), &["orders"], &[]), Ok(vec![("orders".to_owned(), only(&["north"]))]));
    assert_eq!(outcome(&ada(), &["orders"], &["north"]), outcome(&ada(), &["orders"], &[]));
    for rooms in [&["*"][..], &["north", "south"], &["nort?"], &["North"], &[""]] {
        assert_eq!(outcome(&ada(), &["orders"], rooms), Err(Denied::UnknownRoom), "{rooms:?}");
    }
    let homeless = Principal { tenant: None, ..ada() };
    assert_eq!(outcome(&homeless, &["orders"], &[]), Err(Denied::UnknownChannel));
    let administrator = Principal { is_administrator: true, ..ada() };
    assert_eq!(outcome(&administrator, &["orders"], &[]), Ok(vec![("orders".to_owned(), Rooms::All)]));
    assert_eq!(
        outcome(&administrator, &["orders"], &["south", "east", "south"]),
        Ok(vec![("orders".to_owned(), only(&["east", "south"]))])
    );
}

#[test]
fn rooms_hold_what_they_name() {
    let rooms = only(&["east", "north"]);
    for (room, held) in [(Some("north"), true), (Some("south"), false), (Some(""), false), (None, false)] {
        assert_eq!(rooms.hold(room), held, "{room:?}");
    }
    assert!(Rooms::All.hold(None));
}

#[test]
fn a_request_is_bounded() {
    let names: Vec<String> = (0..=MAX_CHANNELS).map(|number| format!("c{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    assert_eq!(outcome(&ada(), &names, &[]), Err(Denied::TooMany));
    let rooms: Vec<String> = (0..=MAX_ROOMS).map(|number| format!("r{number}")).collect();
    let rooms: Vec<&str> = rooms.iter().map(String::as_str).collect();
    assert_eq!(outcome(&ada(), &["iceberg"], &rooms), Err(Denied::TooMany));
    let long = "x".repeat(MAX_ROOM_BYTES + 1);
    assert_eq!(outcome(&ada(), &["iceberg"], &[&long]), Err(Denied::UnknownRoom));
}

#[test]
fn a_tenant_sends_into_its_own_room_only() {
    let channels = channels();
    let orders = channels.get("orders").unwrap();
    let grant = |tenant: Option<&str>| Principal {
        tenant: tenant.map(Into::into),
        publishes: Patterns::everything(),
        ..Principal::default()
    };
    for (principal, room, expected) in [
        (grant(Some("north")), Some("north"), Ok(())),
        (grant(Some("north")), Some("south"), Err(Denied::UnknownRoom)),
        (grant(Some("north")), None, Err(Denied::UnknownRoom)),
        (grant(None), Some("north"), Err(Denied::UnknownRoom)),
        (grant(None), None, Err(Denied::UnknownRoom)),
        (
            Principal { publishes: Patterns::default(), ..grant(Some("north")) },
            Some("north"),
            Err(Denied::UnknownChannel),
        ),
        (Principal::everything(), Some("south"), Ok(())),
        (Principal::everything(), None, Ok(())),
    ] {
        assert_eq!(may_publish(&principal, orders, room), expected, "{principal:?} {room:?}");
    }
    let iceberg = channels.iceberg();
    assert_eq!(may_publish(&grant(None), &iceberg, None), Ok(()));
}
