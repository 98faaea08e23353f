"""The records that are on their way to one partition together, and what became of them. No I/O."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, overload

from ottla.client.batch_encoding import (
    BATCH_OVERHEAD,
    EncodedRecords,
    ProducerIdentity,
    encode_records,
    frame_batch,
)
from ottla.client.errors import ClientError
from wire.records.batch import NO_SEQUENCE, increment_sequence
from wire.records.compression import Compression
from wire.records.record import Header
from wire.types import NO_OFFSET, NO_TIMESTAMP, TopicPartition

UNKNOWN_OFFSET: Final = NO_OFFSET


class Place(NamedTuple):
    """Where a record stands in the log.

    Attributes:
        topic: The topic.
        partition: The partition.
        offset: The offset; -1 where it is unknown: with acks=0, and after a retry that the broker recognised.
        timestamp: The record's timestamp in milliseconds, as the topic keeps it.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int


class Acknowledged(Sequence[Place]):
    """The places of a batch's records, made on access.

    Args:
        batch: A batch whose outcome is known; a failed one has no places.
    """

    def __init__(self, batch: "ProducerBatch") -> None:
        self._batch = batch

    def __len__(self) -> int:
        return 0 if self._batch.error is not None else len(self._batch.values)

    @overload
    def __getitem__(self, index: int) -> Place: ...
    @overload
    def __getitem__(self, index: slice) -> "list[Place]": ...
    def __getitem__(self, index: int | slice) -> "Place | list[Place]":
        if isinstance(index, slice):
            return [self._batch.place(at) for at in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"record {index} of {len(self)}")
        return self._batch.place(index % len(self))

    @property
    def sent_ms(self) -> Sequence[int]:
        """The records' own timestamps: when they were accepted, where the caller gave none."""
        return self._batch.timestamps

    @property
    def byte_count(self) -> int:
        """Bytes of the values."""
        return sum(len(value) for value in self._batch.values if value is not None)


