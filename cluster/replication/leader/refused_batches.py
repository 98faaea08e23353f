"""What was refused for a passing reason, so that the batches sent behind it are refused too.

An idempotent producer has up to five requests on their way (KIP-98). The first may come a moment before this
broker leads, and the second a moment after. Taken by itself, the second is a gap in the sequence, or, from a
producer that is new here, the begin of one; either harms a client that did nothing wrong. librdkafka answers a gap
by a new epoch, in which it sends again whatever is not acknowledged yet, on any partition: records that the log
has already come into it twice. So the second gets the answer of the first; the client then sends both again, in
order.

Apache Kafka has that window; see docs/divergence.md.
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
    """By partition and producer, the batch that was refused and how many more may be refused for its sake.

    Falsy while there are none, which is nearly always. A note goes when its batch comes again, when another epoch
    does, when the log has gone on elsewhere in the meantime, and after as many batches as can have been on their
    way; of the rest, the oldest go beyond 4096.
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
        """Return the error of the refused batch that a client's records were sent behind, None if there is none.

        Args:
            topic_partition: Where they are to go.
            records: A batch.
            log: What this broker leads; a batch that continues or repeats what is in it is not held back.
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
    """A refused batch, and how many more may be refused for its sake."""

    __slots__ = ("epoch", "error", "left", "sequence")

    def __init__(self, header: BatchHeader, error: Error) -> None:
        self.epoch = header.producer_epoch
        self.sequence = header.base_sequence
        self.error = error
        self.left = _BEHIND_MAX

    def is_before(self, header: BatchHeader) -> bool:
        """Tell whether a batch comes after the refused one in its producer's order; sequence numbers wrap."""
        distance = decrement_sequence(header.base_sequence, self.sequence)
        return header.producer_epoch == self.epoch and 0 < distance < _FAR


def _sequenced(records: memoryview | bytearray | None) -> BatchHeader | None:
    """Read the header of a batch with sequence numbers; None where there are none, whatever the bytes are."""
    if records is None or len(records) < HEADER_SIZE:
        return None
    try:
        header = read_header(records)
    except CorruptRecordError:
        return None
    return header if header.has_producer_id and header.base_sequence != NO_SEQUENCE else None
