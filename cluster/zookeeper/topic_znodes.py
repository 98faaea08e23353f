"""`/brokers/topics`: each topic's id and assignment, and each partition's leader and ISR."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from cluster.statemachines.leadership import PartitionAssignment, PartitionLeadership
from cluster.zookeeper.json_data import decode_json, encode_json, malformed_as
from wire.types import (
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    TopicId,
    TopicPartition,
    ZkVersion,
    parse_topic_id,
    topic_id_text,
)


@dataclass(frozen=True, slots=True)
class TopicAssignment:
    """The content of a topic's znode.

    Attributes:
        topic_id: The topic's id; ``None`` if the topic is older than topic ids and has none yet.
        partitions: Which brokers hold each partition.
    """

    topic_id: TopicId | None
    partitions: Mapping[int, PartitionAssignment]


class TopicsZnode:
    """`/brokers/topics`: a child for each topic."""

    PATH: Final = "/brokers/topics"


class TopicZnode:
    """`/brokers/topics/<topic>`, JSON version 3. Every rewrite keeps the id and the reassignments under way."""

    @staticmethod
    def path(topic: str) -> str:
        """Return the path of a topic."""
        return f"{TopicsZnode.PATH}/{topic}"

    @staticmethod
    def encode(assignment: TopicAssignment) -> bytes:
        """Write a topic's assignment."""
        partitions = assignment.partitions
        value: dict[str, Any] = {"partitions": {str(p): list(a.replicas) for p, a in partitions.items()}}
        if assignment.topic_id is not None:
            value["topic_id"] = topic_id_text(assignment.topic_id)
        value["adding_replicas"] = {str(p): list(a.adding) for p, a in partitions.items() if a.adding}
        value["removing_replicas"] = {str(p): list(a.removing) for p, a in partitions.items() if a.removing}
        value["version"] = 3
        return encode_json(value)

    @staticmethod
    def decode(topic: str, data: bytes) -> TopicAssignment:
        """Read a topic's assignment, of version 1 to 3.

        Raises:
            MalformedZnodeError: it is not an assignment.
        """
        what = f"topic {topic}"
        value = decode_json(data, what)
        with malformed_as(what, data):
            adding = value.get("adding_replicas") or {}
            removing = value.get("removing_replicas") or {}
            topic_id = value.get("topic_id")
            return TopicAssignment(
                None if topic_id is None else parse_topic_id(topic_id),
                {
                    int(partition): PartitionAssignment(
                        _brokers(replicas),
                        _brokers(adding.get(partition, ())),
                        _brokers(removing.get(partition, ())),
                    )
                    for partition, replicas in (value.get("partitions") or {}).items()
                },
            )


def _brokers(ids: Any) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(int(broker)) for broker in ids)


class TopicPartitionsZnode:
    """`/brokers/topics/<topic>/partitions`: a child for each partition that was ever online."""

    @staticmethod
    def path(topic: str) -> str:
        """Return the path above a topic's partitions."""
        return f"{TopicsZnode.PATH}/{topic}/partitions"


class PartitionStateZnode:
    """`/brokers/topics/<topic>/partitions/<p>/state`: leader, ISR, and the epochs of their decision."""

    @staticmethod
    def parent(partition: TopicPartition) -> str:
        """Return the path above the state."""
        return f"{TopicsZnode.PATH}/{partition[0]}/partitions/{partition[1]}"

    @staticmethod
    def path(partition: TopicPartition) -> str:
        """Return the path of a partition's state."""
        return f"{TopicsZnode.PATH}/{partition[0]}/partitions/{partition[1]}/state"

    @staticmethod
    def encode(leadership: PartitionLeadership) -> bytes:
        """Write a decision; its znode version is not part of it, nor a recovery state that is over."""
        # Formatted by hand, because failover writes thousands at once and every value is a number.
        isr = ",".join(map(str, leadership.isr))
        recovery = ',"leader_recovery_state":1' if leadership.recovering else ""
        return (
            f'{{"controller_epoch":{leadership.controller_epoch},"leader":{leadership.leader},"version":1,'
            f'"leader_epoch":{leadership.leader_epoch},"isr":[{isr}]{recovery}}}'
        ).encode()

    @staticmethod
    def decode(data: bytes, zk_version: ZkVersion) -> PartitionLeadership:
        """Read a decision.

        Args:
            data: The znode's bytes.
            zk_version: The znode's version.

        Raises:
            MalformedZnodeError: it is not a partition state.
        """
        what = "a partition state"
        value = decode_json(data, what)
        with malformed_as(what, data):
            return PartitionLeadership(
                leader=BrokerId(int(value["leader"])),
                leader_epoch=LeaderEpoch(int(value["leader_epoch"])),
                isr=_brokers(value["isr"]),
                controller_epoch=ControllerEpoch(int(value["controller_epoch"])),
                zk_version=zk_version,
                recovering=int(value.get("leader_recovery_state", 0)) != 0,
            )
