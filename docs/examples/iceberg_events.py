"""Events for Freshet from a PyIceberg job.

    from iceberg_events import EventFeed

    feed = EventFeed("http://127.0.0.1:8080", application="nightly-orders")
    table.append(rows)
    feed.send("production.sales.orders", table)

`send` reports each snapshot of the table once: those that a job made before it called are sent too, and a second
call sends nothing new. An event's id follows from the table and the snapshot, so an event that is sent again after
a network error is recognised as a duplicate.
"""

from __future__ import annotations

import json
import urllib.request
import uuid
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot


def commit_event(application: str, name: str, table: Table, snapshot: Snapshot) -> dict[str, Any]:
    """The event of one commit. `name` is the table as dashboards show it: catalog, namespaces and name."""
    metadata = table.metadata
    parent = metadata.snapshot_by_id(snapshot.parent_snapshot_id) if snapshot.parent_snapshot_id else None
    timestamp = datetime.fromtimestamp(snapshot.timestamp_ms / 1000, timezone.utc)
    summary = snapshot.summary
    payload: dict[str, Any] = {
        "operation": summary.operation.value if summary else None,
        # A Python integer is written digit by digit: 64 bits stay exact.
        "snapshotId": snapshot.snapshot_id,
        "parentSnapshotId": snapshot.parent_snapshot_id,
        "sequenceNumber": snapshot.sequence_number,
        "schemaId": snapshot.schema_id,
        # The summary as Iceberg keeps it: every value is a string, and what is absent is unknown.
        "summary": dict(summary.additional_properties) if summary else {},
        "manifestList": snapshot.manifest_list,
        # A schema alone makes no snapshot: it shows at the first commit that was written with it.
        "schemaChanged": parent is not None and parent.schema_id != snapshot.schema_id,
    }
    return {
        "eventId": str(uuid.uuid5(metadata.table_uuid, str(snapshot.snapshot_id))),
        "eventTimestamp": timestamp.strftime("%Y-%m-%dT%H:%M:%S.") + f"{snapshot.timestamp_ms % 1000:03d}Z",
        "sourceApplication": application,
        "tableIdentifier": name,
        "eventType": "COMMIT_SUCCESS",
        "payload": {field: value for field, value in payload.items() if value is not None},
    }


class NewSnapshots:
    """The snapshots of tables that were not seen before, oldest first."""

    def __init__(self) -> None:
        self._seen: set[tuple[uuid.UUID, int]] = set()

    def of(self, table: Table) -> Iterator[Snapshot]:
        for snapshot in sorted(table.metadata.snapshots, key=lambda one: one.sequence_number or 0):
            key = (table.metadata.table_uuid, snapshot.snapshot_id)
            if key not in self._seen:
                self._seen.add(key)
                yield snapshot


class EventFeed:
    """Sends the commits of a job to Freshet's HTTP ingest."""

    def __init__(self, url: str, application: str, timeout_seconds: float = 10.0) -> None:
        self._url = url.rstrip("/") + "/api/v2/events"
        self._application = application
        self._timeout_seconds = timeout_seconds
        self._new_snapshots = NewSnapshots()

    def send(self, name: str, table: Table) -> dict[str, Any]:
        """Sends what the table committed since the last call; gives the answer, one result for each event."""
        events = [commit_event(self._application, name, table, new) for new in self._new_snapshots.of(table)]
        if not events:
            return {"results": []}
        request = urllib.request.Request(
            self._url,
            data=json.dumps(events, allow_nan=False).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=self._timeout_seconds) as answer:
            return json.load(answer)
