"""The tasks of a client live until its block is left, whatever cancels the block."""

import pytest
import trio

from ottla.client.task_scope import TaskScope


def test_tasks_outlive_a_cancellation_until_the_block_is_left() -> None:
    answered: list[str] = []

    async def main() -> None:
        asked, answer = trio.Event(), trio.Event()

        async def serve() -> None:
            await asked.wait()
            answer.set()

        with trio.CancelScope() as around:
            scope = TaskScope()
            nursery = await scope.open()
            nursery.start_soon(serve)
            nursery.start_soon(trio.sleep_forever)
            around.cancel()
            try:
                await trio.sleep_forever()
            except trio.Cancelled as error:
                with trio.CancelScope(shield=True):
                    asked.set()
                    await answer.wait()
                    answered.append("while cancelled")
                if not await scope.close(nursery, type(error), error, error.__traceback__):
                    raise
        assert around.cancelled_caught

    trio.run(main)
    assert answered == ["while cancelled"]


def test_a_cancelled_opening_ends() -> None:
    async def main() -> None:
        with trio.CancelScope() as around:
            around.cancel()
            scope = TaskScope()
            nursery = await scope.open()
            try:
                await trio.lowlevel.checkpoint()
            except trio.Cancelled as error:
                if not await scope.close(nursery, type(error), error, error.__traceback__):
                    raise
        assert around.cancelled_caught

    trio.run(main)


def test_a_failing_task_cancels_the_block_and_is_raised_from_it() -> None:
    async def fail() -> None:
        raise KeyError("task")

    async def block() -> None:
        scope = TaskScope()
        nursery = await scope.open()
        nursery.start_soon(fail)
        try:
            await trio.sleep_forever()
        except trio.Cancelled as error:
            if not await scope.close(nursery, type(error), error, error.__traceback__):
                raise

    with pytest.raises(KeyError, match="task"):
        trio.run(block)
