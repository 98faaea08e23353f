"""Accumulating, draining, retrying: against a partition that checks sequence numbers as a broker does."""

import random
from dataclasses import dataclass, field

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ottla.client.accumulator import EPOCH_MAX, Accumulator, AccumulatorSettings, Answer
from ottla.client.backoff import Backoff
from ottla.client.batch_encoding import ProducerIdentity
from ottla.client.errors import BrokerUnreachable, DeliveryError, InvalidRecord, RecordTooLarge
from ottla.client.memory_budget import MemoryBudget
from ottla.client.producer_batch import ProducerBatch
from wire.errors import Error
from wire.types import TopicPartition

PARTITION = TopicPartition("t", 0)


@dataclass
class ModelPartition:
    """A leader's log of one partition, and what it remembers of the producer."""

    log: list[bytes] = field(default_factory=list)
    epoch: int = -1
    last: int = -1
    recent: dict[tuple[int, int, int], int] = field(default_factory=dict)

    def append(self, batch: ProducerBatch) -> tuple[Error, int]:
        identity = batch.identity
        assert identity is not None
        key = (identity.epoch, batch.base_sequence, len(batch.values))
        if key in self.recent:
            return Error.NONE, self.recent[key]
        if identity.epoch < self.epoch:
            return Error.INVALID_PRODUCER_EPOCH, -1
        if identity.epoch > self.epoch:
            if batch.base_sequence != 0:
                return Error.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        elif batch.base_sequence != self.last + 1:
            return Error.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        self.epoch, self.last = identity.epoch, batch.last_sequence
        offset = len(self.log)
        self.log += batch.values  # type: ignore[arg-type]
        self.recent[key] = offset
        if len(self.recent) > 5:
            del self.recent[next(iter(self.recent))]
        return Error.NONE, offset


class Machine:
    """An accumulator with one partition and a virtual clock."""

    def __init__(
        self, *, idempotent: bool = True, batch_size: int = 200, delivery_timeout: float = 30.0
    ) -> None:
        self.now = 100.0
        self.budget = MemoryBudget(1 << 20)
        settings = AccumulatorSettings(0.0, batch_size, 1 << 20, delivery_timeout, idempotent, False)
        self.accumulator = Accumulator(settings, self.budget, Backoff(0.1, 1.0, random.Random(0)))
        if idempotent:
            self.accumulator.set_identity(ProducerIdentity(9, 0))
        self.queue = self.accumulator.queue(PARTITION)
        self.accepted: list[tuple[bytes, ProducerBatch, int]] = []

    def post(self, value: bytes) -> None:
        size = len(value) + 24
        assert self.budget.take_nowait(size)
        batch = self.queue.open
        if batch is None or batch.left < size:
            batch = self.accumulator.open_batch(self.queue, size, self.now)
        self.accepted.append((value, batch, batch.append(None, value, (), 5, size)))

    def drain(self) -> list[ProducerBatch]:
        """Drain as the sender does: one batch per request, while any is ready."""
        sent = []
        while True:
            ready = [queue for queue, due in self.accumulator.due(self.now) if due <= self.now]
            taken, _ = self.accumulator.next_for_leader(ready)
            if not taken:
                return sent
            sent += [batch for _, batch in taken]

    def outcomes(self):
        for value, batch, index in self.accepted:
            leaf, at = batch.locate(index)
            yield value, leaf, at

    def expire(self) -> None:
        self.accumulator.expire(self.now, lambda _: "a test")


