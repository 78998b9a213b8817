use freshet_feed::ChannelName;
use jiff::{Timestamp, ToSpan};

use super::*;
use crate::sample::{message, noon};
use crate::store::Store;
use crate::{Config, Retention, connection};

fn request(rooms: &[&str], since: Option<Timestamp>) -> NewestByKey {
    let rooms = match rooms {
        [] => Rooms::All,
        rooms => Rooms::Only(rooms.iter().map(|room| (*room).into()).collect()),
    };
    NewestByKey { channel: ChannelName::new("stock").unwrap(), rooms, appended_since: since, max_keys: 100 }
}

#[test]
fn a_key_that_nobody_changed_lately_is_left_out() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join(connection::LOG_FILE);
    connection::prepare(&file).unwrap();
    let mut store = Store::open(&file, &Config::default(), &Retention::default()).unwrap();
    let of = |event_id: &str, room: &str, key: &str| message(event_id, "stock", Some(room), Some(key));
    store.append(&[of("1", "north", "a"), of("2", "north", "b"), of("3", "south", "b")], noon()).unwrap();
    store.append(&[of("4", "north", "b"), of("5", "south", "c")], noon() + 1.hours()).unwrap();
    let mut reader = connection::reader(&file).unwrap();
    let mut newest = |request: &NewestByKey| by_key(&reader.transaction().unwrap(), request).unwrap().offsets;
    assert_eq!(newest(&request(&[], None)), [1, 4, 5]);
    assert_eq!(newest(&request(&[], Some(noon()))), [1, 4, 5]);
    assert_eq!(newest(&request(&[], Some(noon() + 1.microseconds()))), [4, 5]);
    assert_eq!(newest(&request(&["south"], None)), [3, 5]);
    assert_eq!(newest(&request(&["south"], Some(noon() + 1.hours()))), [5]);
    assert_eq!(newest(&request(&["south"], Some(noon() + 2.hours()))), [0; 0]);
}

#[test]
fn it_jumps_from_key_to_key() {
    let connection = {
        let mut connection = rusqlite::Connection::open_in_memory().unwrap();
        crate::schema::migrate(&mut connection, crate::schema::STEPS, std::path::Path::new("test")).unwrap();
        connection
    };
    for (sql, seek) in [
        (BELOW_IN_CHANNEL, "SEARCH events USING INDEX events_by_key (channel_id=? AND event_key<?)"),
        (
            BELOW_IN_ROOM,
            "SEARCH events USING INDEX events_by_room_key (channel_id=? AND room=? AND event_key<?)",
        ),
    ] {
        let mut plan = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let mut rows = plan.raw_query();
        let step: String = rows.next().unwrap().unwrap().get(3).unwrap();
        assert_eq!(step, seek);
        assert!(rows.next().unwrap().is_none(), "it must not sort");
    }
}
