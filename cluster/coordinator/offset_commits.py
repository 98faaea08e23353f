"""Commits and fetches of offsets, for the members of a group or for any client.

A commit is answered when the log has it on every in-sync replica, and visible from then on. A transaction's offsets are
written at once, and held until its marker comes.
"""

from collections.abc import Callable, Iterable, Mapping

from cluster.coordinator.group_coordinator import GroupCoordinator
from cluster.coordinator.group_records import offset_records
from cluster.coordinator.hosted_groups import HostedGroup
from cluster.coordinator.offset_bytes import CommittedOffset, Place, place_of, value_of
from cluster.coordinator.offsets_log import Writer, offset_error, verification_error
from cluster.statemachines import group_requests
from cluster.statemachines.group import GroupState
from storage.verification import VerificationToken
from wire.errors import Error
from wire.internal_topics import CONSUMER_OFFSETS
from wire.types import NO_OFFSET, Generation, Offset, ProducerId, TopicPartition

OnCommitted = Callable[[Mapping[TopicPartition, Error]], None]
OnVerified = Callable[[Error, VerificationToken | None], None]
Verify = Callable[[TopicPartition, OnVerified], None]


class OffsetCommits:
    """The offsets of the groups that this broker coordinates.

    Args:
        coordinator: Hosts the groups and their members.
    """

    def __init__(self, coordinator: GroupCoordinator) -> None:
        self._coordinator = coordinator
        self._hosted = coordinator.hosted

    def commit(
        self,
        group_id: str,
        *,
        member_id: str,
        instance_id: str | None,
        generation: Generation,
        offsets: Mapping[TopicPartition, CommittedOffset],
        on_done: OnCommitted,
    ) -> None:
        """Commit offsets; ``on_done`` is called once with each partition's outcome, when they are written."""
        error = self._hosted.status(group_id, empty_allowed=True)
        hosted = None
        if error is Error.NONE:
            hosted = self._hosted.find(group_id)
            if hosted is None:
                if generation < 0:
                    hosted = self._hosted.find_or_make(group_id)
                else:
                    error = Error.ILLEGAL_GENERATION
        if hosted is not None:
            error, effects = group_requests.check_commit(hosted.group, member_id, instance_id, generation)
            self._coordinator.carry_out(hosted, effects)
        if hosted is None or error is not Error.NONE:
            on_done(dict.fromkeys(offsets, error))
            return
        self._write(hosted, offsets, on_done)

    def commit_in_transaction(
        self,
        group_id: str,
        *,
        writer: Writer,
        member_id: str,
        instance_id: str | None,
        generation: Generation,
        offsets: Mapping[TopicPartition, CommittedOffset],
        on_done: OnCommitted,
        verify: Verify | None = None,
    ) -> None:
        """Write offsets that take effect when the writer's transaction commits (KIP-98, KIP-447).

        Args:
            group_id: The group.
            writer: The producer.
            member_id: Which member commits; empty, and without a generation, if the members are not to be checked.
            instance_id: Its instance id.
            generation: Its generation.
            offsets: What to commit.
            on_done: Called once with each partition's outcome, when they are written.
            verify: Verifies that the group's partition belongs to the transaction (KIP-890); None if that is known.
        """
        error = self._hosted.status(group_id)
        if error is not Error.NONE:
            on_done(dict.fromkeys(offsets, error))
            return

        def verified(error: Error, token: VerificationToken | None) -> None:
            if error is not Error.NONE:
                on_done(dict.fromkeys(offsets, verification_error(error)))
                return
            # The group is checked after the verification, which may have taken long (KAFKA-15784).
            error = self._hosted.status(group_id)
            hosted = None
            if error is Error.NONE:
                hosted = self._hosted.find_or_make(group_id)
                error, _ = group_requests.check_commit(
                    hosted.group, member_id, instance_id, generation, transactional=True
                )
            if hosted is None or error is not Error.NONE:
                on_done(dict.fromkeys(offsets, error))
            else:
                self._write(hosted, offsets, on_done, writer, token)

        if verify is None:
            verified(Error.NONE, None)
        else:
            verify(TopicPartition(CONSUMER_OFFSETS, self._hosted.led.number_of(group_id)), verified)

    def write_marker(
        self,
        number: int,
        producer: ProducerId,
        marker: bytearray,
        on_done: Callable[[Error], None],
        *,
        commit: bool,
    ) -> None:
        """End a producer's transaction in a partition that we lead: its offsets take effect, or are dropped.

        Args:
            number: The partition of ``__consumer_offsets``.
            producer: Whose transaction.
            marker: The batch to write.
            on_done: Called once, when all in-sync replicas have the marker and its offsets are visible.
            commit: How the transaction ends.
        """
        partition = self._hosted.led.get(number)
        if partition is None or partition.is_loading:
            # A load may have read past the marker's place before its groups are served.
            on_done(Error.NOT_LEADER_OR_FOLLOWER)
            return

        def done(error: Error, offset: Offset) -> None:
            if error is Error.NONE:
                partition.stored.end_transaction(producer, commit=commit, marker=offset)
            on_done(error)

        self._coordinator.log.append_marker(partition, marker, done)

    def committed(
        self, group_id: str, partitions: Iterable[TopicPartition] | None, *, require_stable: bool
    ) -> tuple[Error, dict[TopicPartition, CommittedOffset | Error | None]]:
        """Return committed offsets: those of some partitions (None for one without), or all.

        With ``require_stable`` a partition that an open transaction, or a commit being written, will change answers
        UNSTABLE_OFFSET_COMMIT.
        """
        error = self._hosted.status(group_id, empty_allowed=True)
        if error is not Error.NONE:
            return error, {}
        hosted = self._hosted.find(group_id)
        if hosted is None or hosted.group.state is GroupState.DEAD:
            return Error.NONE, dict.fromkeys(partitions or ())
        offsets = hosted.offsets
        found: dict[TopicPartition, CommittedOffset | Error | None] = (
            dict(offsets)
            if partitions is None
            else {partition: offsets.get(partition) for partition in partitions}
        )
        if require_stable and offsets.is_moving:
            for partition in found:
                if offsets.is_unstable(place_of(partition)):
                    found[partition] = Error.UNSTABLE_OFFSET_COMMIT
        return Error.NONE, found

    def _write(
        self,
        hosted: HostedGroup,
        offsets: Mapping[TopicPartition, CommittedOffset],
        on_done: OnCommitted,
        writer: Writer | None = None,
        token: VerificationToken | None = None,
    ) -> None:
        limit = self._coordinator.settings.offset_metadata_max
        results: dict[TopicPartition, Error] = {}
        written: list[TopicPartition] = []
        values: dict[Place, bytes] = {}
        for partition, committed in offsets.items():
            if len(committed.metadata) > limit:
                results[partition] = Error.OFFSET_METADATA_TOO_LARGE
            else:
                written.append(partition)
                values[place_of(partition)] = value_of(committed)
        if not written:
            on_done(results)
            return
        kept = hosted.offsets
        if writer is None:
            kept.begin_commit(values)
        else:
            kept.hold(writer.producer_id, values, NO_OFFSET)
            hosted.partition.stored.hold(writer.producer_id, hosted.group.group_id)

        def done(error: Error, offset: Offset) -> None:
            where = offset if error is Error.NONE else None
            if writer is None:
                kept.end_commit(values, where)
            else:
                kept.end_hold(writer.producer_id, values, where)
            on_done({**results, **dict.fromkeys(written, offset_error(error))})

        records = offset_records(hosted.group.group_id, values, self._coordinator.clock.wall_ms())
        self._coordinator.log.append(hosted.partition, records, done, writer, token)
