"""Power is lost at any change to the disk, which loses any part of what was not synced; then the log is opened again.

The model is the list of batches that the log should hold. What may come back after a crash: a prefix of what the log
held at any moment since the last flush, and all that was flushed then and not truncated since.
"""

from dataclasses import dataclass, field, replace
from itertools import pairwise

import hypothesis.strategies as st
from hypothesis import HealthCheck, given, settings

from simulation.disk import Choose, SimulatedCrash
from storage.errors import StorageError
from storage.log import Log
from storage.log_config import LogConfig
from storage.store import LogStore
from tests.unit.storage.samples import PARTITION, TestClock, append, batch, open_store, read_all, simulated
from wire.records.batch import read_header
from wire.types import LeaderEpoch, Offset

CONFIG = LogConfig(segment_bytes=300, index_interval_bytes=100, file_delete_delay_ms=0)

WEIGHTS = {
    "append": 14,
    "follow": 6,
    "truncate": 2,
    "start over": 1,
    "log start": 2,
    "retention": 2,
    "flush": 2,
    "flush rolled": 2,
    "checkpoint": 2,
    "clean restart": 2,
}
NAMES = [name for name, weight in WEIGHTS.items() for _ in range(weight)]
OPERATIONS = st.lists(st.tuples(st.sampled_from(NAMES), st.integers(1, 6)), min_size=5, max_size=50)


@dataclass
class Model:
    """What the log should hold, and what it held since the last flush."""

    batches: list[bytes] = field(default_factory=list)
    start: int = 0
    epoch: int = 0
    sequence: int = 0
    flushed: int = 0
    history: list[list[bytes]] = field(default_factory=lambda: [[]])

    @property
    def end(self) -> int:
        return int(read_header(self.batches[-1]).next_offset) if self.batches else self.start

    def note(self) -> None:
        self.history.append(list(self.batches))

    def note_flush(self, flushed: int, *, settled: bool) -> None:
        if flushed > self.flushed:
            self.flushed = flushed
            # A flush syncs what it makes durable, and not an earlier truncation: an emptied segment is left to the next
            # append, and until then a crash can bring back its old contents.
            if flushed == self.end and settled:
                self.history = [list(self.batches)]

    def allows(self, found: list[bytes], log_start: int) -> bool:
        if not found and log_start >= self.flushed:
            return True  # the log start survived the records after it
        ends = [int(read_header(data).next_offset) for data in found]
        reached = ends[-1] if ends else 0
        bases = {int(read_header(data).base_offset): data for data in found}
        for state in self.history:
            kept = {int(read_header(data).base_offset): data for data in state}
            # Retention may have cut the front of one and not of the other.
            prefix = all(kept.get(base, data) == data for base, data in bases.items())
            known = all(base in kept or base < min(kept, default=1 << 60) for base in bases)
            missing = [base for base in kept if base not in bases and bases and min(bases) < base < reached]
            if (
                prefix
                and known
                and not missing
                and (reached >= min(self.flushed, self._end_of(state)) or not state)
            ):
                return True
        return False

    @staticmethod
    def _end_of(state: list[bytes]) -> int:
        return int(read_header(state[-1]).next_offset) if state else 0


