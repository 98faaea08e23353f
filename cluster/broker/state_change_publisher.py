"""Publishes the state changes of a broker's components."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cluster.broker.state_changes import StateChanges

if TYPE_CHECKING:
    from cluster.controller.state_changes import StateChange
    from cluster.replication.partition.partition import Partition
    from cluster.replication.replicas import Replicas
    from wire.types import LeaderEpoch, TopicPartition


class StateChangePublisher:
    """Follows the components, and publishes their changes.

    Args:
        changes: Where they are published.
    """

    def __init__(self, changes: StateChanges) -> None:
        self._changes = changes

    def follow(self, replicas: "Replicas") -> None:
        """Publish the changes of the replicas on this broker."""
        replicas.roles.on_leadership_change.append(self._roles_taken)
        replicas.roles.on_stopped.append(self._stopped)
        replicas.isr_changes.on_committed.append(self._isr_committed)

    def controller_decided(self, change: "StateChange") -> None:
        """Publish a decision of the controller on this broker."""
        if change.before == change.after and change.broker_id is not None:
            return  # a replica that keeps its state is no change
        leadership = change.leadership
        what: dict[str, object] = {
            "topic": change.partition.topic,
            "partition": change.partition.partition,
            "controller_epoch": change.controller_epoch,
            "before": change.before,
            "after": change.after,
        }
        if change.broker_id is not None:
            self._changes.publish("replica", replica=change.broker_id, **what)
            return
        if leadership is not None:
            what |= {
                "leader": leadership.leader,
                "leader_epoch": leadership.leader_epoch,
                "isr": list(leadership.isr),
            }
        self._changes.publish("partition", **what)

    def _roles_taken(
        self,
        leading: "Sequence[tuple[TopicPartition, LeaderEpoch]]",
        following: "Sequence[tuple[TopicPartition, LeaderEpoch]]",
    ) -> None:
        for role, partitions in (("leader", leading), ("follower", following)):
            for partition, epoch in partitions:
                self._changes.publish(
                    "role",
                    topic=partition.topic,
                    partition=partition.partition,
                    role=role,
                    leader_epoch=epoch,
                )

    def _stopped(self, stopped: "Sequence[tuple[TopicPartition, LeaderEpoch | None]]") -> None:
        for partition, epoch in stopped:
            self._changes.publish(
                "deleted", topic=partition.topic, partition=partition.partition, leader_epoch=epoch
            )

    def _isr_committed(self, partition: "Partition") -> None:
        self._changes.publish(
            "isr",
            topic=partition.topic_partition.topic,
            partition=partition.topic_partition.partition,
            isr=sorted(partition.isr.isr),
            leader_epoch=partition.leader_epoch,
        )