@given(st.integers(0, 10_000_000))
@example(91464)  # an older batch succeeds after a newer one was refused
def test_every_acknowledged_record_is_there_once_and_in_order(seed: int) -> None:
    source = random.Random(seed)
    machine = Machine(delivery_timeout=source.choice([3.0, 1000.0]))
    accumulator = machine.accumulator
    broker = ModelPartition()
    wire: list[ProducerBatch] = []
    count = 0
    for _ in range(120):
        match source.randrange(8):
            case 0 | 1:
                for _ in range(source.randrange(8)):
                    machine.post(b"%d" % count)
                    count += 1
            case 2:
                machine.now += source.choice([0.01, 0.2, 1.5])
                machine.expire()
            case 3 if wire:
                # The connection breaks: the broker carried out a prefix of the requests on the wire, and all answers
                # are lost.
                carried_out = source.randrange(len(wire) + 1)
                for batch in wire[:carried_out]:
                    broker.append(batch)
                broken, wire = wire, []
                for batch in broken:
                    accumulator.lost(batch, BrokerUnreachable("broke"), machine.now)
            case 4 if wire:
                batch = wire.pop(0)
                refusals = [Error.NOT_LEADER_OR_FOLLOWER, Error.NOT_ENOUGH_REPLICAS, Error.INVALID_RECORD]
                accumulator.answered(batch, Answer(source.choice(refusals)), machine.now)
            case 5 if wire and source.randrange(4) == 0:
                batch = wire.pop(0)
                broker.append(batch)
                accumulator.answered(batch, Answer(Error.REQUEST_TIMED_OUT), machine.now)
            case _:
                if wire:
                    batch = wire.pop(0)
                    error, offset = broker.append(batch)
                    accumulator.answered(batch, Answer(error, offset), machine.now)
        wire += machine.drain()
    for _ in range(400):
        machine.now += 0.5
        wire += machine.drain()
        while wire:
            batch = wire.pop(0)
            error, offset = broker.append(batch)
            accumulator.answered(batch, Answer(error, offset), machine.now)
    assert not list(accumulator.unfinished)
    assert machine.budget.available == machine.budget.capacity
    positions = []
    for value, batch, index in machine.outcomes():
        assert batch.done
        times = broker.log.count(value)
        if batch.error is None:
            assert times == 1, f"{value!r} is {times} times in the log"
            position = broker.log.index(value)
            assert batch.base_offset == -1 or batch.base_offset + index == position
            positions.append(position)
        else:
            assert times <= 1
            assert times == 0 or batch.error.maybe_written
    assert positions == sorted(positions)


def test_the_first_of_five_fails_and_the_others_follow_it() -> None:
    machine = Machine(batch_size=100)
    for number in range(5):
        machine.post(b"%d" % number)
    sent = machine.drain()
    assert [batch.base_sequence for batch in sent] == [0, 1, 2, 3, 4]
    machine.post(b"5")
    assert machine.drain() == [], "five are in flight"
    machine.accumulator.answered(sent[0], Answer(Error.NOT_LEADER_OR_FOLLOWER), machine.now)
    for batch in sent[1:]:
        machine.accumulator.answered(batch, Answer(Error.OUT_OF_ORDER_SEQUENCE_NUMBER), machine.now)
    assert machine.accumulator.wants_metadata
    assert machine.drain() == [], "the back-off is not over"
    machine.now += 2
    again: list[ProducerBatch] = []
    wire: list[ProducerBatch] = []
    for _ in range(6):
        wire += machine.drain()
        assert len(wire) == 1 or len(again) >= 4, "retries go alone"
        batch = wire.pop(0)
        again.append(batch)
        machine.accumulator.answered(batch, Answer(Error.NONE, 0), machine.now)
    assert again[:5] == sent
    assert [batch.base_sequence for batch in again] == [0, 1, 2, 3, 4, 5]


def test_a_retry_that_the_broker_knows_is_a_success_at_an_unknown_offset() -> None:
    machine = Machine()
    machine.post(b"a")
    (batch,) = machine.drain()
    machine.accumulator.lost(batch, BrokerUnreachable("broke"), machine.now)
    machine.now += 2
    assert machine.drain() == [batch]
    machine.accumulator.answered(batch, Answer(Error.DUPLICATE_SEQUENCE_NUMBER), machine.now)
    assert batch.done
    assert batch.error is None
    assert batch.place(0).offset == -1


def test_a_batch_that_times_out_in_doubt_raises_the_epoch() -> None:
    machine = Machine(batch_size=100, delivery_timeout=10)
    machine.post(b"a")
    (batch,) = machine.drain()
    machine.now += 9
    machine.post(b"b")
    assert len(machine.drain()) == 1
    machine.now += 2
    machine.expire()
    assert isinstance(batch.error, DeliveryError)
    assert batch.error.maybe_written
    assert "no acknowledgement within 10 s" in str(batch.error)
    second = machine.accepted[1][1]
    machine.accumulator.answered(batch, Answer(Error.NONE, 0), machine.now)  # too late
    assert machine.drain() == [], "the second is still unanswered"
    machine.accumulator.answered(second, Answer(Error.OUT_OF_ORDER_SEQUENCE_NUMBER), machine.now)
    machine.now += 2
    assert machine.drain() == [second]
    assert second.identity == ProducerIdentity(9, 1)
    assert second.base_sequence == 0


