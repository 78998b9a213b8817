"""Sends events, one JSON object a line on standard input, to a STOMP broker.

    pip install stomp.py==9.0.0
    STOMP_PASSCODE=… python send_stomp.py broker.example.net 61613 freshet < events.ndjson

Each message is persistent, and the program waits for the broker's receipt: once it has ended with 0, the broker has
them all. After a failure send all of them again; Freshet recognises duplicates by `eventId`.
"""

from __future__ import annotations

import os
import sys
import threading

import stomp

DESTINATION = "/topic/ICEBERG_METADATA_EVENTS"
TIMEOUT_SECONDS = 30


class Receipts(stomp.ConnectionListener):
    """Waits for the broker's word on each message."""

    def __init__(self) -> None:
        self._arrived = threading.Condition()
        self._ids: set[str] = set()
        self._failure: str | None = None

    def on_receipt(self, frame: stomp.utils.Frame) -> None:
        with self._arrived:
            self._ids.add(frame.headers["receipt-id"])
            self._arrived.notify_all()

    def on_error(self, frame: stomp.utils.Frame) -> None:
        self._fail(frame.headers.get("message", "the broker refused a frame"))

    def on_disconnected(self) -> None:
        self._fail("the connection was lost")

    def _fail(self, reason: str) -> None:
        with self._arrived:
            self._failure = self._failure or reason
            self._arrived.notify_all()

    def wait_for(self, receipt: str) -> None:
        with self._arrived:
            self._arrived.wait_for(lambda: receipt in self._ids or self._failure, TIMEOUT_SECONDS)
            if receipt not in self._ids:
                raise SystemExit(f"not confirmed: {self._failure or 'no receipt in time'}")


def main() -> None:
    host, port, login = sys.argv[1:4]
    receipts = Receipts()
    # Without auto_content_length ActiveMQ takes the message as text; with it, as bytes. Freshet takes both.
    connection = stomp.Connection12([(host, int(port))], heartbeats=(10_000, 10_000))
    connection.set_listener("receipts", receipts)
    connection.connect(login, os.environ["STOMP_PASSCODE"], wait=True)
    number = 0
    for number, line in enumerate(filter(None, map(str.strip, sys.stdin)), start=1):
        connection.send(
            DESTINATION, line, content_type="application/json", headers={"persistent": "true", "receipt": str(number)}
        )
        receipts.wait_for(str(number))
    connection.disconnect()
    print(f"{number} events sent")


if __name__ == "__main__":
    main()
