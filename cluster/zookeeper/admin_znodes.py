"""`/admin`: what operators and brokers ask of the controller through ZooKeeper."""

from collections.abc import Iterable, Mapping
from typing import Final

from cluster.zookeeper.json_data import decode_json, encode_json, malformed_as
from wire.types import BrokerId, TopicPartition


class DeleteTopicsZnode:
    """`/admin/delete_topics`: a child for each topic that is to be deleted."""

    PATH: Final = "/admin/delete_topics"

    @staticmethod
    def path(topic: str) -> str:
        """Return the path of one topic's mark; the node is empty."""
        return f"{DeleteTopicsZnode.PATH}/{topic}"


class ReassignPartitionsZnode:
    """`/admin/reassign_partitions`: moves asked for by a tool older than AlterPartitionReassignments."""

    PATH: Final = "/admin/reassign_partitions"

    @staticmethod
    def encode(moves: Mapping[TopicPartition, Iterable[BrokerId]]) -> bytes:
        """Write the moves."""
        return encode_json(
            {
                "version": 1,
                "partitions": [
                    {"topic": topic, "partition": partition, "replicas": list(replicas)}
                    for (topic, partition), replicas in moves.items()
                ],
            }
        )

    @staticmethod
    def decode(data: bytes) -> dict[TopicPartition, tuple[BrokerId, ...]]:
        """Read the moves; if a partition is named twice, the last one counts.

        Raises:
            MalformedZnodeError: the data is not a list of moves.
        """
        what = ReassignPartitionsZnode.PATH
        value = decode_json(data, what)
        with malformed_as(what, data):
            return {
                TopicPartition(str(move["topic"]), int(move["partition"])): tuple(
                    BrokerId(int(broker)) for broker in move["replicas"]
                )
                for move in value.get("partitions") or ()
            }


class PreferredElectionZnode:
    """`/admin/preferred_replica_election`: elections asked for by a tool older than ElectLeaders."""

    PATH: Final = "/admin/preferred_replica_election"

    @staticmethod
    def encode(partitions: Iterable[TopicPartition]) -> bytes:
        """Write the partitions."""
        return encode_partitions(partitions)

    @staticmethod
    def decode(data: bytes) -> frozenset[TopicPartition]:
        """Read the partitions.

        Raises:
            MalformedZnodeError: the data is not a list of partitions.
        """
        return decode_partitions(data, PreferredElectionZnode.PATH)


def encode_partitions(partitions: Iterable[TopicPartition]) -> bytes:
    """Write `{"version":1,"partitions":[{"topic":...,"partition":...}]}`."""
    return encode_json(
        {
            "version": 1,
            "partitions": [{"topic": topic, "partition": partition} for topic, partition in partitions],
        }
    )


def decode_partitions(data: bytes, what: str) -> frozenset[TopicPartition]:
    """Read what `encode_partitions` wrote.

    Raises:
        MalformedZnodeError: the data is not a list of partitions.
    """
    value = decode_json(data, what)
    with malformed_as(what, data):
        return frozenset(
            TopicPartition(str(entry["topic"]), int(entry["partition"])) for entry in value["partitions"]
        )
