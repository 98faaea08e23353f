"""Functions that look at what passes: plain ones, called in the order they were given.

One that raises is logged, and the record as it was before goes on.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ottla.client.errors import ClientError
from ottla.client.producer_batch import Acknowledged
from wire.records.record import Header

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OutgoingRecord:
    """A record as the user gave it, before it is encoded; an interceptor may return a changed one."""

    topic: str
    key: Any
    value: Any
    headers: Sequence[Header] = ()
    partition: int | None = None
    timestamp: int | None = None


OnSend = Callable[[OutgoingRecord], OutgoingRecord | None]
"""Returns the record to send, or None to drop it."""
OnAcknowledged = Callable[[Acknowledged, ClientError | None], None]
"""Gets the places of a batch's records, made on access; where it failed, none and the error."""


def intercept_send(interceptors: Sequence[OnSend], record: OutgoingRecord) -> OutgoingRecord | None:
    """Pass a record through interceptors; None where one of them drops it."""
    for each in interceptors:
        try:
            changed = each(record)
        except Exception:  # noqa: BLE001 - users' code, whatever it raises: the record goes on
            _log.exception("the interceptor %r failed; the record goes on as it was", each)
            continue
        if changed is None:
            return None
        record = changed
    return record


def notify(interceptors: Sequence[Callable[..., None]], *arguments: Any) -> None:
    """Call observers one after the other."""
    for each in interceptors:
        try:
            each(*arguments)
        except Exception:  # noqa: BLE001 - users' code, whatever it raises
            _log.exception("the interceptor %r failed", each)
