"""The messages of a job to the process that started it, and the request to stop in the other direction.

Started by ``ottla pipeline``, a job finds the path of a Unix socket in its environment: it sends its messages there, a
JSON object a line, and a line that comes back, or the end of the connection, asks it to stop, so that a launcher that
dies leaves no job behind. Started by a plain spark-submit it prints, and SIGINT or SIGTERM asks it to stop.

Messages by their ``kind``: started (pid), progress, table, note, warning, picture, result, failed.
"""

import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

CHANNEL_VARIABLE: Final = "OTTLA_PIPELINE_CHANNEL"


class Stop:
    """Whether the job is to stop; set from any thread or signal handler."""

    def __init__(self) -> None:
        self._event = threading.Event()

    @property
    def requested(self) -> bool:
        """Whether a stop has been requested."""
        return self._event.is_set()

    def request(self) -> None:
        """Ask the job to stop at the next point where nothing is lost."""
        self._event.set()

    def wait(self, timeout_s: float) -> bool:
        """Wait for the request; return whether it came."""
        return self._event.wait(timeout_s)


class Report(Protocol):
    """Where a job's messages go."""

    def send(self, kind: str, **values: Any) -> None:
        """Send a message. Never raises: a missing listener is no reason to fail."""
        ...


class ConsoleReport:
    """Prints the messages as lines."""

    def send(self, kind: str, **values: Any) -> None:
        """Print a message on stdout; warnings and failures on stderr."""
        text = as_text(kind, values)
        if text:
            stream = sys.stderr if kind in ("warning", "failed") else sys.stdout
            print(text, file=stream, flush=True)


class ChannelReport:
    """Sends the messages to the launcher, and takes its request to stop."""

    def __init__(self, path: str, stop: Stop) -> None:
        self._stop = stop
        self._lock = threading.Lock()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(path)
        threading.Thread(target=self._listen, name="launcher", daemon=True).start()

    def send(self, kind: str, **values: Any) -> None:
        """Send a message; one that cannot be sent is dropped, and the job stops as the launcher is gone."""
        line = json.dumps({"kind": kind, **values}, default=str) + "\n"
        try:
            with self._lock:
                self._socket.sendall(line.encode())
        except OSError:
            self._stop.request()

    def _listen(self) -> None:
        try:
            self._socket.recv(1)
        except OSError:
            pass  # as good as an end
        self._stop.request()


def open_report(stop: Stop) -> Report:
    """Return the launcher's channel where there is one, else the console; SIGINT and SIGTERM ask to stop."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.request())
    path = os.environ.get(CHANNEL_VARIABLE)
    report: Report = ConsoleReport() if path is None else ChannelReport(path, stop)
    report.send("started", pid=os.getpid())
    return report


def as_text(kind: str, values: Mapping[str, Any]) -> str:
    """Return a message as text for people; empty for those that are for programs only."""
    if kind == "progress":
        return progress_line(values)
    if kind == "table":
        return table_text(values["title"], values["columns"], values["rows"])
    if kind == "failed":
        return f"Error: {values['text']}"
    if kind == "warning":
        return f"Warning: {values['text']}"
    if kind == "note":
        return str(values["text"])
    if kind == "picture":
        return f"picture: {values['path']}"
    if kind == "result":
        # A job whose results are more than counts has already shown them as tables.
        counts = {name: count for name, count in values.items() if isinstance(count, int)}
        return f"done: {counts_text(counts)}" if values and len(counts) == len(values) else ""
    return ""


def progress_line(values: Mapping[str, Any]) -> str:
    """Return one batch's progress as a line: rows, rate and lag."""
    parts = [
        f"{values['query']}: batch {values['batch']}",
        f"{values['rows']:,} rows",
        f"{values['rows_per_s']:,.0f} rows/s",
    ]
    if values.get("lag") is not None:
        parts.append(f"lag {values['lag']:,}")
    parts += [counts_text({name: count}) for name, count in values.get("counts", {}).items() if count]
    return "  ".join(parts)


def counts_text(counts: Mapping[str, int]) -> str:
    """Return counts as text, each with its noun."""
    return "  ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in counts.items())


def table_text(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return a table as text in columns, with numbers right-aligned."""
    cells = [[cell_text(cell) for cell in row] for row in rows]
    widths = [max([len(name), *(len(row[i]) for row in cells)]) for i, name in enumerate(columns)]
    right = [bool(rows) and all(isinstance(row[i], int | float) or row[i] is None for row in rows)
             for i in range(len(columns))]  # fmt: skip

    def line(parts: Sequence[str]) -> str:
        laid = (
            part.rjust(width) if flush else part.ljust(width)
            for part, width, flush in zip(parts, widths, right, strict=True)
        )
        return "  ".join(laid).rstrip()

    return "\n".join([title, line(columns), *map(line, cells)])


def cell_text(cell: Any) -> str:
    """Return one value of a table as text."""
    if cell is None:
        return "-"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, int):
        return f"{cell:,}"
    return f"{cell:,.2f}" if isinstance(cell, float) else str(cell)
