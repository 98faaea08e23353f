"""Moving partitions to other brokers, and electing their leaders: what only the controller can do."""

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum

from ottla.client.admin.descriptions import Reassignment
from ottla.client.admin.router import Router, raise_for
from ottla.client.errors import ClientError, refusal
from wire.errors import Error
from wire.types import BrokerId, TopicPartition


class Election(IntEnum):
    """Kinds of elections, as numbered on the wire."""

    PREFERRED = 0
    UNCLEAN = 1


class MovesAdmin:
    """The admin client's calls for replicas and leaders."""

    def __init__(self, router: Router) -> None:
        self._router = router

    async def list_reassignments(self) -> dict[TopicPartition, Reassignment]:
        """Return the partitions that are being moved."""
        from wire.messages.list_partition_reassignments import (
            ListPartitionReassignmentsRequest,
            ListPartitionReassignmentsResponse,
        )

        request = ListPartitionReassignmentsRequest(topics=None, timeout_ms=self._router.timeout_ms)
        answer: ListPartitionReassignmentsResponse = await self._router.ask_controller(
            request, lambda r: [r.error_code]
        )
        raise_for(answer.error_code, answer.error_message, "listing reassignments")
        return {
            TopicPartition(topic.name, partition.partition_index): Reassignment(
                tuple(partition.replicas),
                tuple(partition.adding_replicas),
                tuple(partition.removing_replicas),
            )
            for topic in answer.topics
            for partition in topic.partitions
        }

    async def alter_reassignments(
        self, targets: Mapping[TopicPartition, Sequence[BrokerId] | None]
    ) -> dict[TopicPartition, ClientError | None]:
        """Begin to move partitions, or cancel their moves.

        Args:
            targets: The new replicas of each partition, None to cancel its move.

        Returns:
            The error of each; None if its move was begun or cancelled.

        Raises:
            ClientError: the controller refuses all of it.
        """
        from wire.messages import alter_partition_reassignments as api

        by_topic: dict[str, list[api.ReassignablePartition]] = {}
        for partition, replicas in sorted(targets.items()):
            by_topic.setdefault(partition.topic, []).append(
                api.ReassignablePartition(
                    partition_index=partition.partition,
                    replicas=None if replicas is None else list(replicas),
                )
            )
        request = api.AlterPartitionReassignmentsRequest(
            timeout_ms=self._router.timeout_ms,
            topics=[
                api.ReassignableTopic(name=name, partitions=partitions)
                for name, partitions in by_topic.items()
            ],
        )
        answer: api.AlterPartitionReassignmentsResponse = await self._router.ask_controller(
            request, lambda r: [r.error_code]
        )
        raise_for(answer.error_code, answer.error_message, "reassigning partitions")
        return {
            TopicPartition(topic.name, result.partition_index): error_of(
                result.error_code, result.error_message
            )
            for topic in answer.responses
            for result in topic.partitions
        }

    async def elect_leaders(
        self, kind: Election, partitions: Iterable[TopicPartition] | None
    ) -> dict[TopicPartition, ClientError | None]:
        """Elect leaders, and wait until they are elected.

        Args:
            kind: Preferred: the first replica of each; unclean: any live one, if none is in sync.
            partitions: Which ones; None for all, of which those that need no election are left out.

        Returns:
            Why the leader of each was not elected; None if it was.

        Raises:
            ClientError: the controller refuses all of it.
        """
        from wire.messages import elect_leaders as api

        by_topic: dict[str, list[int]] = {}
        for partition in sorted(partitions or ()):
            by_topic.setdefault(partition.topic, []).append(partition.partition)
        request = api.ElectLeadersRequest(
            election_type=kind,
            topic_partitions=None
            if partitions is None
            else [
                api.TopicPartitions(topic=topic, partitions=indexes) for topic, indexes in by_topic.items()
            ],
            timeout_ms=self._router.timeout_ms,
        )

        def codes(answer: api.ElectLeadersResponse) -> Iterable[int]:
            yield answer.error_code
            for topic in answer.replica_election_results:
                yield from (result.error_code for result in topic.partition_result)

        answer: api.ElectLeadersResponse = await self._router.ask_controller(request, codes)
        raise_for(answer.error_code, None, "electing leaders")
        return {
            TopicPartition(topic.topic, result.partition_id): error_of(
                result.error_code, result.error_message
            )
            for topic in answer.replica_election_results
            for result in topic.partition_result
        }


def error_of(code: int, message: str | None) -> ClientError | None:
    """Return the error that a code stands for; None for 0."""
    return None if code == 0 else refusal(Error.from_code(code), message)
