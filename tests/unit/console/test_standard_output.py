"""Writing outside the event loop, and what remains of it after an interrupt."""

import threading

import pytest
import trio

from ottla.commands.console.standard_output import OutputClosed, StandardOutput


def test_what_was_written_counts_though_it_was_cancelled() -> None:
    written = bytearray()

    async def main() -> None:
        with trio.CancelScope() as scope:

            def write(data: memoryview) -> int:
                trio.from_thread.run_sync(scope.cancel)
                written.extend(data)
                return len(data)

            await StandardOutput(write).write(b"a record")
            assert scope.cancel_called
            await trio.lowlevel.checkpoint()
        assert scope.cancelled_caught

    trio.run(main)
    assert written == b"a record"


def test_an_output_that_takes_nothing_can_be_left() -> None:
    release = threading.Event()

    async def main() -> None:
        with trio.CancelScope() as scope:

            def write(data: memoryview) -> int:
                trio.from_thread.run_sync(scope.cancel)
                release.wait()
                return len(data)

            await StandardOutput(write).write(b"a record")
        assert scope.cancelled_caught

    try:
        trio.run(main)
    finally:
        release.set()


def test_a_closed_output_is_said_to_be_closed() -> None:
    def write(data: memoryview) -> int:
        raise BrokenPipeError

    with pytest.raises(OutputClosed):
        trio.run(StandardOutput(write).write, b"a record")
