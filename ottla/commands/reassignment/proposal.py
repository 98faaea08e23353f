"""Proposing the fewest moves that add, empty or even out brokers, with what they would copy."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla import placement
from ottla.commands.reassignment.progress import replica_sizes
from ottla.commands.terminal.failure import CommandError
from ottla.placement import Plan, Racks, Replicas
from wire.types import BrokerId, TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin import Admin, TopicDescription


@dataclass(frozen=True, slots=True)
class Proposal:
    """A plan, and the bytes of the partitions that it copies, as far as they are known."""

    plan: Plan
    sizes: Mapping[TopicPartition, int]


async def propose(
    admin: "Admin",
    add_brokers: Collection[int] | None,
    remove_brokers: Collection[int] | None,
    *,
    rack_aware: bool = True,
) -> Proposal:
    """Plan moves; nothing is changed.

    Args:
        admin: The cluster.
        add_brokers: Brokers to fill; None for none.
        remove_brokers: Brokers to empty; None for none. With neither, all brokers are evened out.
        rack_aware: Whether replicas of a partition go to different racks.

    Raises:
        CommandError: partitions are being moved, or a broker is not there.
        PlacementError: what is wanted cannot be.
        ClientError: the cluster refuses.
    """
    ongoing = await admin.list_reassignments()
    if ongoing:
        raise CommandError(
            f"{len(ongoing)} partitions are being moved; a plan is made once they are where they go"
        )
    topics = await admin.describe_topics(None)
    before = replicas_of(topics)
    racks = await racks_of(admin, aware=rack_aware)
    # A broker that is gone for good can be emptied, too; one that holds nothing and is not there is a slip.
    there = set(racks).union(*before.values())
    strangers = [broker for broker in remove_brokers or () if broker not in there]
    if strangers:
        raise CommandError(f"broker {', '.join(map(str, strangers))} is not alive, and holds no replica")
    if add_brokers is not None:
        made = placement.with_brokers(before, racks, list(map(BrokerId, add_brokers)))
    elif remove_brokers is not None:
        made = placement.without_brokers(before, racks, list(map(BrokerId, remove_brokers)))
    else:
        made = placement.rebalanced(before, racks)
    return Proposal(made, await _sizes(admin, topics, made))


def replicas_of(topics: "list[TopicDescription]") -> dict[TopicPartition, Replicas]:
    """Return the replicas of every partition of topics."""
    return {
        TopicPartition(topic.name, partition.partition): partition.replicas
        for topic in topics
        for partition in topic.partitions
    }


async def racks_of(admin: "Admin", *, aware: bool) -> Racks:
    """Return the live brokers with their racks; without them where these are not to count."""
    brokers = (await admin.refresh()).brokers
    return {broker_id: broker.rack if aware else None for broker_id, broker in sorted(brokers.items())}


async def _sizes(admin: "Admin", topics: "list[TopicDescription]", made: Plan) -> dict[TopicPartition, int]:
    """Return the sizes of the partitions that a plan copies, at their leaders."""
    places: dict[BrokerId, dict[str, list[int]]] = {}
    for topic in topics:
        for partition in topic.partitions:
            each = TopicPartition(topic.name, partition.partition)
            if each in made.after and made.added(each) and partition.leader >= 0:
                places.setdefault(partition.leader, {}).setdefault(topic.name, []).append(each.partition)
    return {partition: size for (partition, _), size in (await replica_sizes(admin, places)).items()}
