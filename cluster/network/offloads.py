"""Work beside the loop, with threads by purpose: what hangs in one kind of work does not stop the others.

One pool for everything means that forty cold reads, or flushes, on a disk that does not answer are all the threads
there are: then no LeaderAndIsr is carried out, on healthy disks either. The pool that trio has by default is left to
looking up names and addresses.
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
    """Where work of each kind goes. Cancelled, each waits for its work to end.

    Attributes:
        reads: Reads of logs that may touch the disk.
        syncs: Flushes and checkpoints that requests wait for.
        control: Logs made and removed for the controller.
        tidying: What nobody waits for: compaction, removal of files, compression of journals.
    """

    reads: Offload
    syncs: Offload
    control: Offload
    tidying: Offload


def in_threads() -> Offloads:
    """Return work in threads, each kind with threads of its own."""
    return Offloads(
        *(
            partial(trio.to_thread.run_sync, limiter=trio.CapacityLimiter(count))
            for count in (READING_THREADS, SYNCING_THREADS, CONTROL_THREADS, TIDYING_THREADS)
        )
    )


def all_by(offload: Offload) -> Offloads:
    """Return work that is all done in one way."""
    return Offloads(offload, offload, offload, offload)
