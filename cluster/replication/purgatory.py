"""Where requests wait for something to happen: replication, new data, members of a group.

An operation parks under keys (a partition, a group). Whoever changes what a key stands for calls
`check_and_complete` with it, synchronously, right after the change; the operations under the key then look
again. Each completes exactly once: by such a look, by force, or by its time running out.

Everything runs on the broker's one loop, without an await between the change and the look, so there are no
locks and no triggers to miss. An operation that completes leaves all of its keys at once: nothing is purged
later.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable

from cluster.replication.timing_wheel import Timer, TimerEntry


class DelayedOperation(TimerEntry, ABC):
    """Something that is done when a condition holds, and after its time in any case.

    A subclass gives `try_complete` and `on_complete`, and `on_expiration` where the end of time differs.
    """

    __slots__ = ("_keys", "_purgatory", "is_completed")

    def __init__(self) -> None:
        super().__init__()
        self.is_completed = False
        self._keys: tuple[Hashable, ...] = ()
        self._purgatory: Purgatory | None = None

    @abstractmethod
    def try_complete(self) -> bool:
        """Look whether the condition holds; if it does, return what `force_complete` returns. Else False."""

    @abstractmethod
    def on_complete(self) -> None:
        """Do what was delayed. Called once, whether the condition held or the time ran out."""

    def on_expiration(self) -> None:
        """Called after `on_complete` where it was the time that ran out."""

    def force_complete(self) -> bool:
        """Complete now, whatever the condition; False if that was done before."""
        if self.is_completed:
            return False
        self.is_completed = True
        purgatory = self._purgatory
        if purgatory is not None:
            purgatory._leave(self)
        self.on_complete()
        return True

    def expire(self) -> None:
        """The timer's call: the time has run out."""
        purgatory = self._purgatory
        if self.force_complete():
            if purgatory is not None:
                purgatory.expired_count += 1
            self.on_expiration()


class Purgatory:
    """Operations that wait, under their keys.

    Args:
        name: What waits here, as the metrics call it: Produce, Fetch, ...
        timer: What ends their waiting; shared by all purgatories of a broker.

    Attributes:
        expired_count: Operations whose time ran out, since the start.
    """

    __slots__ = ("_looks", "_pending", "_timer", "_watched", "expired_count", "name")

    def __init__(self, name: str, timer: Timer) -> None:
        self.name = name
        self._timer = timer
        self._watched: dict[Hashable, dict[DelayedOperation, None]] = {}
        self._pending = 0
        self._looks = 0
        self.expired_count = 0

    @property
    def pending_count(self) -> int:
        """How many operations wait (Kafka's NumDelayedOperations)."""
        return self._pending

    @property
    def watched_count(self) -> int:
        """How many places under keys are taken (Kafka's PurgatorySize): two keys count twice."""
        return sum(map(len, self._watched.values()))

    def try_complete_else_watch(
        self, operation: DelayedOperation, keys: Iterable[Hashable], timeout_ms: float | None
    ) -> bool:
        """Complete an operation at once if its condition holds; else park it.

        Args:
            operation: What is to be done; each operation is given once.
            keys: What it waits for. Without any, only its time or force completes it.
            timeout_ms: After so many milliseconds it completes in any case; None waits for ever.

        Returns:
            Whether it is completed.
        """
        looks = self._looks
        if operation.try_complete() or operation.is_completed:
            return True
        operation._keys = parked = tuple(keys)
        operation._purgatory = self
        watched = self._watched
        for key in parked:
            operations = watched.get(key)
            if operations is None:
                watched[key] = {operation: None}
            else:
                operations[operation] = None
        self._pending += 1
        # A trigger can have come between the first look and the parking only if the look itself caused it.
        if looks != self._looks and (operation.is_completed or operation.try_complete()):
            return True
        if timeout_ms is not None:
            self._timer.add(operation, timeout_ms)
        return False

    def check_and_complete(self, key: Hashable) -> int:
        """Have the operations under a key look again; gives how many completed by that."""
        self._looks += 1
        operations = self._watched.get(key)
        if operations is None:
            return 0
        completed = 0
        for operation in tuple(operations):
            # One that completes may complete others on its way.
            if not operation.is_completed and operation.try_complete():
                completed += 1
        return completed

    def cancel_for_key(self, key: Hashable) -> list[DelayedOperation]:
        """Take the operations under a key out, from their other keys too, without completing them."""
        operations = list(self._watched.get(key, ()))
        for operation in operations:
            operation.is_completed = True
            self._leave(operation)
        return operations

    def is_watched(self, key: Hashable) -> bool:
        """Whether anything waits for a key."""
        return key in self._watched

    def _leave(self, operation: DelayedOperation) -> None:
        """Forget an operation that is done."""
        self._timer.cancel(operation)
        watched = self._watched
        for key in operation._keys:
            operations = watched.get(key)
            # A key that was named twice has been left already.
            if operations is not None:
                operations.pop(operation, None)
                if not operations:
                    del watched[key]
        self._pending -= 1
        operation._purgatory = None
