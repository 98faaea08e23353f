"""Makes a broker kill itself at a point of a transaction.

Python imports this file first in every process with this folder on PYTHONPATH.

CRASH_DIRECTORY names the folder where a test arms a point, by a file of that name. The first broker that reaches the
point renames the file, which shows that it did, and dies. The product does not know of this: its functions are wrapped
here, in every process of the command line, of which a broker is a fork.
"""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

_DIRECTORY = Path(os.environ.get("CRASH_DIRECTORY", "."))


def reached(point: str) -> None:
    """Kill this process with SIGKILL if the point is armed; a file with its name and our process id remains."""
    try:
        (_DIRECTORY / point).rename(_DIRECTORY / f"{point}.{os.getpid()}")
    except FileNotFoundError:
        return
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("SIGKILL has been ignored")


def wrap(owner: type, name: str, wrapper: Callable[..., Any]) -> None:
    """Replace a method by a function, which gets the original as its first argument."""
    original = getattr(owner, name)
    setattr(owner, name, lambda *arguments, **named: wrapper(original, *arguments, **named))


def around_state_records() -> None:
    """As a coordinator: with a record in our log alone, and with a replicated record before any answer."""
    from cluster.coordinator.transactions.state_log import StateLog
    from cluster.coordinator.transactions.state_records import peek_state
    from wire.errors import Error

    appended = {
        "Ongoing": "ongoing_appended",
        "PrepareCommit": "commit_appended",
        "PrepareAbort": "abort_appended",
        "CompleteCommit": "complete_appended",
    }

    def append(
        original: Callable[..., Any], log: Any, partition: Any, values: Any, timeout_ms: int, on_done: Any
    ) -> None:
        states = {peek_state(value).kafka_name for value in values.values() if value is not None}

        def done(error: Error) -> None:
            if "PrepareCommit" in states and error is Error.NONE:
                reached("commit_replicated")
            on_done(error)

        original(log, partition, values, timeout_ms, done)
        for state in states & appended.keys():
            reached(appended[state])

    wrap(StateLog, "append", append)


def around_markers() -> None:
    """As a coordinator: when only one partition has its marker; and when all have it, but the log does not say so."""
    from cluster.coordinator.transactions.marker_sender import MarkerSender

    def acknowledge(original: Callable[..., Any], sender: Any, marker: Any) -> None:
        original(sender, marker)
        if marker.completion.transaction.unmarked:
            reached("first_marker_written")

    def complete(original: Callable[..., Any], *arguments: Any) -> None:
        reached("last_marker_written")
        original(*arguments)

    wrap(MarkerSender, "_acknowledge", acknowledge)
    wrap(MarkerSender, "_complete", complete)


def as_leader() -> None:
    """With the marker in our log, and in no other replica's; with an abort marker in the log, but not in our index."""
    from cluster.coordinator.transactions.marker_writes import MarkerWrites
    from cluster.replication.partition.leader import Leader
    from storage.transaction_index import TransactionIndex

    leading = False

    def write(original: Callable[..., Any], *arguments: Any) -> None:
        original(*arguments)
        reached("marker_appended")

    def append(original: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        nonlocal leading
        leading = True
        try:
            return original(*arguments, **named)
        finally:
            leading = False

    def index(original: Callable[..., Any], *arguments: Any) -> None:
        # Followers and the recovery of a log write the index as well.
        if leading:
            reached("abort_marker_without_index")
        original(*arguments)

    wrap(MarkerWrites, "_write", write)
    wrap(Leader, "append", append)
    wrap(TransactionIndex, "append", index)


def as_group_coordinator() -> None:
    """With a marker on all replicas, before the offsets take effect; with offsets in our log, before the answer."""
    from cluster.coordinator.offsets_log import OffsetsLog

    def append_marker(
        original: Callable[..., Any], log: Any, partition: Any, marker: Any, on_done: Any
    ) -> None:
        def done(*outcome: Any) -> None:
            reached("offsets_held")
            on_done(*outcome)

        original(log, partition, marker, done)

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
            reached("offsets_appended")

    wrap(OffsetsLog, "append_marker", append_marker)
    wrap(OffsetsLog, "append", append)


if "CRASH_DIRECTORY" in os.environ and "ottla" in sys.orig_argv:
    around_state_records()
    around_markers()
    as_leader()
    as_group_coordinator()
