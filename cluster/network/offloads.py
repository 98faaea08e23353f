"""Work off the loop, with threads by purpose, so that work of one kind that hangs does not stop the others.

One pool for everything means that forty cold reads, or flushes, on a disk that does not answer are all the threads
there are: then no LeaderAndIsr is carried out, on healthy disks either. Trio's default pool is left to look-ups of
names and addresses.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, NamedTuple, Protocol, TypeVar

import trio

_T = TypeVar("_T")

READING_THREADS: Final = 16
SYNCING_THREADS: Final = 8
CONTROL_THREADS: Final = 4
TIDYING_THREADS: Final = 4


class Offload(Protocol):
    """Runs something slow beside the loop; in a simulation, at once."""

    def __call__(self, work: Callable[[], _T], /) -> Awaitable[_T]:
        """Run it, and return what it returns."""
        ...


class Offloads(NamedTuple):
    """The offload for each kind of work. If cancelled, each waits for its work to end.

    Attributes:
        reads: Reads of logs that may touch the disk.
        syncs: Flushes and checkpoints that requests wait for.
        control: Creation and removal of logs for the controller.
        tidying: Work that nobody waits for: compaction, removal of files, compression of journals.
    """

    reads: Offload
    syncs: Offload
    control: Offload
    tidying: Offload


def in_threads() -> Offloads:
    """Return offloads to threads, each kind with threads of its own."""
    return Offloads(
        *(
            partial(trio.to_thread.run_sync, limiter=trio.CapacityLimiter(count))
            for count in (READING_THREADS, SYNCING_THREADS, CONTROL_THREADS, TIDYING_THREADS)
        )
    )


def all_by(offload: Offload) -> Offloads:
    """Return offloads that all use one function."""
    return Offloads(offload, offload, offload, offload)
