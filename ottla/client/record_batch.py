"""What users get: batches, and records made on access."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar

from ottla.client.batch_decoding import PartitionRecords, rows
from ottla.client.batch_encoding import EncodedRecords
from ottla.client.codecs import Topic, raw
from ottla.client.errors import CorruptData, DecodeError
from wire.records.errors import CorruptRecordError
from wire.records.record import Header
from wire.types import TopicPartition

if TYPE_CHECKING:
    import pyarrow

K = TypeVar("K", covariant=True)
V = TypeVar("V", covariant=True)

OnBad = Literal["raise", "skip"] | Callable[["Record[Any, Any]", DecodeError], None]
"""What becomes of a record whose key or value cannot be decoded: raise on access, skip it, or call this and skip it."""


class Record(Generic[K, V]):
    """One record. Key and value are decoded on each access.

    Attributes:
        batch: The batch that it came in; it knows topic and partition.
        offset: Its offset.
        timestamp: Milliseconds since 1970, -1 for none.
        raw_key: The key's bytes, None for null.
        raw_value: The value's bytes, None for null.
        headers: Names and values, in order.
    """

    __slots__ = ("batch", "headers", "offset", "raw_key", "raw_value", "timestamp")

    def __init__(
        self,
        batch: "Batch[K, V]",
        offset: int,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
    ) -> None:
        self.batch = batch
        self.offset = offset
        self.timestamp = timestamp
        self.raw_key = key
        self.raw_value = value
        self.headers = headers

    def __repr__(self) -> str:
        return f"Record({self.batch.place}@{self.offset}, key={self.raw_key!r}, value={self.raw_value!r})"

    @property
    def topic(self) -> str:
        """The topic's name."""
        return self.batch.topic

    @property
    def partition(self) -> int:
        """The partition's number."""
        return self.batch.partition

    @property
    def key(self) -> K:
        """The key, None where it is null.

        Raises:
            DecodeError: It cannot be decoded.
        """
        key: K = self._decoded(self.raw_key, self.batch.codecs.key)
        return key

    @property
    def value(self) -> V:
        """The value, None where it is null.

        Raises:
            DecodeError: It cannot be decoded.
        """
        value: V = self._decoded(self.raw_value, self.batch.codecs.value)
        return value

    def _decoded(self, data: bytes | None, codec: Any) -> Any:
        if data is None or codec is raw:
            return data
        try:
            return codec.decode(data)
        except Exception as error:
            raise DecodeError(
                f"{self.batch.place} at offset {self.offset}: not {codec.name}: {error}",
                self,
                topic=self.topic,
                partition=self.partition,
            ) from error

    def done(self) -> None:
        """Mark this record as done; the committed offset is the first of the batch that is not."""
        self.batch.done(self)


class RawRecord(Record[bytes, bytes]):
    """A record of a topic without codecs: key and value are plain attributes, which is faster."""

    __slots__ = ("key", "value")

    def __init__(
        self,
        batch: "Batch[bytes, bytes]",
        offset: int,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
    ) -> None:
        self.batch = batch
        self.offset = offset
        self.timestamp = timestamp
        self.key = key  # type: ignore[misc, assignment]  # slots in the place of properties, for speed
        self.value = value  # type: ignore[misc, assignment]  # likewise
        self.headers = headers

    raw_key = property(lambda self: self.key)
    raw_value = property(lambda self: self.value)


