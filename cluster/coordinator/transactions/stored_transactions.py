"""The state in a partition of ``__transaction_state``, as far as it has been read: the last value of each id.

The leader adds what it has written, a follower reads what it replicates, so that it can take over at once. A value that
cannot be read makes the whole partition unreadable: a partial state would forget ids.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from cluster.coordinator.transactions.state_records import id_in, peek_state
from wire.records.batch import BatchHeader, check_crc, iter_headers
from wire.records.record import iter_records
from wire.types import NO_LEADER_EPOCH, LeaderEpoch, Offset, WallMs

if TYPE_CHECKING:
    from storage.log import Log

logger = logging.getLogger(__name__)

_NEVER: Final = WallMs(0)


@dataclass(slots=True, eq=False)
class StoredTransactions:
    """The state in the log of one partition before `next_offset`.

    Attributes:
        next_offset: Everything before it is included.
        epoch: The leader epoch of the record before it; -1 where there is none.
        values: By transactional id.
        is_exact: Whether no record at or after `next_offset` is included, and no write is undecided.
        changes: Records applied since the last snapshot.
        snapshot_at: When the last snapshot was begun; 0 where there is none.
    """

    next_offset: Offset
    epoch: LeaderEpoch = NO_LEADER_EPOCH
    values: dict[str, bytes] = field(default_factory=dict)
    is_exact: bool = True
    changes: int = 0
    snapshot_at: WallMs = _NEVER

    @property
    def knows_nothing(self) -> bool:
        """Whether nothing has been read yet."""
        return self.epoch == NO_LEADER_EPOCH and not self.values

    @property
    def known_through(self) -> tuple[Offset, LeaderEpoch]:
        """The offset from which on nothing is known, and the leader epoch of the record before it."""
        return self.next_offset, self.epoch

    def is_good_for(self, log: "Log") -> bool:
        """Whether a log still begins with what is known of it."""
        if not self.is_exact or not log.log_start_offset <= self.next_offset <= log.log_end_offset:
            return False
        if self.epoch == NO_LEADER_EPOCH:
            return self.next_offset == log.log_start_offset and self.knows_nothing
        return log.leader_epochs.epoch_for_offset(Offset(self.next_offset - 1)) == self.epoch

    def wrote(
        self, first_offset: Offset, next_offset: Offset, epoch: LeaderEpoch, values: dict[str, bytes | None]
    ) -> None:
        """Add the leader's records that all in-sync replicas have."""
        if first_offset != self.next_offset:
            self.is_exact = False
        self.next_offset, self.epoch = next_offset, epoch
        self.changes += len(values)
        self._put(values)

    def read_to(self, next_offset: Offset, epoch: LeaderEpoch, records: int = 0) -> None:
        """Note that the log has been read up to an offset."""
        self.next_offset, self.epoch = next_offset, epoch
        self.changes += records

    def _put(self, values: dict[str, bytes | None]) -> None:
        for transactional_id, value in values.items():
            if value is None:
                self.values.pop(transactional_id, None)
            else:
                self.values[transactional_id] = value

    def apply(self, data: bytes) -> Iterator[int]:
        """Apply whole batches, encoded as in the log; those before `next_offset` are skipped.

        Yields:
            After each batch how many records it had: the caller can stop there, and continue with a new call.

        Raises:
            RemoteProtocolError: a batch, key or value cannot be read.
        """
        for position, header in iter_headers(data):
            if header.next_offset <= self.next_offset:
                continue
            check_crc(data, position, header)
            if not header.is_control:
                self._apply(data, position, header)
            self.read_to(header.next_offset, header.partition_leader_epoch, header.record_count)
            yield header.record_count

    def _apply(self, data: bytes, position: int, header: BatchHeader) -> None:
        for record in iter_records(data, position, header):
            key = record.key
            transactional_id = None if key is None else id_in(key)
            if transactional_id is None:
                # From a later version of Kafka: older ones skip it, too.
                logger.warning("the record at offset %d has a key of an unknown kind", record.offset)
            elif record.value is None:
                self.values.pop(transactional_id, None)
            else:
                peek_state(record.value)
                self.values[transactional_id] = record.value
