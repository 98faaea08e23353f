"""Topics: list, describe, create, extend and delete them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ottla.client.admin.descriptions import NewTopic, PartitionDescription, TopicDescription
from ottla.client.admin.router import Router, raise_for
from ottla.client.errors import refusal
from wire.errors import Error
from wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from wire.types import NO_TOPIC_ID, BrokerId


class TopicsAdmin:
    """The admin client's calls for topics."""

    def __init__(self, router: Router) -> None:
        self._router = router

    async def list_topics(self, *, internal: bool = True) -> list[str]:
        """Return the names of all topics, sorted."""
        described = await self.describe_topics(None)
        return sorted(topic.name for topic in described if internal or not topic.internal)

    async def describe_topics(
        self, names: Iterable[str] | None, *, broker_id: BrokerId | None = None
    ) -> list[TopicDescription]:
        """Describe topics, by name; None describes all. Describing does not create a topic.

        Args:
            names: Which topics.
            broker_id: Which broker to ask, if that matters: the controller is the first to know its own decisions.

        Raises:
            ClientError: one of the named topics does not exist, or this user is not allowed to see it.
        """
        topics = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        answer = await self._router.metadata(request, broker_id)
        found = []
        for topic in answer.topics:
            if topic.error_code and names is not None:
                error = Error.from_code(topic.error_code)
                raise refusal(error, f"topic {topic.name!r}: {error.text}")
            if topic.error_code == 0 and topic.name is not None:
                found.append(_topic(topic))
        return sorted(found, key=lambda topic: topic.name)

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> dict[str, Error]:
        """Create topics, and wait until the controller has created them.

        Returns:
            The result of each, by name: NONE, or TOPIC_ALREADY_EXISTS.

        Raises:
            ClientError: another error, for the first topic that has one; the topics before and after it may exist.
        """
        from wire.messages import create_topics as api

        request = api.CreateTopicsRequest(
            topics=[
                api.CreatableTopic(
                    name=topic.name,
                    num_partitions=-1 if topic.assignment else topic.partitions,
                    replication_factor=-1 if topic.assignment else topic.replication_factor,
                    assignments=[
                        api.CreatableReplicaAssignment(
                            partition_index=index, broker_ids=list(map(BrokerId, ids))
                        )
                        for index, ids in topic.assignment.items()
                    ],
                    configs=[
                        api.CreatableTopicConfig(name=name, value=value)
                        for name, value in topic.configs.items()
                    ],
                )
                for topic in topics
            ],
            timeout_ms=self._router.timeout_ms,
            validate_only=validate_only,
        )
        answer = await self._router.ask_controller(request, lambda r: [t.error_code for t in r.topics])
        results = {}
        for result in answer.topics:
            if result.error_code != Error.TOPIC_ALREADY_EXISTS:
                raise_for(result.error_code, result.error_message, f"topic {result.name!r}")
            results[result.name] = Error.from_code(result.error_code)
        return results

    async def delete_topics(self, names: Sequence[str]) -> None:
        """Delete topics; the controller finishes the deletion on its own.

        Raises:
            ClientError: the error of the first topic that has one; others may be deleted.
        """
        from wire.messages import delete_topics as api

        request = api.DeleteTopicsRequest(
            topics=[api.DeleteTopicState(name=name) for name in names],
            topic_names=list(names),
            timeout_ms=self._router.timeout_ms,
        )
        answer = await self._router.ask_controller(request, lambda r: [t.error_code for t in r.responses])
        for result in answer.responses:
            raise_for(result.error_code, result.error_message, f"topic {result.name!r}")

    async def create_partitions(
        self, counts: Mapping[str, int], assignments: Mapping[str, Sequence[Sequence[int]]] | None = None
    ) -> None:
        """Increase the partition counts of topics.

        Args:
            counts: The new total of each topic.
            assignments: The replicas of the new partitions, in order; absent, the controller places them.

        Raises:
            ClientError: the error of the first topic that has one; others may have grown.
        """
        from wire.messages import create_partitions as api

        def placed(name: str) -> list[api.CreatePartitionsAssignment] | None:
            if not assignments or name not in assignments:
                return None
            return [
                api.CreatePartitionsAssignment(broker_ids=list(map(BrokerId, ids)))
                for ids in assignments[name]
            ]

        request = api.CreatePartitionsRequest(
            topics=[
                api.CreatePartitionsTopic(name=name, count=count, assignments=placed(name))
                for name, count in counts.items()
            ],
            timeout_ms=self._router.timeout_ms,
        )
        answer = await self._router.ask_controller(request, lambda r: [t.error_code for t in r.results])
        for result in answer.results:
            raise_for(result.error_code, result.error_message, f"topic {result.name!r}")


def _topic(topic: Any) -> TopicDescription:
    partitions = sorted(topic.partitions, key=lambda partition: partition.partition_index)
    return TopicDescription(
        topic.name,
        topic.topic_id or NO_TOPIC_ID,
        topic.is_internal,
        tuple(
            PartitionDescription(
                partition.partition_index,
                partition.leader_id,
                partition.leader_epoch,
                tuple(partition.replica_nodes),
                tuple(partition.isr_nodes),
                tuple(partition.offline_replicas),
            )
            for partition in partitions
        ),
    )
