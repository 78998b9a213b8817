//! Commits as a real lake makes them: several tables, several writers, running totals, maintenance and now
//! and then a schema change. Pure: the same seed and times give the same events.

use jiff::Timestamp;
use serde::Serialize;
use uuid::Uuid;

/// One table of the demo, and how it is written to.
struct Profile {
    table: &'static str,
    application: &'static str,
    operations: &'static [(&'static str, u32)],
    records_per_file: u64,
    most_files: u64,
    new_columns: &'static [(&'static str, &'static str)],
}

const PROFILES: [Profile; 5] = [
    Profile {
        table: "production.sales.orders",
        application: "flink-orders",
        operations: &[("append", 12), ("replace", 1)],
        records_per_file: 1_800,
        most_files: 4,
        new_columns: &[("discount", "decimal(9,2)"), ("coupon_code", "string"), ("placed_by", "string")],
    },
    Profile {
        table: "production.reporting.daily_user_activity",
        application: "spark-daily-activity",
        operations: &[("append", 4), ("overwrite", 2)],
        records_per_file: 123_000,
        most_files: 128,
        new_columns: &[("sessions", "long"), ("first_seen", "timestamptz")],
    },
    Profile {
        table: "production.inventory.stock_levels",
        application: "debezium-inventory",
        operations: &[("overwrite", 5), ("delete", 2), ("append", 3)],
        records_per_file: 420,
        most_files: 3,
        new_columns: &[("warehouse", "string"), ("reserved", "int")],
    },
    Profile {
        table: "analytics.web.page_views",
        application: "flink-clickstream",
        operations: &[("append", 20), ("replace", 1)],
        records_per_file: 56_000,
        most_files: 12,
        new_columns: &[("country", "string"), ("consent", "boolean"), ("viewport", "struct<w:int,h:int>")],
    },
    Profile {
        table: "staging.finance.ledger_entries",
        application: "trino-backfill",
        operations: &[("append", 5), ("delete", 1)],
        records_per_file: 9_300,
        most_files: 6,
        new_columns: &[("cost_centre", "string")],
    },
];

/// One commit in this many changes the schema, while the table still has columns to come.
const SCHEMA_CHANGE_EVERY: u32 = 9;

/// What a table has come to.
#[derive(Default)]
struct TableState {
    snapshot_id: Option<i64>,
    sequence_number: u64,
    schema_id: usize,
    records: u64,
    data_files: u64,
    bytes: u64,
}

/// A source of commits that never ends.
pub struct Scenario {
    random: fastrand::Rng,
    tables: [TableState; PROFILES.len()],
    made: u64,
}

