"""Ctrl-C and its like (SIGTERM, SIGHUP): blocked where they would leave processes behind, or passed to a task."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

STOPS: Final = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})


@contextmanager
def held_back() -> Iterator[None]:
    """Hold Ctrl-C back inside; one that came meanwhile raises KeyboardInterrupt on leaving."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def let_through() -> Iterator[None]:
    """Let Ctrl-C interrupt what stands inside, where around it is `held_back`; it is again on leaving."""
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)


async def on_interrupt(stop: Callable[[], object]) -> None:
    """Call `stop` at each Ctrl-C or SIGTERM instead of being ended by it, until cancelled."""
    import trio

    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            stop()
