"""The state in a partition of ``__consumer_offsets``, as far as it has been read: each group's record and offsets.

The leader serves from it and keeps it up to date with what it writes; a follower keeps it up to date by reading what
it replicates, so that it can take over at once. Both write it to a snapshot now and then.

A state is valid for a log that has, just before `next_offset`, a record of leader epoch `epoch`: then all earlier
records are the same, too. Applying known records again, in their order, leads to the same state in the end. So a
snapshot can be written while the groups go on, and a leader can give up on a write that may be in the log all the same:
the state then includes some of the records from `next_offset` up to `through`, and the next load reads those again.
Such a state is valid only for a log that also has the record before `through`.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from cluster.coordinator.committed_offsets import CommittedOffsets
from cluster.coordinator.group_records import GROUP_KEY_VERSION, group_id_in
from cluster.coordinator.offset_bytes import is_value, split_offset_key
from wire.errors import RemoteProtocolError
from wire.records.batch import BatchHeader, check_crc, iter_headers
from wire.records.end_transaction import read_end_transaction_marker
from wire.records.record import iter_records
from wire.types import NO_LEADER_EPOCH, NO_OFFSET, LeaderEpoch, Offset, ProducerId, WallMs

if TYPE_CHECKING:
    from storage.log import Log

logger = logging.getLogger(__name__)

_NEVER: Final = WallMs(0)


@dataclass(slots=True, eq=False)
class StoredGroup:
    """The state of one group in the log.

    Attributes:
        value: The value of its last record; None where there is none.
        offsets: Its offsets.
    """

    value: bytes | None = None
    offsets: CommittedOffsets = field(default_factory=CommittedOffsets)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known of the group."""
        return self.value is None and self.offsets.is_empty


