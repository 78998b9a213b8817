"""Events for Freshet from a PyIceberg job.

    from iceberg_events import EventFeed

    feed = EventFeed("http://127.0.0.1:8080", application="nightly-orders")
    table.append(rows)
    feed.send("production.sales.orders", table)

`send` reports each snapshot of the last day once. An event's id follows from the table and the snapshot, so what a
restarted job sends again is recognised as a duplicate.
"""

from __future__ import annotations

import json
import urllib.request
import uuid
from datetime import datetime, timedelta, timezone
from typing import Any

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

EVENTS_PER_REQUEST = 500


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


class Reported:
    """Which snapshots were reported already."""

    def __init__(self) -> None:
        self._known: set[tuple[uuid.UUID, int]] = set()

    def missing(self, table: Table) -> list[Snapshot]:
        """The snapshots that were not, oldest first."""
        by_age = sorted(table.metadata.snapshots, key=lambda one: one.sequence_number or 0)
        return [one for one in by_age if (table.metadata.table_uuid, one.snapshot_id) not in self._known]

    def add(self, table: Table, snapshots: list[Snapshot]) -> None:
        self._known.update((table.metadata.table_uuid, one.snapshot_id) for one in snapshots)


class EventFeed:
    """Sends the commits of a job to Freshet's HTTP ingest."""

    def __init__(
        self,
        url: str,
        application: str,
        timeout_seconds: float = 30.0,
        max_age: timedelta = timedelta(days=1),
    ) -> None:
        self._url = url.rstrip("/") + "/api/v2/events"
        self._application = application
        self._timeout_seconds = timeout_seconds
        self._max_age = max_age
        self._reported = Reported()

    def send(self, name: str, table: Table) -> list[dict[str, Any]]:
        """Sends what the table committed since the last call; gives one result for each event.

        An error leaves everything as it was: call again, and nothing is lost or shown twice.
        """
        oldest_ms = (datetime.now(timezone.utc) - self._max_age).timestamp() * 1000
        snapshots = [one for one in self._reported.missing(table) if one.timestamp_ms >= oldest_ms]
        results: list[dict[str, Any]] = []
        for start in range(0, len(snapshots), EVENTS_PER_REQUEST):
            part = snapshots[start : start + EVENTS_PER_REQUEST]
            results += self._post([commit_event(self._application, name, table, one) for one in part])
            self._reported.add(table, part)
        return results

    def _post(self, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        request = urllib.request.Request(
            self._url,
            data=json.dumps(events, allow_nan=False).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=self._timeout_seconds) as answer:
            return json.load(answer)["results"]
