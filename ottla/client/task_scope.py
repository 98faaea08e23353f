"""A nursery that an object holds from ``__aenter__`` to ``__aexit__``, without wrapping what its user raises.

An async generator may not hold a nursery, and a nursery wraps every exception in a group; here a lone exception of
the block's body, or of a task, leaves the block as itself.

The tasks are shielded from a cancellation around the block: what the body's own blocks do at their end, such as
flushing and committing, still needs them. They are cancelled when the block is left.
"""

import math
from collections.abc import Iterator
from types import TracebackType
from typing import Any

from ottla.client import runtime


class TaskScope:
    """Tasks that live as long as a block."""

    async def open(self) -> runtime.Nursery:
        """Begin; return the nursery for the block's tasks."""
        self._manager = runtime.open_nursery()
        self._outer = await self._manager.__aenter__()
        with runtime.cancel_scope(shield=True):  # it takes no time, and half of it could not be undone
            inner: runtime.Nursery = await self._outer.start(_host)
        return inner

    async def close(
        self,
        nursery: runtime.Nursery,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        """Cancel the tasks that still run and wait for them; arguments and result as of ``__aexit__``."""
        nursery.cancel_scope.cancel()
        self._outer.cancel_scope.cancel()
        try:
            return bool(await self._manager.__aexit__(kind, error, trace))
        except BaseExceptionGroup as group:
            leaves = list(_leaves(group, error))
            failures = [leaf for leaf in leaves if not isinstance(leaf, runtime.cancelled())]
            if not failures or (len(failures) == 1 and failures[0] is error):
                if error is not None:
                    return False
                raise
            if len(failures) == 1:
                raise failures[0] from failures[0].__cause__
            if error in failures and isinstance(error, BaseExceptionGroup):
                return False
            raise


async def _host(*, task_status: Any = runtime.TASK_STATUS_IGNORED) -> None:
    with runtime.cancel_scope(shield=True):
        async with runtime.open_nursery() as nursery:
            task_status.started(nursery)
            await runtime.sleep_until(math.inf)


def _leaves(group: BaseExceptionGroup[BaseException], whole: BaseException | None) -> Iterator[BaseException]:
    for each in group.exceptions:
        # The groups that nurseries make are taken apart; one that users or `DeliveryErrors` made stays whole.
        if (
            each is not whole
            and isinstance(each, BaseExceptionGroup)
            and ("nursery" in each.message or "TaskGroup" in each.message)
        ):
            yield from _leaves(each, whole)
        else:
            yield each
