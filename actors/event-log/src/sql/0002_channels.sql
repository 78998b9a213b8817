-- Texts that many events share: the names of channels, and the names that events have on the wire.
CREATE TABLE labels (
    id INTEGER PRIMARY KEY,
    text TEXT NOT NULL UNIQUE
);
-- All that version 1 holds are table commits.
INSERT INTO labels VALUES (1, 'iceberg'), (2, 'iceberg-mutation');

-- Tables that the log remembers: one row for each table of each room of each channel, so that what is counted of a
-- table never mixes what different readers may see.
CREATE TABLE tables_of_rooms (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    channel_id INTEGER NOT NULL,
    room TEXT,
    -- Of its last event, and of its last commit that succeeded.
    last_offset INTEGER NOT NULL,
    last_commit_offset INTEGER,
    -- Microseconds since 1970, by the event's own time.
    last_schema_change INTEGER
);
INSERT INTO tables_of_rooms SELECT id, name, 1, NULL, last_offset, last_commit_offset, last_schema_change FROM tables;
DROP TABLE tables;
ALTER TABLE tables_of_rooms RENAME TO tables;
CREATE INDEX tables_by_name ON tables (name, channel_id, room);

-- What is known of each event. The row outlives its body until the event need not be recognised any more.
-- NULL is unknown.
CREATE TABLE events_of_channels (
    offset INTEGER PRIMARY KEY,
    -- Microseconds since 1970, and the nanoseconds beyond them.
    event_time INTEGER NOT NULL,
    event_time_nanos INTEGER NOT NULL,
    received_at INTEGER NOT NULL,
    channel_id INTEGER NOT NULL,
    name_id INTEGER NOT NULL,
    -- Of commits only, as all up to the operation.
    table_id INTEGER,
    schema_changed INTEGER,
    snapshot_id INTEGER,
    added_records INTEGER,
    deleted_records INTEGER,
    added_data_files INTEGER,
    deleted_data_files INTEGER,
    event_type TEXT,
    operation TEXT,
    application TEXT,
    -- The 16 bytes of a UUID in its canonical form, the text of any other id. NULL when the event is older than its
    -- channel shows: of such an event nothing is left but its place.
    event_id,
    -- Only while the event is held.
    event_key TEXT,
    room TEXT
);
INSERT INTO events_of_channels
    SELECT offset, event_time, event_time_nanos, received_at, 1, 2, table_id, schema_changed, snapshot_id,
        added_records, deleted_records, added_data_files, deleted_data_files, event_type, operation, application,
        event_id,
        CASE WHEN offset >= (SELECT min(offset) FROM bodies)
            THEN (SELECT name FROM tables WHERE id = table_id) END,
        NULL
    FROM events;
DROP TABLE events;
ALTER TABLE events_of_channels RENAME TO events;
CREATE INDEX events_by_id ON events (event_id, channel_id) WHERE event_id IS NOT NULL;
CREATE INDEX events_by_commit ON events (table_id, snapshot_id) WHERE snapshot_id IS NOT NULL;
CREATE INDEX events_by_table ON events (table_id) WHERE table_id IS NOT NULL;
CREATE INDEX events_by_time ON events (table_id, event_time, added_records, added_data_files)
    WHERE event_type = 'COMMIT_SUCCESS';
-- Each ends with the offset, as every index does.
CREATE INDEX events_by_channel ON events (channel_id) WHERE event_id IS NOT NULL;
CREATE INDEX events_by_room ON events (channel_id, room) WHERE room IS NOT NULL;
CREATE INDEX events_by_key ON events (channel_id, event_key) WHERE event_key IS NOT NULL;
CREATE INDEX events_by_room_key ON events (channel_id, room, event_key)
    WHERE room IS NOT NULL AND event_key IS NOT NULL;
