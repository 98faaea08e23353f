"""A replica that moves while anything happens to its log: the copy becomes equal to the log."""

from collections.abc import Callable

import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from cluster.replication.partition.partition import Partition
from storage.log import Log
from storage.log_config import LogConfig
from tests.unit.replication.in_memory import P0, FakeBroker, batch
from tests.unit.storage.samples import read_all
from wire.types import Offset

A, B = "/a", "/b"
CHANGES = ["append", "append", "epoch", "truncate", "start over", "log start", "retention"]
NUMBERS = st.integers(1, 6)
BEFORE = st.lists(
    st.tuples(st.sampled_from(["append", "epoch", "append", "log start"]), NUMBERS), min_size=5, max_size=15
)
DURING = st.lists(st.tuples(st.sampled_from([*CHANGES, *["step"] * 5]), NUMBERS), max_size=25)


class Gate:
    """Releases, one by one, what the broker would run in threads."""

    def __init__(self) -> None:
        self.steps = trio.Semaphore(0)

    async def offload(self, call: Callable[[], object]) -> object:
        await self.steps.acquire()
        return call()


def change(log: Log, operation: str, number: int, epoch: int) -> None:
    """Change a follower's log as its leader, retention or an operator can."""
    match operation:
        case "append" | "epoch":
            for _ in range(number):
                data = bytearray(batch(1))
                data[0:8] = log.log_end_offset.to_bytes(8, "big")
                data[12:16] = epoch.to_bytes(4, "big")
                log.append_as_follower(data)
            log.set_high_watermark(Offset(log.log_end_offset - 1))
        case "truncate":
            log.truncate_suffix(max(log.log_start_offset, Offset(log.log_end_offset - 4 * number)))
        case "start over":
            log.truncate_fully_and_start_at(Offset(log.log_end_offset + number))
        case "log start":
            log.advance_log_start(min(log.high_watermark, Offset(log.log_start_offset + number)))
        case "retention":
            log.delete_old_segments(log.log_directory.clock.wall_ms())


def state(log: Log) -> tuple[object, ...]:
    """Return a log's contents and its derived state."""
    offsets = log.log_start_offset, log.high_watermark, log.log_end_offset
    return *offsets, log.leader_epochs.entries(), dict(log.producer_state.active()), read_all(log)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(before=BEFORE, during=DURING)
def test_the_copy_becomes_the_log(before: list[tuple[str, int]], during: list[tuple[str, int]]) -> None:
    broker = FakeBroker(directories=[A, B])
    broker.store.prefer(P0, A)
    broker.follow(2)
    log = broker.partition.log
    assert log is not None
    # Small segments: most of the copied data is in older ones, and is read in a thread.
    log.update_config(LogConfig(segment_bytes=300, index_interval_bytes=1, min_insync_replicas=1))
    epoch = 1
    for operation, number in before:
        epoch += operation in ("epoch", "truncate", "start over")
        change(log, operation, number, epoch)
    gate = Gate()
    moves = broker.replicas.moves
    moves.chunk_bytes = 200
    promoted, compared = moves.on_promoted, list[bool]()

    def compare(partition: Partition) -> None:
        """Check that the copy equals the log that it has just replaced, in the same turn of the loop."""
        assert partition.log is not None
        assert state(partition.log) == state(log)
        compared.append(True)
        promoted(partition)

    moves.on_promoted = compare

    async def body() -> None:
        nonlocal epoch
        async with trio.open_nursery() as nursery:
            await broker.replicas.roles.alter_log_dirs({P0: B})
            moves.offload = gate.offload
            nursery.start_soon(broker.replicas.moves.run)
            for operation, number in during:
                await wait_all_tasks_blocked()
                current = broker.partition.log
                assert current is not None
                if operation == "step":
                    for _ in range(number):
                        gate.steps.release()
                        await wait_all_tasks_blocked()
                    continue
                epoch += operation in ("epoch", "truncate", "start over")
                change(current, operation, number, epoch)
                broker.partition.waiters.fire_log_end()
            for _ in range(1000):
                gate.steps.release()
            await wait_all_tasks_blocked()
            if len(broker.replicas.moves):
                # The log ends after its last batch, by a truncation, so only its next append completes the copy.
                current = broker.partition.log
                assert current is not None
                change(current, "append", 1, epoch)
                await trio.sleep(2)
            nursery.cancel_scope.cancel()

    trio.run(body, clock=MockClock(autojump_threshold=0))
    moved = broker.partition.log
    assert moved is not None
    assert moved is not log
    assert moved.log_directory.path == B
    assert not len(broker.replicas.moves)
    assert compared == [True]
