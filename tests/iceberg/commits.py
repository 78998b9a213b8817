#!/usr/bin/env python3
"""Makes real Iceberg commits and prints the event of each, one JSON object a line.

    commits.py --warehouse DIR --tables 3 --commits 10

The catalog (SQLite) and the warehouse lie in DIR. Each table gets at least the given number of snapshots: appends,
new columns, overwrites (two snapshots each where rows are replaced) and deletes. The data are the same in every run;
ids and times are new. The events are made by the example that docs/sending-events.md shows to the users.
"""

from __future__ import annotations

import argparse
import json
import sys
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import And, BooleanExpression, GreaterThanOrEqual, LessThan
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    NestedField,
    StringType,
    TimestamptzType,
)

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "docs" / "examples"))

from iceberg_events import Reported, commit_event  # noqa: E402

APPLICATION = "pyiceberg-commits"
CATALOG = "production"
NAMESPACE = "sales"
NAMES = ("orders", "customers", "daily_user_activity", "stock_levels", "page_views")
EPOCH = datetime(2026, 1, 1, tzinfo=timezone.utc)
ROWS_PER_APPEND = 5

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "name", StringType(), required=False),
    NestedField(3, "amount", DecimalType(12, 2), required=False),
    NestedField(4, "score", DoubleType(), required=False),
    NestedField(5, "active", BooleanType(), required=False),
    NestedField(6, "day", DateType(), required=False),
    NestedField(7, "at", TimestamptzType(), required=False),
)


def rows(table: Table, first_id: int, count: int) -> pa.Table:
    """Rows with ids from `first_id` on, for whatever columns the table has now."""
    ids = range(first_id, first_id + count)
    values = {
        "id": list(ids),
        "name": [f"row {number} – ü" for number in ids],
        "amount": [Decimal(number) / 100 for number in ids],
        "score": [number * 0.5 for number in ids],
        "active": [number % 2 == 0 for number in ids],
        "day": [(EPOCH + timedelta(days=number)).date() for number in ids],
        "at": [EPOCH + timedelta(minutes=number) for number in ids],
    }
    schema = table.schema().as_arrow()
    added = {field.name: [f"{field.name} {number}" for number in ids] for field in schema if field.name not in values}
    return pa.table({**values, **added}, schema=schema)


def ids_from(first_id: int, count: int) -> BooleanExpression:
    return And(GreaterThanOrEqual("id", first_id), LessThan("id", first_id + count))


def commit(table: Table, round_number: int) -> None:
    """Commits once (the schema once more before it): mostly appends, and each fifth round something else."""
    first_id = round_number * ROWS_PER_APPEND
    match round_number % 5:
        case 2:
            with table.update_schema() as update:
                update.add_column(f"note_{round_number}", StringType())
            table.append(rows(table, first_id, ROWS_PER_APPEND))
        case 3:
            # A part of a file's rows goes: PyIceberg writes the others anew, in a snapshot of its own.
            table.overwrite(rows(table, first_id, 2), overwrite_filter=ids_from(first_id - 3 * ROWS_PER_APPEND, 2))
        case 4:
            # All rows of one file go, so that the file is dropped.
            table.delete(ids_from(first_id - 3 * ROWS_PER_APPEND, ROWS_PER_APPEND))
        case _:
            table.append(rows(table, first_id, ROWS_PER_APPEND))


def main() -> None:
    parser = argparse.ArgumentParser(description="Makes real Iceberg commits and prints their events.")
    parser.add_argument("--warehouse", type=Path, required=True, help="a directory for the catalog and the data")
    parser.add_argument("--tables", type=int, default=3, help=f"how many tables, at most {len(NAMES)}")
    parser.add_argument("--commits", type=int, default=10, help="how many commits to each table")
    arguments = parser.parse_args()
    if not 1 <= arguments.tables <= len(NAMES):
        parser.error(f"--tables must be between 1 and {len(NAMES)}")
    if arguments.commits < 1:
        parser.error("--commits must be at least 1")

    warehouse = arguments.warehouse.resolve()
    warehouse.mkdir(parents=True, exist_ok=True)
    catalog = SqlCatalog(CATALOG, uri=f"sqlite:///{warehouse}/catalog.db", warehouse=warehouse.as_uri())
    catalog.create_namespace(NAMESPACE)
    tables = [catalog.create_table(f"{NAMESPACE}.{name}", SCHEMA) for name in NAMES[: arguments.tables]]
    reported = Reported()
    for round_number in range(arguments.commits):
        for table in tables:
            commit(table, round_number)
            name = ".".join((CATALOG, *table.name()))
            snapshots = reported.missing(table)
            reported.add(table, snapshots)
            for snapshot in snapshots:
                event = commit_event(APPLICATION, name, table, snapshot)
                print(json.dumps(event, separators=(",", ":"), ensure_ascii=False))


if __name__ == "__main__":
    main()
