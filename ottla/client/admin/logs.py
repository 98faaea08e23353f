"""What brokers hold: log directories, offsets, and deleting records."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ottla.client.admin.descriptions import FoundOffset, LogDirectory, ReplicaOnDisk
from ottla.client.admin.router import Router, raise_for
from ottla.client.errors import ClientError, refusal
from wire.errors import Error
from wire.types import BrokerId, Offset, TopicPartition, WallMs


class LogsAdmin:
    """The admin client's calls for logs."""

    def __init__(self, router: Router) -> None:
        self._router = router

    async def describe_log_dirs(
        self, broker_id: BrokerId, topics: Mapping[str, Sequence[int]] | None = None
    ) -> list[LogDirectory]:
        """Return the log directories of a broker, with the replicas in them.

        Args:
            broker_id: Which broker.
            topics: Which partitions of which topics; None for all.

        Raises:
            ClientError: the broker refuses.
            BrokerUnreachable: it does not live, or cannot be reached.
        """
        from wire.messages import describe_log_dirs as api

        request = api.DescribeLogDirsRequest(
            topics=None
            if topics is None
            else [
                api.DescribableLogDirTopic(topic=name, partitions=list(indexes))
                for name, indexes in topics.items()
            ]
        )
        answer: api.DescribeLogDirsResponse = await self._router.ask_broker(broker_id, request)
        raise_for(answer.error_code, None, f"the log directories of broker {broker_id}")
        return [
            LogDirectory(
                result.log_dir,
                None if result.error_code == 0 else Error.from_code(result.error_code).text,
                result.total_bytes,
                result.usable_bytes,
                tuple(
                    ReplicaOnDisk(
                        topic.name,
                        partition.partition_index,
                        partition.partition_size,
                        partition.offset_lag,
                        partition.is_future_key,
                    )
                    for topic in result.topics
                    for partition in topic.partitions
                ),
            )
            for result in answer.results
        ]

    async def alter_replica_log_dirs(
        self, targets: Mapping[tuple[TopicPartition, BrokerId], str]
    ) -> dict[tuple[TopicPartition, BrokerId], ClientError | None]:
        """Move replicas to other log directories of their brokers.

        Args:
            targets: The new directory of each replica, by partition and broker.

        Returns:
            The error of each; None if it is being moved, or is there already. A replica that its broker does not have
            gets REPLICA_NOT_AVAILABLE, and is created in that directory later.

        Raises:
            BrokerUnreachable: a broker does not live, or cannot be reached.
        """
        from wire.messages import alter_replica_log_dirs as api

        by_broker: dict[BrokerId, dict[str, dict[str, list[int]]]] = {}
        for (partition, broker_id), path in targets.items():
            topics = by_broker.setdefault(broker_id, {}).setdefault(path, {})
            topics.setdefault(partition.topic, []).append(partition.partition)
        found: dict[tuple[TopicPartition, BrokerId], ClientError | None] = {}
        for broker_id, directories in by_broker.items():
            request = api.AlterReplicaLogDirsRequest(
                dirs=[
                    api.AlterReplicaLogDir(
                        path=path,
                        topics=[
                            api.AlterReplicaLogDirTopic(name=name, partitions=indexes)
                            for name, indexes in topics.items()
                        ],
                    )
                    for path, topics in directories.items()
                ]
            )
            answer: api.AlterReplicaLogDirsResponse = await self._router.ask_broker(broker_id, request)
            for topic in answer.results:
                for result in topic.partitions:
                    key = TopicPartition(topic.topic_name, result.partition_index), broker_id
                    error = Error.from_code(result.error_code)
                    found[key] = None if error is Error.NONE else refusal(error)
        return found

    async def list_offsets(
        self, wanted: Mapping[TopicPartition, int], *, committed: bool = False
    ) -> dict[TopicPartition, FoundOffset | ClientError]:
        """Look offsets up at the leaders.

        Args:
            wanted: For each partition a time in ms, or -1 for the end, -2 for the start, -3 for the record with
                the largest timestamp.
            committed: Whether the end is the last stable offset, up to which `read_committed` reads.

        Returns:
            What was found, or the error of each; offset -1 if no record is that recent.
        """
        from wire.messages import list_offsets as api

        def request(partitions: Collection[TopicPartition]) -> api.ListOffsetsRequest:
            by_topic: dict[str, list[api.ListOffsetsPartition]] = {}
            for partition in partitions:
                by_topic.setdefault(partition.topic, []).append(
                    api.ListOffsetsPartition(
                        partition_index=partition.partition, timestamp=WallMs(wanted[partition])
                    )
                )
            return api.ListOffsetsRequest(
                replica_id=BrokerId(-1),
                isolation_level=int(committed),
                topics=[
                    api.ListOffsetsTopic(name=name, partitions=partitions)
                    for name, partitions in by_topic.items()
                ],
            )

        def results(answer: Any) -> dict[TopicPartition, FoundOffset | ClientError]:
            return {
                TopicPartition(topic.name, found.partition_index): FoundOffset(
                    found.offset, found.timestamp, found.leader_epoch
                )
                if found.error_code == 0
                else refusal(Error.from_code(found.error_code))
                for topic in answer.topics
                for found in topic.partitions
            }

        return await self._router.ask_leaders(wanted.keys(), request, results)

    async def delete_records(
        self, before: Mapping[TopicPartition, Offset]
    ) -> dict[TopicPartition, Offset | ClientError]:
        """Delete the records of partitions below given offsets, on every replica.

        Args:
            before: The new start offset of each partition; -1 deletes everything.

        Returns:
            Where each partition starts now, or its error.
        """
        from wire.messages import delete_records as api

        def request(partitions: Collection[TopicPartition]) -> api.DeleteRecordsRequest:
            by_topic: dict[str, list[api.DeleteRecordsPartition]] = {}
            for partition in partitions:
                by_topic.setdefault(partition.topic, []).append(
                    api.DeleteRecordsPartition(partition_index=partition.partition, offset=before[partition])
                )
            return api.DeleteRecordsRequest(
                topics=[
                    api.DeleteRecordsTopic(name=name, partitions=partitions)
                    for name, partitions in by_topic.items()
                ],
                timeout_ms=self._router.timeout_ms,
            )

        def results(answer: Any) -> dict[TopicPartition, Offset | ClientError]:
            return {
                TopicPartition(topic.name, result.partition_index): result.low_watermark
                if result.error_code == 0
                else refusal(Error.from_code(result.error_code))
                for topic in answer.topics
                for result in topic.partitions
            }

        return await self._router.ask_leaders(before.keys(), request, results)

    async def api_versions(self, broker_id: BrokerId) -> dict[int, tuple[int, int]]:
        """Return what a broker serves: the lowest and highest version of each API, by its key.

        Raises:
            BrokerUnreachable: it does not live, or cannot be reached.
        """
        return dict((await self._router.connection_to(broker_id)).versions)
