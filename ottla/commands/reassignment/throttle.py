"""Throttles of a reassignment (KIP-73): which replicas, at which brokers, how fast; set, and taken away again.

Sources are throttled as leaders, the new replicas as followers. Lists are appended to and subtracted from, so that
what others have throttled stays as it was.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ottla.client.errors import ClientError
from ottla.placement import Replicas
from wire.errors import Error
from wire.types import BrokerId, TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin import Admin, ConfigChange, ConfigResource

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"
DEFAULT_RATE: Final = 50_000_000
"""Bytes a second that each broker sends and takes for a reassignment, where the operator names no rate."""


@dataclass(frozen=True, slots=True)
class Throttle:
    """What a reassignment throttles.

    Attributes:
        rate: Bytes a second, of each broker and each direction.
        brokers: The brokers that get the rate.
        leaders: The entries ``partition:broker`` of each topic's leader list.
        followers: Those of its follower list.
    """

    rate: int
    brokers: tuple[int, ...]
    leaders: Mapping[str, tuple[str, ...]]
    followers: Mapping[str, tuple[str, ...]]

    def to_text(self) -> str:
        """Write it, for `from_text`."""
        return json.dumps([self.rate, self.brokers, dict(self.leaders), dict(self.followers)])

    @classmethod
    def from_text(cls, text: str) -> "Throttle":
        """Read what `to_text` wrote."""
        rate, brokers, leaders, followers = json.loads(text)
        return cls(
            rate,
            tuple(brokers),
            {topic: tuple(entries) for topic, entries in leaders.items()},
            {topic: tuple(entries) for topic, entries in followers.items()},
        )


def throttle_of(
    before: Mapping[TopicPartition, Replicas], targets: Mapping[TopicPartition, Replicas], rate: int
) -> Throttle | None:
    """Return the throttle of a reassignment; None where nothing is copied.

    Args:
        before: The replicas that each partition has, those that it is being moved to included.
        targets: Those that it shall have.
        rate: Bytes a second.
    """
    brokers: set[BrokerId] = set()
    leaders: dict[str, list[str]] = {}
    followers: dict[str, list[str]] = {}
    for partition, target in sorted(targets.items()):
        added = [broker for broker in target if broker not in before[partition]]
        if not added:
            continue
        brokers.update(before[partition], target)
        number = partition.partition
        leaders.setdefault(partition.topic, []).extend(f"{number}:{broker}" for broker in before[partition])
        followers.setdefault(partition.topic, []).extend(f"{number}:{broker}" for broker in added)
    if not brokers:
        return None
    return Throttle(
        rate,
        tuple(sorted(brokers)),
        {topic: tuple(entries) for topic, entries in leaders.items()},
        {topic: tuple(entries) for topic, entries in followers.items()},
    )


async def set_throttle(admin: "Admin", throttle: Throttle) -> None:
    """Set a throttle: the replicas first, so that a rate never stands for nothing.

    Raises:
        ClientError: the cluster refuses; a part may be set, which `clear_throttle` takes away.
    """
    from ottla.client.admin import ConfigOperation

    await admin.alter_configs(_lists(throttle, ConfigOperation.APPEND))
    await set_rate(admin, throttle.brokers, throttle.rate)


async def set_rate(admin: "Admin", brokers: tuple[int, ...], rate: int) -> None:
    """Set the rate, in bytes a second, at which brokers send and receive throttled replicas.

    Raises:
        ClientError: a broker refuses.
    """
    from ottla.client.admin import ConfigChange, ConfigOperation

    await admin.alter_configs(
        {
            _broker(each): [
                ConfigChange(name, ConfigOperation.SET, str(rate)) for name in (LEADER_RATE, FOLLOWER_RATE)
            ]
            for each in brokers
        }
    )


async def clear_replicas(admin: "Admin", throttle: Throttle) -> None:
    """Take a throttle's replicas off the lists; those of topics that are gone went with them."""
    from ottla.client.admin import ConfigChange, ConfigOperation, ConfigSource

    for resource, changes in _lists(throttle, ConfigOperation.SUBTRACT).items():
        try:
            await admin.alter_configs({resource: changes})
            described = (await admin.describe_configs([resource]))[resource]
            empty = [
                ConfigChange(value.name, ConfigOperation.DELETE)
                for value in described
                if value.name in (LEADER_REPLICAS, FOLLOWER_REPLICAS)
                and value.source is ConfigSource.DYNAMIC_TOPIC_CONFIG
                and not value.value
            ]
            if empty:
                await admin.alter_configs({resource: empty})
        except ClientError as error:
            if error.error is not Error.UNKNOWN_TOPIC_OR_PARTITION:
                raise