@dataclass(slots=True, eq=False)
class StoredPartition:
    """The state in the log of one partition before `next_offset`.

    Attributes:
        next_offset: Everything before it is included.
        epoch: The leader epoch of the record before it; -1 where there is none.
        groups: By their ids.
        open: By producer, the groups whose offsets its open transaction holds.
        changes: Records applied since the last snapshot.
        through: Nothing from this offset on is included; never before `next_offset`.
        through_epoch: The leader epoch of the record before `through`.
        has_gap: Whether the log may have a record from `next_offset` on that is not included.
        snapshot_at: When the last snapshot was begun; 0 where there is none.
    """

    next_offset: Offset
    epoch: LeaderEpoch = NO_LEADER_EPOCH
    groups: dict[str, StoredGroup] = field(default_factory=dict)
    open: dict[ProducerId, set[str]] = field(default_factory=dict)
    changes: int = 0
    through: Offset = NO_OFFSET
    through_epoch: LeaderEpoch = NO_LEADER_EPOCH
    has_gap: bool = False
    snapshot_at: WallMs = _NEVER

    @property
    def knows_nothing(self) -> bool:
        """Whether nothing has been read yet."""
        return self.epoch == NO_LEADER_EPOCH and not self.groups

    @property
    def known_through(self) -> tuple[Offset, LeaderEpoch]:
        """The offset from which on nothing is known, and the leader epoch of the record before it."""
        return self.through, self.through_epoch

    def is_good_for(self, log: "Log") -> bool:
        """Whether a log still begins with what is known of it."""
        if not log.log_start_offset <= self.next_offset <= log.log_end_offset:
            return False
        epoch_at = log.leader_epochs.epoch_for_offset
        if self.through > self.next_offset and (
            self.through > log.log_end_offset or epoch_at(Offset(self.through - 1)) != self.through_epoch
        ):
            return False
        if self.epoch == NO_LEADER_EPOCH:
            return self.next_offset == log.log_start_offset and self.knows_nothing
        return epoch_at(Offset(self.next_offset - 1)) == self.epoch

    def group(self, group_id: str) -> StoredGroup:
        """Return a group, a new one if there is none."""
        found = self.groups.get(group_id)
        if found is None:
            found = self.groups[group_id] = StoredGroup()
        return found

    def forget_if_empty(self, group_id: str) -> None:
        """Drop a group that has no state left."""
        found = self.groups.get(group_id)
        if found is not None and found.is_empty:
            del self.groups[group_id]

    def wrote(self, next_offset: Offset, epoch: LeaderEpoch, records: int) -> None:
        """Note that the leader's records up to an offset, already applied here, are in the log."""
        self.changes += records
        if next_offset > self.through:
            self.through, self.through_epoch = next_offset, epoch
            if not self.has_gap:
                self.next_offset, self.epoch = next_offset, epoch

    def read_to(self, next_offset: Offset, epoch: LeaderEpoch, records: int = 0) -> None:
        """Note that the log has been read up to an offset."""
        self.changes += records
        self.next_offset, self.epoch = next_offset, epoch
        if next_offset >= self.through:
            self.through, self.through_epoch = next_offset, epoch
            self.has_gap = False

    def hold(self, producer: ProducerId, group_id: str) -> None:
        """Note that a producer's transaction holds offsets of a group."""
        self.open.setdefault(producer, set()).add(group_id)

    def end_transaction(self, producer: ProducerId, *, commit: bool, marker: Offset | None = None) -> None:
        """End a producer's transaction in this partition.

        Args:
            producer: Whose transaction.
            commit: How it ended.
            marker: The offset of its marker: later records belong to a later transaction. None if that is at the log's
                end.
        """
        for group_id in self.open.pop(producer, ()):
            group = self.groups.get(group_id)
            if group is not None and group.offsets.end_transaction(producer, commit=commit, marker=marker):
                self.hold(producer, group_id)

    def apply(self, data: bytes) -> Iterator[int]:
        """Apply whole batches, encoded as in the log; those before `next_offset` are known and skipped.

        A batch or record that cannot be read is skipped and logged as an error: one unreadable offset must not make a
        broker lose all the groups of the partition.

        Yields:
            After each batch how many records it had: the caller can stop there, and continue with a new call.
        """
        for position, header in iter_headers(data):
            if header.next_offset <= self.next_offset:
                continue
            try:
                check_crc(data, position, header)
                self._apply(data, position, header)
            except RemoteProtocolError as error:
                logger.error("a batch at offset %d cannot be read: %s", header.base_offset, error)
            self.read_to(header.next_offset, header.partition_leader_epoch, header.record_count)
            yield header.record_count

    def _apply(self, data: bytes, position: int, header: BatchHeader) -> None:
        if header.is_control:
            for record in iter_records(data, position, header):
                marker = read_end_transaction_marker(record)
                if marker is not None:
                    self.end_transaction(
                        header.producer_id, commit=marker.committed, marker=header.base_offset
                    )
            return
        producer = header.producer_id if header.is_transactional else None
        for record in iter_records(data, position, header):
            key = record.key
            if key is None or len(key) < 2:
                logger.error("the record at offset %d has no key", record.offset)
            elif key[0] == 0 and key[1] < GROUP_KEY_VERSION:
                self._apply_offset(key, record.value, header.base_offset, producer)
            elif key[0] == 0 and key[1] == GROUP_KEY_VERSION:
                self._apply_group(group_id_in(key), record.value)
            # Other kinds of keys belong to later versions of Kafka.

    def _apply_group(self, group_id: str, value: bytes | None) -> None:
        self.group(group_id).value = value
        if value is None:
            self.forget_if_empty(group_id)

    def _apply_offset(
        self, key: bytes, value: bytes | None, record_offset: Offset, producer: ProducerId | None
    ) -> None:
        named = split_offset_key(key)
        if named is None or (value is not None and not is_value(value)):
            logger.error("a committed offset cannot be read: key %r, value %r", key, value)
            return
        group_id, place = named
        offsets = self.group(group_id).offsets
        if producer is not None:
            if value is None:
                offsets.discard_held(producer, place)
            else:
                offsets.hold(producer, {place: value}, record_offset)
                self.hold(producer, group_id)
        elif value is not None:
            offsets.put(place, value, record_offset)
            return
        else:
            # An offset that an open transaction holds for the place stays.
            offsets.kept.pop(place, None)
        self.forget_if_empty(group_id)