class ProducerBatch:
    """Records of one partition, from the first append until they are acknowledged or failed.

    Attributes:
        partition: Where they go.
        number: Counts the batches of the producer: the order in which they leave.
        values: The values, one a record.
        keys: The keys, None while no record has one.
        headers: The headers of the records that have some, by index.
        timestamps: Milliseconds, one a record.
        left: Bytes that may still be appended.
        opened_at: Seconds: when its first record was accepted.
        deadline: Seconds: when its delivery fails.
        retry_at: Seconds: it is not sent again before.
        attempts: How often it was sent.
        in_doubt: Whether it may have been written by an attempt without an answer.
        identity: The producer id and epoch that it was sent under.
        base_sequence: The sequence number of its first record, -1 before it is drained.
        encoded: Its records as bytes, once they are encoded.
        is_foreign: Whether it was handed over encoded: its records are not known, and it cannot be split.
        is_encoding: Whether a thread is encoding them.
        done: Whether its outcome is known.
        error: Why it failed, None while it has not.
        base_offset: The offset of its first record, -1 where unknown.
        looked_at: Whether its outcome was asked for, so that a flush need not raise it.
    """

    __slots__ = (
        "_on_done",
        "_room",
        "attempts",
        "base_offset",
        "base_sequence",
        "children",
        "deadline",
        "done",
        "encoded",
        "error",
        "headers",
        "identity",
        "in_doubt",
        "is_encoding",
        "is_foreign",
        "keys",
        "left",
        "log_append_time",
        "looked_at",
        "number",
        "opened_at",
        "partition",
        "retry_at",
        "timestamps",
        "values",
    )

    def __init__(
        self, partition: TopicPartition, number: int, capacity: int, now: float, delivery_timeout: float
    ) -> None:
        self.partition = partition
        self.number = number
        self.values: list[bytes | None] = []
        self.keys: list[bytes | None] | None = None
        self.headers: dict[int, Sequence[Header]] | None = None
        self.timestamps: list[int] = []
        self.left = self._room = capacity - BATCH_OVERHEAD
        self.opened_at = now
        self.deadline = now + delivery_timeout
        self.retry_at = 0.0
        self.attempts = 0
        self.in_doubt = False
        self.identity: ProducerIdentity | None = None
        self.base_sequence = NO_SEQUENCE
        self.encoded: EncodedRecords | None = None
        self.is_encoding = False
        self.is_foreign = False
        self.done = False
        self.error: ClientError | None = None
        self.base_offset: int = UNKNOWN_OFFSET
        self.log_append_time: int = NO_TIMESTAMP
        self.looked_at = False
        self.children: list[tuple[int, ProducerBatch]] = []
        self._on_done: list[Callable[[], None]] = []

    def __repr__(self) -> str:
        state = "done" if self.done else f"attempt {self.attempts}"
        return f"<ProducerBatch {self.number} of {self.partition}: {len(self.values)} records, {state}>"

    @property
    def taken(self) -> int:
        """Bytes taken from the budget."""
        return self._room - self.left

    def untake(self) -> int:
        """Set what is taken from the budget to nothing, and return what it was."""
        taken = self.taken
        self._room = self.left
        return taken

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record; only once it is drained."""
        return increment_sequence(self.base_sequence, len(self.values) - 1)

    def append(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
        timestamp: int,
        size: int,
    ) -> int:
        """Add a record of at most ``size`` bytes; return its index."""
        index = len(self.values)
        if key is not None:
            if self.keys is None:
                self.keys = [None] * index
            self.keys.append(key)
        elif self.keys is not None:
            self.keys.append(None)
        if headers:
            if self.headers is None:
                self.headers = {}
            self.headers[index] = headers
        self.values.append(value)
        self.timestamps.append(timestamp)
        self.left -= size
        return index

    def extend(
        self,
        keys: Sequence[bytes | None] | None,
        values: Sequence[bytes | None],
        timestamp: int,
        size: int,
    ) -> int:
        """Add records of at most ``size`` bytes together; return the index of the first."""
        index = len(self.values)
        if keys is not None:
            if self.keys is None:
                self.keys = [None] * index
            self.keys.extend(keys)
        elif self.keys is not None:
            self.keys.extend([None] * len(values))
        self.values.extend(values)
        self.timestamps.extend([timestamp] * len(values))
        self.left -= size
        return index

    def encode(self, compression: Compression, level: int | None) -> EncodedRecords:
        """Encode the records; safe in a thread once nothing is appended any more."""
        return encode_records(self.values, self.keys, self.headers, self.timestamps, compression, level)

    def hold_encoded(self, records: EncodedRecords, size: int) -> None:
        """Fill the batch with records that are encoded already; nothing more fits."""
        # A copy of its own: others may have the same records.
        self.encoded = records._replace(batch=None)
        self.values = [None] * records.record_count
        self.timestamps = [records.max_timestamp] * records.record_count
        self.is_foreign = True
        self.left, self._room = 0, size

    def frame(self, *, transactional: bool) -> bytearray:
        """Return the whole batch, encoded before, with the sequence it has now."""
        assert self.encoded is not None
        if self.identity is None:
            return frame_batch(self.encoded, transactional=transactional)
        return frame_batch(self.encoded, self.identity, self.base_sequence, transactional=transactional)

    def forget_sequence(self) -> None:
        """Make the batch get a new sequence number when it is drained next."""
        self.base_sequence = NO_SEQUENCE
        self.identity = None

    def when_done(self, call: Callable[[], None]) -> None:
        """Have a function called once the outcome is known; at once where it is."""
        if self.done:
            call()
        else:
            self._on_done.append(call)

    def cancel_when_done(self, call: Callable[[], None]) -> None:
        """Undo `when_done`."""
        if call in self._on_done:
            self._on_done.remove(call)

    def finish(
        self,
        error: ClientError | None,
        base_offset: int = UNKNOWN_OFFSET,
        log_append_time: int = NO_TIMESTAMP,
    ) -> None:
        """Set the outcome, once, and call those that wait for it."""
        assert not self.done
        self.done = True
        self.error = error
        self.base_offset = base_offset
        self.log_append_time = log_append_time
        waiting, self._on_done = self._on_done, []
        for call in waiting:
            call()

    def split(self, capacity: int) -> "list[ProducerBatch]":
        """Divide the records among smaller batches that take the place of this one, sequences included.

        The numbers stay contiguous, so that what is behind need not be renumbered.
        """
        pieces: list[ProducerBatch] = []
        size_each = max(1, self.taken // len(self.values))
        per_piece = max(1, min((capacity - BATCH_OVERHEAD) // size_each, (len(self.values) + 1) // 2))
        for begin in range(0, len(self.values), per_piece):
            end = min(begin + per_piece, len(self.values))
            piece = ProducerBatch(self.partition, self.number, capacity, self.opened_at, 0.0)
            piece.deadline = self.deadline
            piece.values = self.values[begin:end]
            piece.keys = None if self.keys is None else self.keys[begin:end]
            if self.headers:
                piece.headers = {i - begin: h for i, h in self.headers.items() if begin <= i < end} or None
            piece.timestamps = self.timestamps[begin:end]
            piece.left, piece._room = 0, size_each * (end - begin)
            piece.attempts = self.attempts
            if self.base_sequence != NO_SEQUENCE:
                piece.identity = self.identity
                piece.base_sequence = increment_sequence(self.base_sequence, begin)
            self.children.append((begin, piece))
            pieces.append(piece)
        pieces[-1]._room = self.taken - sum(piece.taken for piece in pieces[:-1])
        return pieces

    def locate(self, index: int) -> "tuple[ProducerBatch, int]":
        """Return the batch that a record is in now, after splits, and its index there."""
        batch = self
        while batch.children:
            begin, child = next(pair for pair in reversed(batch.children) if pair[0] <= index)
            batch, index = child, index - begin
        return batch, index

    def leaves(self) -> "list[ProducerBatch]":
        """Return the batches that the records are in now."""
        if not self.children:
            return [self]
        return [leaf for _, child in self.children for leaf in child.leaves()]

    def place(self, index: int) -> Place:
        """Return where a record of this batch stands; only once it is done without error."""
        offset = UNKNOWN_OFFSET if self.base_offset < 0 else self.base_offset + index
        timestamp = self.log_append_time if self.log_append_time >= 0 else self.timestamps[index]
        return Place(self.partition.topic, self.partition.partition, offset, timestamp)