async def clear_rates(admin: "Admin", brokers: Iterable[int]) -> list[int]:
    """Remove the rates of brokers; return the dead ones, whose rates remain."""
    from ottla.client.admin import ConfigChange, ConfigOperation
    from ottla.client.errors import BrokerUnreachable

    unreached = []
    for broker in brokers:
        changes = [ConfigChange(name, ConfigOperation.DELETE) for name in (LEADER_RATE, FOLLOWER_RATE)]
        try:
            await admin.alter_configs({_broker(broker): changes})
        except BrokerUnreachable:
            unreached.append(broker)
    return unreached


async def own_rates(admin: "Admin", brokers: Iterable[int]) -> dict[int, dict[str, str]]:
    """Return the throttle rates that are set on live brokers, by broker and setting; none where none is set."""
    from ottla.client.admin import ConfigSource
    from ottla.client.errors import BrokerUnreachable

    found: dict[int, dict[str, str]] = {}
    for broker in brokers:
        resource = _broker(broker)
        try:
            values = (await admin.describe_configs([resource]))[resource]
        except BrokerUnreachable:
            continue
        found[broker] = {
            value.name: value.value
            for value in values
            if value.name in (LEADER_RATE, FOLLOWER_RATE)
            and value.source is ConfigSource.DYNAMIC_BROKER_CONFIG
            and value.value is not None
        }
    return found


async def ensure_rate(admin: "Admin", throttle: Throttle) -> None:
    """Set a throttle's rate again if another process, which saw no moves, has just removed it.

    Raises:
        ClientError: a broker refuses.
    """
    wanted = dict.fromkeys((LEADER_RATE, FOLLOWER_RATE), str(throttle.rate))
    found = await own_rates(admin, throttle.brokers)
    await set_rate(admin, tuple(broker for broker, own in found.items() if own != wanted), throttle.rate)


async def restore_rates(admin: "Admin", rates: Mapping[int, Mapping[str, str]]) -> None:
    """Set rates again that were taken away; those that were set anew meanwhile stay.

    Raises:
        ClientError: a broker refuses.
    """
    from ottla.client.admin import ConfigChange, ConfigOperation

    now = await own_rates(admin, rates)
    changes = {
        _broker(broker): [
            ConfigChange(name, ConfigOperation.SET, value)
            for name, value in rates[broker].items()
            if name not in own
        ]
        for broker, own in now.items()
    }
    await admin.alter_configs({resource: ones for resource, ones in changes.items() if ones})


def _broker(broker_id: int) -> "ConfigResource":
    from ottla.client.admin import ConfigResource, ResourceKind

    return ConfigResource(ResourceKind.BROKER, str(broker_id))


def _lists(throttle: Throttle, operation: int) -> "dict[ConfigResource, list[ConfigChange]]":
    from ottla.client.admin import ConfigChange, ConfigOperation, ConfigResource, ResourceKind

    how = ConfigOperation(operation)
    return {
        ConfigResource(ResourceKind.TOPIC, topic): [
            ConfigChange(LEADER_REPLICAS, how, ",".join(throttle.leaders[topic])),
            ConfigChange(FOLLOWER_REPLICAS, how, ",".join(throttle.followers[topic])),
        ]
        for topic in throttle.leaders
    }
