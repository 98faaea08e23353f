"""Has a broker kill itself at a point of a transaction: what Python runs first where this folder is on PYTHONPATH.

CRASH_AT names the point. Nothing of the product knows of it: its functions are wrapped here.
"""

import os
import signal
from collections.abc import Callable
from typing import Any, NoReturn


def die(*_: Any) -> NoReturn:
    """End this process as kill -9 does."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("SIGKILL has been ignored")


def wrap(owner: type, name: str, wrapper: Callable[..., Any]) -> None:
    """Put a function in place of a method; it gets the original first."""
    original = getattr(owner, name)
    setattr(owner, name, lambda *arguments, **named: wrapper(original, *arguments, **named))


def state_is(values: Any, wanted: str) -> bool:
    """Whether a coordinator's write takes an id to a state."""
    from cluster.coordinator.transactions.state_records import peek_state

    return any(value is not None and peek_state(value).kafka_name == wanted for value in values.values())


def after_append(wanted: str) -> None:
    """Die when a record of a state is in the log, and nobody else has it."""
    from cluster.coordinator.transactions.state_log import StateLog

    def append(original: Callable[..., Any], log: Any, partition: Any, values: Any, *rest: Any) -> None:
        original(log, partition, values, *rest)
        if state_is(values, wanted):
            die()

    wrap(StateLog, "append", append)


def before_answer(wanted: str) -> None:
    """Die when a record of a state is replicated, before anybody is told."""
    from cluster.coordinator.transactions.state_log import StateLog

    def append(
        original: Callable[..., Any], log: Any, partition: Any, values: Any, timeout_ms: int, on_done: Any
    ) -> None:
        original(log, partition, values, timeout_ms, die if state_is(values, wanted) else on_done)

    wrap(StateLog, "append", append)


def after_first_marker() -> None:
    """Die when one partition of a transaction has its marker and others have not."""
    from cluster.coordinator.transactions.marker_sender import MarkerSender

    def acknowledge(original: Callable[..., Any], sender: Any, marker: Any) -> None:
        original(sender, marker)
        if marker.completion.transaction.unmarked:
            die()

    wrap(MarkerSender, "_acknowledge", acknowledge)


def before_complete() -> None:
    """Die when every partition has its marker, before the log says so."""
    from cluster.coordinator.transactions.marker_sender import MarkerSender

    wrap(MarkerSender, "_complete", die)


def after_marker_append() -> None:
    """Die as the leader of a partition whose log has the marker, and no other replica's."""
    from cluster.coordinator.transactions.marker_writes import MarkerWrites

    def write(original: Callable[..., Any], *arguments: Any) -> None:
        original(*arguments)
        die()

    wrap(MarkerWrites, "_write", write)


def before_transaction_index() -> None:
    """Die between a log and its index of aborted transactions."""
    from storage.transaction_index import TransactionIndex

    wrap(TransactionIndex, "append", die)


def before_offsets_are_visible() -> None:
    """Die as a group's coordinator whose log has the marker on all replicas, before the offsets take effect."""
    from cluster.coordinator.offsets_log import OffsetsLog

    def append_marker(
        original: Callable[..., Any], log: Any, partition: Any, marker: Any, on_done: Any
    ) -> None:
        original(log, partition, marker, die)

    wrap(OffsetsLog, "append_marker", append_marker)


def after_offsets_append() -> None:
    """Die as a group's coordinator whose log has a transaction's offsets, before the client is answered."""
    from cluster.coordinator.offsets_log import OffsetsLog

    def append(
        original: Callable[..., Any],
        log: Any,
        partition: Any,
        records: Any,
        on_done: Any,
        writer: Any = None,
        *rest: Any,
    ) -> None:
        original(log, partition, records, on_done, writer, *rest)
        if writer is not None:
            die()

    wrap(OffsetsLog, "append", append)


POINTS: dict[str, Callable[[], None]] = {
    "ongoing_appended": lambda: after_append("Ongoing"),
    "commit_appended": lambda: after_append("PrepareCommit"),
    "abort_appended": lambda: after_append("PrepareAbort"),
    "commit_replicated": lambda: before_answer("PrepareCommit"),
    "first_marker_written": after_first_marker,
    "last_marker_written": before_complete,
    "complete_appended": lambda: after_append("CompleteCommit"),
    "marker_appended": after_marker_append,
    "abort_marker_without_index": before_transaction_index,
    "offsets_held": before_offsets_are_visible,
    "offsets_appended": after_offsets_append,
}

if os.environ.get("CRASH_AT"):
    POINTS[os.environ["CRASH_AT"]]()
