"""The loop of a probe: records are produced, replicated, consumed and committed, and each step is timed.

Each partition has a producer and a consumer of its own, so that one that stands still does not stop the others. A
record counts as lost if it was acknowledged and is not consumed by the end, although its partition is read to the end.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import trio

from ottla.client.errors import ClientError
from ottla.commands.diagnosis.probe_client import ProbeClient
from wire.types import Offset, WallMs

MAX_WAIT_MS: Final = 250
COMMIT_INTERVAL_S: Final = 0.25
RETRY_S: Final = 0.02
DRAIN_S: Final = 10.0
"""How long after the last record consumers may take to catch up."""


@dataclass(slots=True)
class Latencies:
    """Durations of one step, in seconds."""

    values: list[float] = field(default_factory=list)

    def percentile_ms(self, share: float) -> float | None:
        """Return the value that a share of all stays within, in ms; None where there are none."""
        if not self.values:
            return None
        ordered = sorted(self.values)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1000

    def as_json(self) -> dict[str, float | int | None]:
        """Return the percentiles, in ms."""
        marks = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}
        rounded = {
            name: None if (value := self.percentile_ms(share)) is None else round(value, 3)
            for name, share in marks.items()
        }
        return {"count": len(self.values)} | rounded


@dataclass(slots=True)
class ProbeResult:
    """What a probe has seen so far.

    Attributes:
        acknowledge: From producing to the acknowledgement of all replicas in sync.
        end_to_end: From producing to consuming.
        commit: Of committing offsets.
        failures: Requests that failed, by step and reason.
        longest_gap_s: The longest time that a partition went without an acknowledgement.
        lost: Acknowledged records that were not consumed.
        duplicates: Records that were consumed again.
    """

    sent: int = 0
    acknowledged: int = 0
    consumed: int = 0
    duplicates: int = 0
    lost: int = 0
    commits: int = 0
    longest_gap_s: float = 0.0
    acknowledge: Latencies = field(default_factory=Latencies)
    end_to_end: Latencies = field(default_factory=Latencies)
    commit: Latencies = field(default_factory=Latencies)
    failures: Counter[str] = field(default_factory=Counter)

    def as_json(self) -> dict[str, object]:
        """Return it for programs."""
        return {
            "sent": self.sent,
            "acknowledged": self.acknowledged,
            "consumed": self.consumed,
            "duplicates": self.duplicates,
            "lost": self.lost,
            "commits": self.commits,
            "longest_gap_ms": round(self.longest_gap_s * 1000, 3),
            "acknowledge_ms": self.acknowledge.as_json(),
            "end_to_end_ms": self.end_to_end.as_json(),
            "commit_ms": self.commit.as_json(),
            "failures": dict(self.failures.most_common()),
        }


class Probe:
    """One run.

    Args:
        make_client: Makes a client of the probe's topic; each loop has its own.
        partitions: The partitions to use.
        positions: Where their consumers begin.
        group: The group to commit for.
        interval_s: Between two records of a partition.
        size: Bytes of a record's value.
        wall_ms: The time that stands in the records.

    Attributes:
        result: What was seen so far.
    """

    def __init__(
        self,
        make_client: Callable[[], ProbeClient],
        partitions: Sequence[int],
        positions: dict[int, Offset],
        group: str,
        interval_s: float,
        size: int,
        wall_ms: Callable[[], WallMs],
    ) -> None:
        self.result = ProbeResult()
        self._make_client = make_client
        self._partitions = partitions
        self._positions = positions
        self._group = group
        self._interval_s = interval_s
        self._size = size
        self._wall_ms = wall_ms
        self._sent_at: dict[int, float] = {}
        self._awaited: dict[int, set[int]] = {partition: set() for partition in partitions}
        self._seen: set[int] = set()
        self._is_producing = True
        self._caught_up = trio.Event()
        self._stopping = trio.CancelScope()

    def stop(self) -> None:
        """Produce no more; `run` ends when the consumers have caught up."""
        self._stopping.cancel()

    async def run(self, duration_s: float) -> None:
        """Probe for some time, then wait for the consumers. Cancelled, it leaves what is under way out."""
        async with trio.open_nursery() as consumers:
            for partition in self._partitions:
                consumers.start_soon(self._consume, partition)
            consumers.start_soon(self._commit)
            with self._stopping:
                self._stopping.deadline = trio.current_time() + duration_s
                async with trio.open_nursery() as producers:
                    for partition in self._partitions:
                        producers.start_soon(self._produce, partition)
            self._is_producing = False
            self._look_whether_caught_up()
            with trio.move_on_after(DRAIN_S):
                await self._caught_up.wait()
            consumers.cancel_scope.cancel()
        self.result.lost = sum(map(len, self._awaited.values()))

    async def _produce(self, partition: int) -> None:
        client, result = self._make_client(), self.result
        last_at = trio.current_time()
        due = last_at
        try:
            while True:
                number = result.sent
                result.sent += 1
                value = number.to_bytes(8, "big").ljust(self._size, b".")
                self._sent_at[number] = began_at = trio.current_time()
                try:
                    with trio.CancelScope(shield=True):
                        await client.produce(partition, value, self._wall_ms(), 30_000)
                except ClientError as error:
                    self._failed("produce", error)
                else:
                    now = trio.current_time()
                    result.acknowledged += 1
                    result.acknowledge.values.append(now - began_at)
                    result.longest_gap_s = max(result.longest_gap_s, now - last_at - self._interval_s)
                    last_at = now
                    if number not in self._seen:
                        self._awaited[partition].add(number)
                due = max(due + self._interval_s, trio.current_time() - self._interval_s)
                await trio.sleep_until(due)
        finally:
            client.close()

    async def _consume(self, partition: int) -> None:
        client, result = self._make_client(), self.result
        try:
            while True:
                try:
                    found = await client.consume(partition, self._positions[partition], MAX_WAIT_MS)
                except ClientError as error:
                    self._failed("consume", error)
                    await trio.sleep(RETRY_S)
                    continue
                now = trio.current_time()
                for record in found:
                    number = int.from_bytes(record.value[:8], "big")
                    if number in self._seen:
                        result.duplicates += 1
                    elif number in self._sent_at:
                        self._seen.add(number)
                        result.consumed += 1
                        result.end_to_end.values.append(now - self._sent_at[number])
                        self._awaited[partition].discard(number)
                    self._positions[partition] = Offset(record.offset + 1)
                self._look_whether_caught_up()
        finally:
            client.close()

    async def _commit(self) -> None:
        client, result = self._make_client(), self.result
        try:
            while True:
                await trio.sleep(COMMIT_INTERVAL_S)
                began_at = trio.current_time()
                try:
                    await client.commit(self._group, dict(self._positions))
                except ClientError as error:
                    self._failed("commit", error)
                else:
                    result.commits += 1
                    result.commit.values.append(trio.current_time() - began_at)
        finally:
            client.close()

    def _look_whether_caught_up(self) -> None:
        if not self._is_producing and not any(self._awaited.values()):
            self._caught_up.set()

    def _failed(self, step: str, error: ClientError) -> None:
        reason = type(error).__name__ if error.error is None else error.error.name
        self.result.failures[f"{step}: {reason}"] += 1
