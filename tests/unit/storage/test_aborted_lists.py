"""Which aborted transactions a reader of committed data learns of: enough from every offset, and not many more."""

from random import Random

import pytest

from storage.log import AppendOrigin, Log
from storage.log_config import LogConfig
from storage.log_read import read_range
from tests.unit.storage.samples import PARTITION, TestClock, append, batch, marker, open_store, simulated
from wire.records.batch import iter_headers
from wire.records.record import iter_records, read_control_type
from wire.types import Offset

SMALL = LogConfig(segment_bytes=2_000, index_interval_bytes=1)


def write_transactions(log: Log, chance: Random, count: int) -> dict[int, bytes]:
    """Interleave transactions of a few producers; return the committed values by offset."""
    open_values: dict[int, dict[int, bytes]] = {}
    sequences = dict.fromkeys(range(4), 0)
    committed: dict[int, bytes] = {}
    for number in range(count):
        producer = chance.randrange(4)
        if producer in open_values and chance.random() < 0.4:
            commit = chance.random() < 0.5
            append(log, marker(producer, committed=commit), origin=AppendOrigin.COORDINATOR)
            values = open_values.pop(producer)
            committed |= values if commit else {}
            continue
        values = [b"%d-%d" % (number, index) for index in range(chance.randint(1, 3))]
        data = batch(values, producer=producer, sequence=sequences[producer], transactional=True)
        first, _ = append(log, data)
        sequences[producer] += len(values)
        open_values.setdefault(producer, {}).update({first + i: value for i, value in enumerate(values)})
    for producer, values in open_values.items():
        append(log, marker(producer, committed=True), origin=AppendOrigin.COORDINATOR)
        committed |= values
    log.advance_high_watermark(log.log_end_offset)
    return committed


def read_committed(log: Log, offset: int, chance: Random) -> dict[int, bytes]:
    """Read on from an offset by the client's rule, in answers of any size."""
    found: dict[int, bytes] = {}
    end = log.last_stable_offset
    while offset < end:
        read = log.read(Offset(offset), chance.randint(1, 900), upper_bound=end, min_one_batch=True)
        assert read.file_range is not None
        aborted = sorted(log.aborted_transactions_of(read, end), key=lambda each: each.first_offset)
        dropped: set[int] = set()
        data = memoryview(read_range(read.file_range))
        for position, header in iter_headers(data):
            while aborted and aborted[0].first_offset <= header.last_offset:
                dropped.add(aborted.pop(0).producer_id)
            records = list(iter_records(data, position, header))
            if header.is_control:
                if read_control_type(records[0].key).name == "ABORT":
                    dropped.discard(header.producer_id)
            elif header.producer_id not in dropped:
                found |= {each.offset: bytes(each.value or b"") for each in records if each.offset >= offset}
            offset = header.next_offset
    return found


@pytest.mark.parametrize("seed", range(6))
def test_a_reader_sees_exactly_what_is_committed_from_every_offset(seed: int) -> None:
    chance = Random(seed)
    log = open_store(simulated(), TestClock(), SMALL).create(PARTITION)
    committed = write_transactions(log, chance, 120)
    assert len(log.segments) > 3
    for offset in range(log.log_end_offset):
        expected = {at: value for at, value in committed.items() if at >= offset}
        assert read_committed(log, offset, chance) == expected


def test_a_small_answer_names_few_of_many_aborted_transactions() -> None:
    log = open_store(simulated(), TestClock(), LogConfig(index_interval_bytes=1)).create(PARTITION)
    for number in range(500):
        append(log, batch([b"v"], producer=1, sequence=number, transactional=True))
        append(log, marker(1, committed=False), origin=AppendOrigin.COORDINATOR)
    end = log.log_end_offset
    log.advance_high_watermark(end)
    for start in (0, 500, 990):
        read = log.read(Offset(start), 400, upper_bound=end, min_one_batch=True)
        named = log.aborted_transactions_of(read, end)
        assert [each.first_offset for each in named][:2] == [start, start + 2]
        assert len(named) <= 5
