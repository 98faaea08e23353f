"""Replicas that `ottla reassign-partitions` moves between the log directories of their brokers (KIP-113).

A file names a directory for each replica, or "any". A replica that is not at its broker yet is made in its directory at
once: the broker is asked before the reassignment begins, and again after, until it answers that the move goes on.
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from ottla.client.errors import ClientError
from ottla.commands.terminal.failure import CommandError
from wire.errors import Error
from wire.types import BrokerId, TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin import Admin

RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
LOOK_AGAIN_S: Final = 0.2
APPLIED_WITHIN_S: Final = 5.0


class Replica(NamedTuple):
    """A partition's replica at one broker."""

    partition: TopicPartition
    broker: BrokerId

    def __str__(self) -> str:
        return f"{self.partition} at broker {self.broker}"


class MoveState(Enum):
    """How far a replica is on its way to its directory."""

    DONE = "done"
    MOVING = "moving"
    MOVING_ELSEWHERE = "moving elsewhere"
    ELSEWHERE = "elsewhere"
    MISSING = "missing"  # at no live directory of a live broker


class Place(NamedTuple):
    """Where a replica is; None where it is nowhere, or nothing moves."""

    current: str | None = None
    future: str | None = None

    def state(self, target: str) -> MoveState:
        """Compare it with where the replica shall be."""
        if self.current is None:
            return MoveState.MISSING
        if self.future is not None:
            return MoveState.MOVING if self.future == target else MoveState.MOVING_ELSEWHERE
        return MoveState.DONE if self.current == target else MoveState.ELSEWHERE


Wanted = Mapping[Replica, str]


async def places(admin: "Admin", replicas: Iterable[Replica]) -> dict[Replica, Place]:
    """Say where replicas are; those of brokers that do not answer are nowhere."""

    by_broker: dict[BrokerId, dict[str, list[int]]] = {}
    found = dict.fromkeys(replicas, Place())
    for replica in found:
        topics = by_broker.setdefault(replica.broker, {})
        topics.setdefault(replica.partition.topic, []).append(replica.partition.partition)
    for broker_id, topics in by_broker.items():
        try:
            directories = await admin.describe_log_dirs(broker_id, topics)
        except ClientError:
            continue
        for directory in directories:
            for each in directory.replicas:
                replica = Replica(TopicPartition(each.topic, each.partition), broker_id)
                place = found.get(replica)
                if place is not None:
                    found[replica] = (
                        place._replace(future=directory.path)
                        if each.is_future
                        else place._replace(current=directory.path)
                    )
    return found


async def announce(admin: "Admin", wanted: Wanted) -> None:
    """Tell brokers where replicas shall be that they are about to get; those that they have begin to move.

    Raises:
        CommandError: a broker has no such directory, or cannot use it.
        BrokerUnreachable: a broker cannot be reached.
    """
    _refuse(await admin.alter_replica_log_dirs(_by_key(wanted)))


async def begin(admin: "Admin", wanted: Wanted, timeout_s: float) -> None:
    """Have replicas move, those too that their brokers get only now.

    Raises:
        CommandError: a broker refuses, or has not got its replica in time.
        BrokerUnreachable: a broker cannot be reached.
    """
    left = dict(wanted)
    with trio.move_on_after(timeout_s):
        while True:
            answers = await admin.alter_replica_log_dirs(_by_key(left))
            _refuse(answers)
            left = {
                replica: path
                for replica, path in left.items()
                if answers[replica.partition, replica.broker] is not None
            }
            if not left:
                return
            await trio.sleep(LOOK_AGAIN_S)
    raise CommandError(f"not begun to move in time: {', '.join(map(str, sorted(left)))}")


async def follow_directories(admin: "Admin", wanted: Wanted) -> dict[Replica, MoveState]:
    """Wait until none of the replicas moves any more, and say what became of each."""
    while True:
        found = await places(admin, wanted)
        states = {replica: place.state(wanted[replica]) for replica, place in found.items()}
        if MoveState.MOVING not in states.values():
            return states
        await trio.sleep(LOOK_AGAIN_S)


async def cancel_directories(admin: "Admin", wanted: Wanted) -> list[Replica]:
    """Cancel the moves of replicas between directories; return those that were moving."""
    found = await places(admin, wanted)
    back = {
        replica: place.current
        for replica, place in found.items()
        if place.current is not None and place.future is not None
    }
    if back:
        _refuse(await admin.alter_replica_log_dirs(_by_key(back)))
    return sorted(back)


async def set_directory_rate(admin: "Admin", brokers: Iterable[int], rate: int) -> None:
    """Set the copy rate between directories and wait, up to a limit, until every broker applies it.

    Raises:
        ClientError: a broker refuses.
    """
    from ottla.client.admin import ConfigChange, ConfigOperation, ConfigResource, ResourceKind

    resources = [ConfigResource(ResourceKind.BROKER, str(broker)) for broker in sorted(set(brokers))]
    change = ConfigChange(RATE, ConfigOperation.SET, str(rate))
    await admin.alter_configs({resource: [change] for resource in resources})
    # It reaches the brokers through ZooKeeper: a move that began before would not be held back.
    with trio.move_on_after(APPLIED_WITHIN_S):
        while True:
            described = await admin.describe_configs(resources)
            if all(
                any(value.name == RATE and value.value == str(rate) for value in described[resource])
                for resource in resources
            ):
                return
            await trio.sleep(LOOK_AGAIN_S)


async def clear_directory_rate(admin: "Admin", brokers: Iterable[int]) -> None:
    """Let brokers copy as fast as they can again.

    Raises:
        ClientError: a broker refuses.
    """
    from ottla.client.admin import ConfigChange, ConfigOperation, ConfigResource, ResourceKind

    await admin.alter_configs(
        {
            ConfigResource(ResourceKind.BROKER, str(broker)): [ConfigChange(RATE, ConfigOperation.DELETE)]
            for broker in sorted(set(brokers))
        }
    )


def _by_key(wanted: Wanted) -> dict[tuple[TopicPartition, BrokerId], str]:
    return {(replica.partition, replica.broker): path for replica, path in wanted.items()}


def _refuse(answers: "Mapping[tuple[TopicPartition, BrokerId], ClientError | None]") -> None:
    """Stop at a refusal that waiting does not help against."""
    refused = {
        Replica(*key): error
        for key, error in answers.items()
        if error is not None and error.error is not Error.REPLICA_NOT_AVAILABLE
    }
    if refused:
        raise CommandError("; ".join(f"{replica}: {error}" for replica, error in sorted(refused.items())))
