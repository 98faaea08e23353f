"""Passes requests of trio tasks to kazoo, and completions back: one wake-up of trio's loop for many completions.

Kazoo's thread appends to a deque and wakes trio only if no wake-up is on its way; trio then takes everything
there is. Completions, watches and changes of the session share that one deque, so that trio sees them in the order in
which kazoo did: a watch fires before the read that would show its change.

Many requests at once go out in a window, refilled as answers come: one task is woken once for ten thousand
reads. Kazoo prefers sending to reading, so without a window the server would have to hold its answers back.
"""

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import outcome
import trio

from cluster.zookeeper.client import ConnectionLossError, SessionExpiredError, ZooKeeperError
from cluster.zookeeper.kazoo_errors import translate
from cluster.zookeeper.kazoo_handler import Completion

WINDOW: Final = 200
"""How many requests of one batch are under way at the same time."""

Submit = Callable[[], Completion]


class _Call:
    """One request that a task waits for."""

    __slots__ = ("_task",)

    def __init__(self, task: trio.lowlevel.Task) -> None:
        self._task: trio.lowlevel.Task | None = task

    def land(self, completion: Completion) -> None:
        if completion.error is None:
            self._wake(outcome.Value(completion.value))
        else:
            self._wake(outcome.Error(translate(completion.error)))

    def fail(self, error: ZooKeeperError) -> None:
        self._wake(outcome.Error(error))

    def abandon(self) -> None:
        self._task = None

    def _wake(self, result: "outcome.Outcome[Any]") -> None:
        task, self._task = self._task, None
        if task is not None:
            trio.lowlevel.reschedule(task, result)


class _Batch:
    """Many requests, numbered, that a task waits for together."""

    __slots__ = ("_bridge", "_landed", "_next", "_repeat_lost", "_submit", "_task", "results")

    def __init__(
        self,
        bridge: "KazooBridge",
        task: trio.lowlevel.Task,
        submit: Callable[[int], Completion],
        count: int,
        repeat_lost: bool,
    ) -> None:
        self._bridge = bridge
        self._task: trio.lowlevel.Task | None = task
        self._submit = submit
        self._repeat_lost = repeat_lost
        self._next = 0
        self._landed = 0
        self.results: list[Any] = [None] * count

    def begin(self) -> None:
        while self._next < min(WINDOW, len(self.results)):
            self._begin_next()

    def _begin_next(self) -> None:
        index = self._next
        self._next += 1
        self._begin(index)

    def _begin(self, index: int) -> None:
        self._bridge.begin(_Numbered(self, index), lambda: self._submit(index))

    def land(self, index: int, completion: Completion) -> None:
        if self._task is None:
            return
        if completion.error is None:
            self.results[index] = completion.value
        else:
            error = translate(completion.error)
            if isinstance(error, SessionExpiredError):
                self.fail(error)
                return
            if self._repeat_lost and isinstance(error, ConnectionLossError):
                self._begin(index)
                return
            self.results[index] = error
        self._landed += 1
        if self._landed == len(self.results):
            self._wake(outcome.Value(self.results))
        elif self._next < len(self.results):
            self._begin_next()

    def fail(self, error: ZooKeeperError) -> None:
        self._wake(outcome.Error(error))

    def abandon(self) -> None:
        self._task = None

    def _wake(self, result: "outcome.Outcome[Any]") -> None:
        task, self._task = self._task, None
        if task is not None:
            trio.lowlevel.reschedule(task, result)


class _Numbered:
    """One request of a batch."""

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: _Batch, index: int) -> None:
        self._batch = batch
        self._index = index

    def land(self, completion: Completion) -> None:
        self._batch.land(self._index, completion)

    def fail(self, error: ZooKeeperError) -> None:
        self._batch.fail(error)


_Request = _Call | _Numbered


