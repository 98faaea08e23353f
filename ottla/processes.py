"""Processes that are not our children: waiting for their end, and recognizing them.

A pid is reused after its process has ended, so each of our processes names itself (what ``ps`` and
``top`` show as its command), and a pid counts as ours while its process has that name.
"""

import os
import select
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_NAME_SIZE_MAX: Final = 15


def name_process(name: str) -> None:
    """Name this process, in at most 15 bytes, so that `is_running` recognizes it."""
    Path("/proc/self/comm").write_text(name[:_NAME_SIZE_MAX])


def is_running(pid: int | None, name: str) -> bool:
    """Whether a process is alive, under the name that it gave itself. A zombie is not."""
    if pid is None:
        return False
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    # pid (name) state ...; the name may hold anything, parentheses included.
    found, _, rest = status.partition("(")[2].rpartition(")")
    return found == name[:_NAME_SIZE_MAX] and rest.split()[0] not in ("Z", "X")


@contextmanager
def exit_poll(pid: int) -> Iterator[select.poll]:
    """Return a poll object that reports when the process has ended; at once if there is none."""
    poll = select.poll()
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        descriptor = os.eventfd(1)
    try:
        poll.register(descriptor, select.POLLIN)
        yield poll
    finally:
        os.close(descriptor)


def wait_exit(pid: int, timeout_s: float) -> bool:
    """Wait for a process to end; return whether it ended in time."""
    with exit_poll(pid) as ended:
        return bool(ended.poll(timeout_s * 1000))