class Batch(Generic[K, V]):
    """Records of one partition: what one fetch brought, or a part of it.

    Attributes:
        codecs: The topic with the codecs of its keys and values.
        place: Topic and partition.
        first_offset: Where it begins; offsets may have gaps.
        next_offset: The offset behind it, with gaps, markers and aborted records counted.
        leader_epoch: The leader epoch of its last record, -1 where unknown.
        high_watermark: The offset behind the last record that consumers could see at the time of the fetch.
    """

    __slots__ = (
        "_begin",
        "_end",
        "_on_bad",
        "_records",
        "codecs",
        "first_offset",
        "high_watermark",
        "leader_epoch",
        "next_offset",
        "ownership",
        "place",
    )

    def __init__(
        self,
        codecs: Topic[K, V],
        place: TopicPartition,
        records: PartitionRecords,
        high_watermark: int,
        on_bad: OnBad,
        span: tuple[int, int] | None = None,
    ) -> None:
        self.codecs = codecs
        self.place = place
        self.first_offset = records.first_offset
        self.next_offset = records.next_offset
        self.leader_epoch = records.last_epoch
        self.high_watermark = high_watermark
        self.ownership: Ownership | None = None
        self._records = records
        self._on_bad = on_bad
        self._begin = 0 if span is None else span[0]
        self._end = None if span is None else span[1]

    def __repr__(self) -> str:
        return f"<Batch of {self.place}: {self.first_offset} to {self.next_offset}>"

    @property
    def topic(self) -> str:
        """The topic's name."""
        return self.place.topic

    @property
    def partition(self) -> int:
        """The partition's number."""
        return self.place.partition

    @property
    def size(self) -> int:
        """Bytes that it keeps in memory."""
        return self._records.size

    def __len__(self) -> int:
        end = self._records.count if self._end is None else self._end
        return end - self._begin

    def _columns(self) -> tuple[Any, slice]:
        try:
            return self._records.columns(), slice(self._begin, self._end)
        except CorruptRecordError as error:
            raise CorruptData(
                f"{self.place} from offset {self.first_offset} on: {error}",
                topic=self.topic,
                partition=self.partition,
            ) from None

    def __iter__(self) -> Iterator[Record[K, V]]:
        columns, span = self._columns()
        kind: Any = RawRecord if self.codecs.key is raw and self.codecs.value is raw else Record
        headers = rows(columns)
        fields: Any = (columns.offsets, columns.timestamps, columns.keys, columns.values)
        if self._begin or self._end is not None:
            fields = tuple(each[span] for each in fields)
            headers = [columns.headers.get(i, ()) for i in range(self._begin, self._begin + len(fields[0]))]
        made: Iterator[Record[K, V]] = map(kind, repeat(self), *fields, headers)
        return made if self._on_bad == "raise" or kind is RawRecord else self._good(made)

    def _good(self, records: Iterator[Record[K, V]]) -> Iterator[Record[K, V]]:
        for record in records:
            try:
                _ = record.key, record.value
            except DecodeError as error:
                if callable(self._on_bad):
                    self._on_bad(record, error)
                continue
            yield record

    def __getitem__(self, index: int) -> Record[K, V]:
        columns, _ = self._columns()
        count = len(self)
        if not -count <= index < count:
            raise IndexError(f"record {index} of {count}")
        at = self._begin + (index + count if index < 0 else index)
        kind: Any = RawRecord if self.codecs.key is raw and self.codecs.value is raw else Record
        made: Record[K, V] = kind(
            self,
            columns.offsets[at],
            columns.timestamps[at],
            columns.keys[at],
            columns.values[at],
            columns.headers.get(at, ()),
        )
        return made

    def values(self) -> Sequence[bytes | None]:
        """Return the values' bytes, undecoded."""
        columns, span = self._columns()
        found: Sequence[bytes | None] = columns.values[span]
        return found

    def keys(self) -> Sequence[bytes | None]:
        """Return the keys' bytes, undecoded."""
        columns, span = self._columns()
        found: Sequence[bytes | None] = columns.keys[span]
        return found

    def offsets(self) -> Sequence[int]:
        """Return the offsets."""
        columns, span = self._columns()
        found: Sequence[int] = columns.offsets[span]
        return found

    def timestamps(self) -> Sequence[int]:
        """Return the timestamps in milliseconds."""
        columns, span = self._columns()
        found: Sequence[int] = columns.timestamps[span]
        return found

    def whole_batches(self) -> "list[tuple[int, EncodedRecords]] | None":
        """Return the producers' batches as they were written, each with its first offset; see `Producer.post_encoded`.

        Returns:
            None where that is not possible, since a producer would give the records other offsets or timestamps; or
            without the reader's option ``packed``.
        """
        if self._begin or self._end is not None:
            return None
        return self._records.whole_batches()

    def is_log_append_time(self, offset: int) -> bool:
        """Return whether the timestamp of the record at an offset was set by the broker, not by the producer."""
        return self._records.is_log_append_time(offset)

    def value_views(self) -> list[memoryview | None]:
        """Return the values as views into the fetched bytes, not copied: each keeps all of the fetch in memory."""
        columns, span = self._columns()
        return list(columns.value_views[span])

    def to_arrow(self) -> "pyarrow.Table":
        """Return an Arrow table: offset, timestamp, key, value, headers; the schema is always the same.

        Keys and values are views into the fetched bytes. Needs pyarrow and numpy (``ottla[arrow]``).
        """
        from ottla.client.arrow_tables import to_table

        try:
            return to_table(self._records, self._begin, self._end)
        except CorruptRecordError as error:
            raise CorruptData(f"{self.place} from offset {self.first_offset} on: {error}") from None

    async def prepare(self) -> None:
        """Have the codecs look up what they need for these records.

        Raises:
            ClientError: They cannot.
        """
        if self.codecs.key.prepare is not None:
            await self.codecs.key.prepare(self.keys())
        if self.codecs.value.prepare is not None:
            await self.codecs.value.prepare(self.values())

    def cut(self, stop: int | None) -> "Batch[K, V]":
        """Return the batch without the records from an offset on."""
        if stop is None or self.next_offset <= stop:
            return self
        kept = bisect_left(self.offsets(), stop)
        span = (self._begin, self._begin + kept)
        part = Batch(self.codecs, self.place, self._records, self.high_watermark, self._on_bad, span)
        part.first_offset, part.next_offset = self.first_offset, stop
        return part

    def parts(self, max_records: int) -> "list[Batch[K, V]]":
        """Divide the batch into ones of at most ``max_records`` records; each ends where the next begins."""
        count = len(self)
        if count <= max_records:
            return [self]
        offsets = self.offsets()
        divided = []
        for begin in range(0, count, max_records):
            end = min(begin + max_records, count)
            part = Batch(
                self.codecs,
                self.place,
                self._records,
                self.high_watermark,
                self._on_bad,
                (self._begin + begin, self._begin + end),
            )
            part.first_offset = self.first_offset if begin == 0 else offsets[begin]
            part.next_offset = self.next_offset if end == count else offsets[end]
            divided.append(part)
        return divided

    @property
    def lost(self) -> bool:
        """Whether the partition has been given to another member meanwhile: `done` counts for nothing then."""
        return self.ownership is not None and self.ownership.lost

    def done(self, record: Record[Any, Any] | None = None) -> None:
        """Mark the batch, or one of its records, as done; of a reader's batch it means nothing."""
        if self.ownership is not None:
            self.ownership.batch_done(self, None if record is None else record.offset)


class Ownership(Protocol):
    """What a batch of a group knows of its partition; the group's member has it."""

    @property
    def lost(self) -> bool:
        """Whether another member may have the partition."""
        ...

    def batch_done(self, batch: Batch[Any, Any], offset: int | None) -> None:
        """Note that a batch, or the record at an offset, is done."""
        ...