class KazooBridge:
    """The one deque between kazoo's thread and trio's.

    The gate is shut from the expiry of a session until its owner renews it: nothing is sent meanwhile.
    """

    def __init__(self) -> None:
        self._inbox: deque[Callable[[], None] | Completion] = deque()
        self._wake_is_pending = False
        self._token: trio.lowlevel.TrioToken | None = None
        self._under_way: set[_Request] = set()
        self._shut: ZooKeeperError | None = SessionExpiredError("no session yet")

    def attach(self) -> None:
        """Attach to the running trio loop, which completions wake; call it before kazoo starts."""
        self._token = trio.lowlevel.current_trio_token()

    def open(self) -> None:
        """Let requests through."""
        self._shut = None

    def shut(self, error: ZooKeeperError) -> None:
        """Fail all requests under way, and all that come until `open`."""
        self._shut = error
        under_way, self._under_way = self._under_way, set()
        for request in under_way:
            request.fail(error)

    @property
    def is_open(self) -> bool:
        """Whether requests are let through."""
        return self._shut is None

    # On kazoo's thread

    def post(self, call: Callable[[], None]) -> None:
        """Have ``call`` called on trio's thread, after everything posted before."""
        self._inbox.append(call)
        self._wake()

    def post_and_wait(self, call: Callable[[], None], timeout_s: float) -> None:
        """Have ``call`` called on trio's thread, and wait until it was, or until it certainly will not be."""
        done = threading.Event()

        def call_and_tell() -> None:
            call()
            done.set()

        self.post(call_and_tell)
        done.wait(timeout_s)

    def _land(self, completion: Completion) -> None:
        self._inbox.append(completion)
        self._wake()

    def _wake(self) -> None:
        if self._wake_is_pending or self._token is None:
            return
        self._wake_is_pending = True
        try:
            self._token.run_sync_soon(self._drain)
        except trio.RunFinishedError:
            self._token = None

    # On trio's thread

    def begin(self, request: _Request, submit: Submit, *, through_gate: bool = True) -> None:
        """Send a request; its completion lands in a later turn of the loop.

        Args:
            request: Completed with the result.
            submit: Hands the request to kazoo.
            through_gate: Whether a shut gate stops it. A probe bypasses the gate.
        """
        if through_gate and self._shut is not None:
            error = self._shut
            self.post(lambda: request.fail(error))
            return
        self._under_way.add(request)
        completion = submit()
        completion.request = request
        completion.rawlink(self._land)

    async def call(self, submit: Submit, *, through_gate: bool = True) -> Any:
        """Send one request and wait for its value.

        Raises:
            ZooKeeperError: the error of ZooKeeper, or of the connection.
        """
        call = _Call(trio.lowlevel.current_task())
        self.begin(call, submit, through_gate=through_gate)

        def abort(_: Callable[[], None]) -> trio.lowlevel.Abort:
            call.abandon()
            return trio.lowlevel.Abort.SUCCEEDED

        return await trio.lowlevel.wait_task_rescheduled(abort)

    async def read(self, submit: Submit) -> Any:
        """Send one read and wait for its value; repeat it after each lost connection.

        Raises:
            ZooKeeperError: the error of ZooKeeper, or `SessionExpiredError`.
        """
        while True:
            try:
                return await self.call(submit)
            except ConnectionLossError:
                continue

    async def call_many(
        self, submit: Callable[[int], Completion], count: int, *, repeat_lost: bool
    ) -> list[Any]:
        """Send many requests and wait for all of them.

        Args:
            submit: Hands the request with a number to kazoo.
            count: How many there are.
            repeat_lost: Whether to repeat requests after a lost connection, as is safe for reads.

        Returns:
            For each request, a value or a `ZooKeeperError`.

        Raises:
            SessionExpiredError: the session expired in the meantime.
        """
        if count == 0:
            await trio.lowlevel.checkpoint()
            return []
        batch = _Batch(self, trio.lowlevel.current_task(), submit, count, repeat_lost)
        batch.begin()

        def abort(_: Callable[[], None]) -> trio.lowlevel.Abort:
            batch.abandon()
            return trio.lowlevel.Abort.SUCCEEDED

        results: list[Any] = await trio.lowlevel.wait_task_rescheduled(abort)
        return results

    def _drain(self) -> None:
        # Before taking anything: whatever is appended from now on wakes us again, or is taken now.
        self._wake_is_pending = False
        inbox = self._inbox
        for _ in range(len(inbox)):
            item = inbox.popleft()
            if isinstance(item, Completion):
                request = item.request
                if request in self._under_way:
                    self._under_way.remove(request)
                    request.land(item)
            else:
                item()
        if inbox and not self._wake_is_pending:
            self._wake()