/// One commit, ready to send, and what a person is told about it.
#[derive(Debug)]
pub struct Commit {
    /// The event as JSON.
    pub body: Vec<u8>,
    /// Its table.
    pub table: &'static str,
    /// Its operation.
    pub operation: &'static str,
    /// Rows that it adds.
    pub added_records: u64,
    /// Whether it changes the schema.
    pub schema_changed: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body {
    event_id: String,
    event_timestamp: String,
    source_application: &'static str,
    table_identifier: &'static str,
    event_type: &'static str,
    payload: Payload,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Payload {
    operation: &'static str,
    snapshot_id: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_snapshot_id: Option<i64>,
    sequence_number: u64,
    schema_id: usize,
    summary: Summary,
    manifest_list: String,
    schema_changed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    schema_change: Option<SchemaChange>,
}

/// The names are those of the Iceberg specification; every value is a string there.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Summary {
    #[serde(skip_serializing_if = "Option::is_none")]
    added_data_files: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    added_records: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    added_files_size: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deleted_data_files: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deleted_records: Option<String>,
    changed_partition_count: String,
    total_records: String,
    total_data_files: String,
    total_files_size: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SchemaChange {
    added_columns: Vec<Column>,
}

#[derive(Serialize)]
struct Column {
    name: &'static str,
    r#type: &'static str,
}

impl Scenario {
    /// A scenario that is decided by its seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { random: fastrand::Rng::with_seed(seed), tables: Default::default(), made: 0 }
    }

    /// The next commit, made at the given time.
    ///
    /// # Errors
    /// When it cannot be written as JSON, which no commit of this scenario comes to.
    pub fn next_commit(&mut self, at: Timestamp) -> Result<Commit, serde_json::Error> {
        // The first round visits each table once, so that a newcomer sees them all at once.
        let index = usize::try_from(self.made).ok().filter(|made| *made < PROFILES.len());
        let index = index.unwrap_or_else(|| self.random.usize(..PROFILES.len()));
        self.made += 1;
        let profile = &PROFILES[index];
        let operation = if self.tables[index].records == 0 { "append" } else { self.operation(profile) };
        let new_column = (self.made > PROFILES.len() as u64 && self.random.u32(..SCHEMA_CHANGE_EVERY) == 0)
            .then(|| profile.new_columns.get(self.tables[index].schema_id))
            .flatten();

        let files = self.random.u64(1..=profile.most_files);
        let records = files * profile.records_per_file * self.random.u64(60..140) / 100;
        let bytes = records * self.random.u64(90..160);
        // An identifier of the real size: it does not fit the 53 bits of a JavaScript number.
        let snapshot_id = self.random.i64(1 << 53..i64::MAX);
        let id = Uuid::from_u128(self.random.u128(..));

        let state = &mut self.tables[index];
        let (adds, removes) = match operation {
            "append" => (true, false),
            "delete" => (false, true),
            _ => (true, true),
        };
        // A replace rewrites the same rows into fewer files; the other removals take a part of the table.
        let removed_records = match (removes, operation) {
            (false, _) => 0,
            (true, "replace") => records.min(state.records),
            (true, _) => (records / 2).min(state.records),
        };
        let removed_files = if removes { files.min(state.data_files) } else { 0 };
        let removed_bytes = if removes { (bytes / 2).min(state.bytes) } else { 0 };
        let added_records = match (adds, operation) {
            (false, _) => 0,
            (true, "replace") => removed_records,
            (true, _) => records,
        };
        let added_files = u64::from(adds) * files.div_ceil(if operation == "replace" { 4 } else { 1 });
        state.records = state.records + added_records - removed_records;
        state.data_files = state.data_files + added_files - removed_files;
        state.bytes = state.bytes + u64::from(adds) * bytes - removed_bytes;
        state.sequence_number += 1;
        state.schema_id += usize::from(new_column.is_some());
        let parent_snapshot_id = state.snapshot_id.replace(snapshot_id);

        let said = |said: bool, count: u64| said.then(|| count.to_string());
        let (_, name) = profile.table.split_once('.').unwrap_or(("", profile.table));
        let body = Body {
            event_id: uuid::Builder::from_random_bytes(id.into_bytes()).into_uuid().to_string(),
            event_timestamp: format!("{at:.3}"),
            source_application: profile.application,
            table_identifier: profile.table,
            event_type: "COMMIT_SUCCESS",
            payload: Payload {
                operation,
                snapshot_id,
                parent_snapshot_id,
                sequence_number: state.sequence_number,
                schema_id: state.schema_id,
                summary: Summary {
                    added_data_files: said(adds, added_files),
                    added_records: said(adds, added_records),
                    added_files_size: said(adds, bytes),
                    deleted_data_files: said(removes, removed_files),
                    deleted_records: said(removes, removed_records),
                    changed_partition_count: files.min(31).to_string(),
                    total_records: state.records.to_string(),
                    total_data_files: state.data_files.to_string(),
                    total_files_size: state.bytes.to_string(),
                },
                manifest_list: format!(
                    "s3://lake/{}/metadata/snap-{snapshot_id}-1-{id}.avro",
                    name.replace('.', "/")
                ),
                schema_changed: new_column.is_some(),
                schema_change: new_column
                    .map(|(name, kind)| SchemaChange { added_columns: vec![Column { name, r#type: kind }] }),
            },
        };
        Ok(Commit {
            body: serde_json::to_vec(&body)?,
            table: profile.table,
            operation,
            added_records,
            schema_changed: new_column.is_some(),
        })
    }

    fn operation(&mut self, profile: &Profile) -> &'static str {
        let total: u32 = profile.operations.iter().map(|(_, weight)| weight).sum();
        let mut drawn = self.random.u32(..total);
        for (operation, weight) in profile.operations {
            match drawn.checked_sub(*weight) {
                Some(rest) => drawn = rest,
                None => return operation,
            }
        }
        "append"
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn commits(seed: u64, count: usize) -> Vec<Commit> {
        let mut scenario = Scenario::new(seed);
        let at: Timestamp = "2026-01-02T03:04:05.678901Z".parse().unwrap();
        (0..count).map(|_| scenario.next_commit(at).unwrap()).collect()
    }

    #[test]
    fn the_first_round_shows_every_table() {
        let tables: HashSet<_> = commits(1, PROFILES.len()).iter().map(|commit| commit.table).collect();
        assert_eq!(tables.len(), PROFILES.len());
    }

    #[test]
    fn an_hour_of_commits_holds_every_operation_and_schema_changes() {
        let commits = commits(2, 3_600);
        let operations: HashSet<_> = commits.iter().map(|commit| commit.operation).collect();
        assert_eq!(operations, HashSet::from(["append", "overwrite", "delete", "replace"]));
        assert!(commits.iter().any(|commit| commit.schema_changed));
    }

    #[test]
    fn ids_are_distinct_and_larger_than_a_double_can_hold() {
        let mut seen = HashSet::new();
        for commit in commits(3, 1_000) {
            let body: serde_json::Value = serde_json::from_slice(&commit.body).unwrap();
            let snapshot_id = body["payload"]["snapshotId"].as_i64().unwrap();
            assert!(snapshot_id >= 1 << 53);
            assert!(seen.insert(snapshot_id));
            assert!(body["eventTimestamp"].as_str().unwrap().ends_with(".678Z"));
        }
    }

    #[test]
    fn totals_follow_from_the_commits() {
        let mut totals = std::collections::HashMap::<String, i128>::new();
        for commit in commits(4, 2_000) {
            let body: serde_json::Value = serde_json::from_slice(&commit.body).unwrap();
            let summary = &body["payload"]["summary"];
            let count = |name: &str| summary[name].as_str().map_or(0, |text| text.parse::<i128>().unwrap());
            let total = totals.entry(commit.table.to_owned()).or_default();
            *total += count("added-records") - count("deleted-records");
            assert_eq!(count("total-records"), *total);
        }
    }
}