class Machine:
    """Runs operations on a log and on the model, through crashes."""

    def __init__(self, choose: Choose, *, preallocate: bool = False) -> None:
        self.config = replace(CONFIG, preallocate=preallocate)
        self.choose = choose
        self.disk = simulated()
        self.clock = TestClock()
        self.model = Model()
        self.store: LogStore
        self.log: Log
        self.open()

    def open(self) -> None:
        self.store = open_store(self.disk, self.clock, self.config)
        self.log = self.store.create(PARTITION)

    def run(self, operation: str, number: int) -> None:
        model, log = self.model, self.log
        match operation:
            case "append":
                data = batch([b"%d" % model.end] * number, producer=1, sequence=model.sequence)
                # A batch that was being written at the power loss can be there or not.
                placed = bytearray(data)
                self._place(placed, log)
                model.history.append([*model.batches, bytes(placed)])
                append(log, data, epoch=model.epoch)
                model.sequence += number
                model.batches.append(bytes(placed))
                model.note()
                log.advance_high_watermark(log.log_end_offset)
            case "follow":
                data = batch([b"%d" % model.end] * number, producer=1, sequence=model.sequence)
                self._place(data, log)
                model.history.append([*model.batches, bytes(data)])
                log.append_as_follower(data)
                model.sequence += number
                model.batches.append(bytes(data))
                model.note()
                log.set_high_watermark(log.log_end_offset)
            case "truncate":
                to = max(model.start, model.end - number)
                self._truncated(to)
                log.truncate_suffix(Offset(to))
                model.epoch += 1
                self.check_consistent()
                model.sequence = self._next_sequence()
            case "start over":
                at = model.end + number
                model.batches, model.flushed, model.start = [], 0, at
                model.note()
                log.truncate_fully_and_start_at(Offset(at))
                model.epoch += 1
                model.sequence = 0
            case "log start":
                to = min(model.start + number, model.end)
                if to > model.start:
                    model.start = to
                    log.advance_log_start(Offset(to))
            case "retention":
                log.delete_old_segments(self.clock.wall_ms())
                self._drop_front()
                self.store.remove_due_files()
            case "flush":
                log.flush()
                model.note_flush(log.recovery_point, settled=not log.flusher.unsettled)
            case "flush rolled":
                self.store.flush_due()
                model.note_flush(log.recovery_point, settled=not log.flusher.unsettled)
            case "checkpoint":
                self.store.checkpoints.write_recovery_points()
                self.store.checkpoints.write_log_starts()
            case "clean restart":
                self.store.close(threads=1)
                model.note_flush(model.end, settled=True)
                self.open()
                self.check_exact()
                self.log.set_high_watermark(self.log.log_end_offset)

    def _place(self, data: bytearray, log: Log) -> None:
        data[0:8] = log.log_end_offset.to_bytes(8, "big")
        data[12:16] = self.model.epoch.to_bytes(4, "big")

    def _truncated(self, to: int) -> None:
        model = self.model
        model.batches = [data for data in model.batches if read_header(data).last_offset < to]
        # The whole batch that contains `to` goes.
        model.start = min(model.start, model.end)
        model.flushed = min(model.flushed, model.end)
        model.note()

    def _next_sequence(self) -> int:
        entry = self.log.producer_state.entries.get(1)  # type: ignore[call-overload]
        return 0 if entry is None else entry.last_sequence + 1

    def _drop_front(self) -> None:
        first = self.log.segments.first.base_offset
        self.model.batches = [data for data in self.model.batches if read_header(data).base_offset >= first]
        self.model.note()

    def check_exact(self) -> None:
        found = read_all(self.log)
        expected = [
            data for data in self.model.batches if read_header(data).last_offset >= self.log.log_start_offset
        ]
        assert found == expected

    def crash(self) -> None:
        self.disk.crash(self.choose)
        self.open()
        log, model = self.log, self.model
        self.check_consistent()
        found = stored(log)
        assert model.allows(found, int(log.log_start_offset)), (
            f"{[str(read_header(data)) for data in found]} after a crash, flushed to {model.flushed}, of "
            f"{[[int(read_header(data).base_offset) for data in state] for state in model.history]}"
        )
        # From now on the model is what was found.
        model.batches = found
        model.start = int(log.log_start_offset)
        model.history = [list(found)]
        model.flushed = max(min(model.flushed, int(log.log_end_offset)), int(log.recovery_point))
        model.epoch = max([model.epoch, *(read_header(data).partition_leader_epoch for data in found)]) + 1
        model.sequence = self._next_sequence()
        log.set_high_watermark(log.log_end_offset)

    def check_consistent(self) -> None:
        """Check that all derived state fits the records, whichever are there."""
        log = self.log
        batches = [read_header(data) for data in stored(log)]
        for one, following in pairwise(batches):
            assert following.base_offset == one.next_offset, (one, following, list(log.segments), log)
            assert following.partition_leader_epoch >= one.partition_leader_epoch
            if (
                following.partition_leader_epoch > one.partition_leader_epoch
                and following.base_offset > log.log_start_offset
            ):
                assert (
                    log.leader_epochs.start_of(LeaderEpoch(following.partition_leader_epoch))
                    == following.base_offset
                )
        visible = [header for header in batches if header.last_offset >= log.log_start_offset]
        if batches:
            assert log.log_end_offset == batches[-1].next_offset
        if visible:
            assert log.leader_epochs.latest == visible[-1].partition_leader_epoch
            entry = log.producer_state.entries.get(1)  # type: ignore[call-overload]
            assert entry is not None
            assert entry.last_sequence == visible[-1].last_sequence
        assert log.recovery_point <= log.log_end_offset
        assert log.log_start_offset <= log.log_end_offset


def stored(log: Log) -> list[bytes]:
    """Return every batch in the segments, also below the log's start."""
    start, log.offsets.log_start = log.log_start_offset, log.segments.first.base_offset
    try:
        return read_all(log)
    finally:
        log.offsets.log_start = start


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(
    rounds=st.lists(st.tuples(OPERATIONS, st.integers(1, 150)), min_size=1, max_size=3),
    chances=st.randoms(use_true_random=False),
    preallocate=st.booleans(),
)
def test_a_crash_at_any_change(
    rounds: list[tuple[list[tuple[str, int]], int]], chances: "object", preallocate: bool
) -> None:
    def choose(n: int) -> int:
        return chances.randint(0, n)  # type: ignore[attr-defined, no-any-return]

    machine = Machine(choose, preallocate=preallocate)
    for operations, crash_at in rounds:
        machine.disk.crash_at(crash_at)
        try:
            for operation, number in operations:
                machine.run(operation, number)
        except SimulatedCrash:
            pass
        except StorageError as error:
            raise AssertionError("no disk failed") from error
        machine.crash()
    machine.store.close(threads=1)
