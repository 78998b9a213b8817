-- One row: the log itself.
CREATE TABLE log (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    -- The bits of the unsigned epoch.
    epoch INTEGER NOT NULL,
    -- The newest offset that was ever given; it outlives its event.
    last_offset INTEGER NOT NULL,
    -- Bytes of the bodies that are held.
    held_bytes INTEGER NOT NULL,
    -- 1 after an orderly stop, 0 while a writer is at work.
    clean INTEGER NOT NULL,
    -- Written and cleared to find out whether an outage is over.
    probe BLOB
);

-- Tables that the log remembers.
CREATE TABLE tables (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    -- Of its last event, and of its last commit that succeeded.
    last_offset INTEGER NOT NULL,
    last_commit_offset INTEGER,
    -- Microseconds since 1970, by the event's own time.
    last_schema_change INTEGER
);

-- What is known of each event. The row outlives its body until the event need not be recognised any more.
-- NULL is unknown.
CREATE TABLE events (
    offset INTEGER PRIMARY KEY,
    -- Microseconds since 1970, and the nanoseconds beyond them.
    event_time INTEGER NOT NULL,
    event_time_nanos INTEGER NOT NULL,
    received_at INTEGER NOT NULL,
    table_id INTEGER NOT NULL,
    schema_changed INTEGER,
    snapshot_id INTEGER,
    added_records INTEGER,
    deleted_records INTEGER,
    added_data_files INTEGER,
    deleted_data_files INTEGER,
    event_type TEXT NOT NULL,
    operation TEXT,
    application TEXT,
    -- The 16 bytes of a UUID in its canonical form, the text of any other id.
    event_id NOT NULL
);
CREATE UNIQUE INDEX events_by_id ON events (event_id);
CREATE INDEX events_by_commit ON events (table_id, snapshot_id) WHERE snapshot_id IS NOT NULL;
CREATE INDEX events_by_table ON events (table_id);
CREATE INDEX events_by_time ON events (table_id, event_time, added_records, added_data_files)
    WHERE event_type = 'COMMIT_SUCCESS';

-- Bodies of the events that are held.
CREATE TABLE bodies (
    offset INTEGER PRIMARY KEY,
    body BLOB NOT NULL
);

-- Words of the events that are held. They come and go by offset alone, without positions and without a copy
-- of the text; `ascii` takes them as they were prepared, one word after the other.
CREATE VIRTUAL TABLE event_words USING fts5 (
    words, content = '', contentless_delete = 1, detail = none, tokenize = 'ascii'
);
-- Fewer and larger merges of the index than by default: an append writes less, a search opens a few more segments.
-- The second number is beyond the first, so that a merge is never done all at once.
INSERT INTO event_words (event_words, rank) VALUES ('automerge', 16), ('crisismerge', 64);
