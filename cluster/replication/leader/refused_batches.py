"""Batches that were refused for a transient reason, so that the batches sent behind them are refused too.

An idempotent producer has up to five requests in flight (KIP-98). The first can arrive a moment before this broker
leads, and the second a moment after. By itself, the second is a gap in the sequence or, from a producer that is new
here, the start of one; either harms a client that did nothing wrong. librdkafka reacts to a gap with a new epoch, in
which it resends whatever is not acknowledged yet, on any partition: records that the log already has are then appended
twice. So the second gets the answer of the first, and the client resends both, in order. Apache Kafka has this window;
see docs/divergence.md.
"""

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from storage.producer_entry import BATCHES_KEPT
from wire.errors import Error
from wire.records.batch import HEADER_SIZE, NO_SEQUENCE, BatchHeader, decrement_sequence, read_header
from wire.records.errors import CorruptRecordError

if TYPE_CHECKING:
    from storage.log import Log
    from wire.types import ProducerId, TopicPartition

PASSING: Final = frozenset(
    {
        Error.UNKNOWN_TOPIC_OR_PARTITION,
        Error.NOT_LEADER_OR_FOLLOWER,
        Error.NOT_ENOUGH_REPLICAS,
        Error.KAFKA_STORAGE_ERROR,
    }
)
"""Refusals after which a client sends the same batch again."""
_NOTES_MAX: Final = 4096
_BEHIND_MAX: Final = BATCHES_KEPT - 1
_FAR: Final = 1 << 30


class RefusedBatches:
    """By partition and producer, the batch that was refused, and how many more may be refused because of it.

    Falsy while there are none, which is nearly always. An entry is removed when its batch or another epoch comes, when
    the log has advanced in the meantime, and after as many batches as can have been in flight; beyond 4096 entries, the
    oldest are removed.
    """

    __slots__ = ("_notes",)

    def __init__(self) -> None:
        self._notes: OrderedDict[tuple[TopicPartition, ProducerId], _Note] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._notes)

    def __len__(self) -> int:
        return len(self._notes)

    def note(
        self, topic_partition: "TopicPartition", records: memoryview | bytearray | None, error: Error
    ) -> None:
        """Remember a client's batch that was refused; only `PASSING` errors and idempotent producers matter."""
        header = _sequenced(records) if error in PASSING else None
        if header is None:
            return
        key = (topic_partition, header.producer_id)
        known = self._notes.get(key)
        if known is not None and known.left and known.is_before(header):
            known.left -= 1
            return
        self._notes[key] = _Note(header, error)
        self._notes.move_to_end(key)
        if len(self._notes) > _NOTES_MAX:
            self._notes.popitem(last=False)

    def error_for(
        self, topic_partition: "TopicPartition", records: memoryview | bytearray | None, log: "Log"
    ) -> Error | None:
        """Return the error of the refused batch that a client's records were sent behind; None if there is none.

        Args:
            topic_partition: Where the records are to be appended.
            records: A batch.
            log: The leader's log; a batch that continues or repeats its content is not refused.
        """
        header = _sequenced(records)
        if header is None:
            return None
        key = (topic_partition, header.producer_id)
        note = self._notes.get(key)
        if note is None:
            return None
        if note.left and note.is_before(header) and not log.producer_state.continues(header):
            note.left -= 1
            return note.error
        del self._notes[key]
        return None


class _Note:
    """A refused batch, and how many more may be refused because of it."""

    __slots__ = ("epoch", "error", "left", "sequence")

    def __init__(self, header: BatchHeader, error: Error) -> None:
        self.epoch = header.producer_epoch
        self.sequence = header.base_sequence
        self.error = error
        self.left = _BEHIND_MAX

    def is_before(self, header: BatchHeader) -> bool:
        """Return whether a batch comes after the refused one in its producer's order; sequence numbers wrap."""
        distance = decrement_sequence(header.base_sequence, self.sequence)
        return header.producer_epoch == self.epoch and 0 < distance < _FAR


def _sequenced(records: memoryview | bytearray | None) -> BatchHeader | None:
    """Return the header of a batch with sequence numbers; None for any other bytes."""
    if records is None or len(records) < HEADER_SIZE:
        return None
    try:
        header = read_header(records)
    except CorruptRecordError:
        return None
    return header if header.has_producer_id and header.base_sequence != NO_SEQUENCE else None