@pytest.mark.parametrize("refusal", [Error.NOT_LEADER_OR_FOLLOWER, Error.UNKNOWN_TOPIC_OR_PARTITION])
def test_what_a_former_leader_may_have_appended_is_not_sent_under_a_new_epoch(refusal: Error) -> None:
    machine = Machine()
    machine.post(b"a")
    (batch,) = machine.drain()
    machine.accumulator.answered(batch, Answer(refusal), machine.now)
    machine.now += 2
    assert machine.drain() == [batch]
    # The new leader has the batch, but was restarted since: it knows only the producer's last sequence number.
    machine.accumulator.answered(batch, Answer(Error.OUT_OF_ORDER_SEQUENCE_NUMBER), machine.now)
    machine.now += 2
    assert machine.drain() == []
    assert isinstance(batch.error, DeliveryError)
    assert batch.error.maybe_written


def test_after_the_last_epoch_a_new_id_is_asked_for() -> None:
    machine = Machine()
    machine.accumulator.set_identity(ProducerIdentity(9, EPOCH_MAX))
    machine.post(b"a")
    (batch,) = machine.drain()
    machine.accumulator.answered(batch, Answer(Error.UNKNOWN_PRODUCER_ID), machine.now)
    machine.now += 2
    assert machine.drain() == []
    assert machine.accumulator.wants_identity
    machine.accumulator.set_identity(ProducerIdentity(10, 0))
    assert machine.drain() == [batch]
    assert batch.identity == ProducerIdentity(10, 0)


def test_a_batch_that_is_too_large_is_split_in_order() -> None:
    machine = Machine(batch_size=2000)
    for number in range(40):
        machine.post(b"%02d" % number)
    machine.post(b"next")
    (batch,) = machine.drain()
    broker = ModelPartition()
    machine.accumulator.answered(batch, Answer(Error.MESSAGE_TOO_LARGE), machine.now)
    for _ in range(100):
        for piece in machine.drain():
            if len(piece.values) > 7:
                machine.accumulator.answered(piece, Answer(Error.MESSAGE_TOO_LARGE), machine.now)
            else:
                error, offset = broker.append(piece)
                assert error is Error.NONE
                machine.accumulator.answered(piece, Answer(error, offset), machine.now)
    assert broker.log == [b"%02d" % number for number in range(40)] + [b"next"]
    for number, (_, leaf, at) in enumerate(machine.outcomes()):
        assert leaf.place(at).offset == number
    assert machine.budget.available == machine.budget.capacity


def test_one_record_that_is_too_large_harms_no_other() -> None:
    machine = Machine(batch_size=100)
    for value in (b"a", b"b" * 500, b"c"):
        machine.post(value)
    broker = ModelPartition()
    for _ in range(10):
        for batch in machine.drain():
            if len(batch.values[0] or b"") > 100:
                machine.accumulator.answered(batch, Answer(Error.MESSAGE_TOO_LARGE), machine.now)
            else:
                error, offset = broker.append(batch)
                machine.accumulator.answered(batch, Answer(error, offset), machine.now)
        machine.now += 2
    outcomes = [leaf.error for _, leaf, _ in machine.outcomes()]
    assert outcomes[0] is None
    assert isinstance(outcomes[1], RecordTooLarge)
    assert outcomes[2] is None
    assert broker.log == [b"a", b"c"]


def test_an_invalid_record_is_named() -> None:
    machine = Machine()
    machine.post(b"a")
    (batch,) = machine.drain()
    answer = Answer(Error.INVALID_RECORD, message="one is wrong", record_errors=((0, "no key"),))
    machine.accumulator.answered(batch, answer, machine.now)
    assert isinstance(batch.error, InvalidRecord)
    assert batch.error.record_errors == {0: "no key"}
    assert "record 0: no key" in str(batch.error)


@pytest.mark.parametrize("error", [Error.NONE, Error.NOT_LEADER_OR_FOLLOWER])
def test_without_sequences_one_batch_is_on_the_wire(error: Error) -> None:
    machine = Machine(idempotent=False, batch_size=100)
    machine.post(b"a")
    machine.post(b"b")
    (first,) = machine.drain()
    assert machine.drain() == []
    machine.accumulator.answered(first, Answer(error, 0), machine.now)
    machine.now += 2
    (following,) = machine.drain()
    assert following is (machine.accepted[1][1] if error is Error.NONE else first)
