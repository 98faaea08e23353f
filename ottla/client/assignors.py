"""Who reads what: the assignors that a group's leader runs. No I/O.

``range``, ``roundrobin``, ``sticky`` and ``cooperative-sticky`` share their names and their formats with Java's, so
that members of both kinds can be in one group, led by either. The first two assign exactly as Java's do; the sticky
ones are as balanced and move no more, but can choose other partitions where there is a choice.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from wire.types import TopicPartition

Assignment = dict[str, list[TopicPartition]]
"""Partitions by member id."""


@dataclass(frozen=True, slots=True)
class MemberSubscription:
    """What a member wants, and what it has.

    Attributes:
        topics: What it subscribes to.
        instance_id: The static member's id, None for a dynamic one.
        owned: The partitions that it has now.
        generation: The generation in which it got them, -1 where it does not say.
        rack: Where it stands.
    """

    topics: Sequence[str]
    instance_id: str | None = None
    owned: Sequence[TopicPartition] = ()
    generation: int = -1
    rack: str | None = None


Members = Mapping[str, MemberSubscription]


def _in_order(members: Members) -> list[str]:
    """Sort members as Java does: static ones first, by instance id; then by member id."""

    def key(member_id: str) -> tuple[bool, str]:
        instance = members[member_id].instance_id
        return (instance is None, member_id if instance is None else instance)

    return sorted(members, key=key)


def assign_range(counts: Mapping[str, int], members: Members) -> Assignment:
    """Give each member a run of partitions of each topic; the first members get one more."""
    found: Assignment = {member: [] for member in members}
    ordered = _in_order(members)
    for topic in sorted(counts):
        readers = [member for member in ordered if topic in members[member].topics]
        if not readers:
            continue
        each, more = divmod(counts[topic], len(readers))
        begin = 0
        for index, member in enumerate(readers):
            end = begin + each + (index < more)
            found[member] += [TopicPartition(topic, number) for number in range(begin, end)]
            begin = end
    return found


def assign_round_robin(counts: Mapping[str, int], members: Members) -> Assignment:
    """Deal all partitions out, one after the other, to the next member that subscribes to the topic."""
    found: Assignment = {member: [] for member in members}
    ordered = _in_order(members)
    at = 0
    for topic in sorted(counts):
        if not any(topic in members[member].topics for member in ordered):
            continue
        for number in range(counts[topic]):
            while topic not in members[ordered[at % len(ordered)]].topics:
                at += 1
            found[ordered[at % len(ordered)]].append(TopicPartition(topic, number))
            at += 1
    return found


def assign_sticky(counts: Mapping[str, int], members: Members) -> Assignment:
    """Leave as many partitions with their owners as balance allows."""
    found = _keep_owned(counts, members)
    taken = {partition for partitions in found.values() for partition in partitions}
    ordered = _in_order(members)
    readers = {topic: [member for member in ordered if topic in members[member].topics] for topic in counts}
    free = [
        partition
        for topic in sorted(counts)
        if readers[topic]
        for partition in (TopicPartition(topic, number) for number in range(counts[topic]))
        if partition not in taken
    ]
    for partition in free:
        least = min(readers[partition.topic], key=lambda member: len(found[member]))
        found[least].append(partition)
    _balance(found, readers)
    return {member: sorted(partitions) for member, partitions in found.items()}


def _keep_owned(counts: Mapping[str, int], members: Members) -> Assignment:
    """Start from what members own; of two claims on a partition the later generation wins, of equal ones neither."""
    claims: dict[TopicPartition, tuple[int, str | None]] = {}
    for member, subscription in members.items():
        for partition in subscription.owned:
            if partition.topic not in subscription.topics or partition.partition >= counts.get(
                partition.topic, 0
            ):
                continue
            generation = subscription.generation
            known = claims.get(partition)
            if known is None or generation > known[0]:
                claims[partition] = (generation, member)
            elif generation == known[0]:
                claims[partition] = (generation, None)
    found: Assignment = {member: [] for member in members}
    for partition, (_, owner) in claims.items():
        if owner is not None:
            found[owner].append(partition)
    return found


def _balance(found: Assignment, readers: Mapping[str, Sequence[str]]) -> None:
    """Move partitions from members to others that have at least two fewer, until there is no such pair."""
    moved = True
    while moved:
        moved = False
        for giver in sorted(found, key=lambda member: (-len(found[member]), member)):
            for partition in sorted(found[giver], reverse=True):
                taker = min(readers[partition.topic], key=lambda member: (len(found[member]), member))
                if len(found[giver]) - len(found[taker]) < 2:
                    continue
                found[giver].remove(partition)
                found[taker].append(partition)
                moved = True


def assign_cooperative_sticky(counts: Mapping[str, int], members: Members) -> Assignment:
    """As `assign_sticky`, but what moves is given to nobody until its owner has released it (KIP-429)."""
    target = assign_sticky(counts, members)
    owners = {
        partition: member
        for member, partitions in _keep_owned(counts, members).items()
        for partition in partitions
    }
    return {
        member: [partition for partition in partitions if owners.get(partition, member) == member]
        for member, partitions in target.items()
    }


@dataclass(frozen=True, slots=True)
class Assignor:
    """An assignor by its name in JoinGroup.

    Attributes:
        name: The name.
        assign: What the leader runs.
        cooperative: Whether members keep what they have while they join.
    """

    name: str
    assign: Callable[[Mapping[str, int], Members], Assignment]
    cooperative: bool = False


ASSIGNORS: Final = {
    each.name: each
    for each in (
        Assignor("range", assign_range),
        Assignor("roundrobin", assign_round_robin),
        Assignor("sticky", assign_sticky),
        Assignor("cooperative-sticky", assign_cooperative_sticky, cooperative=True),
    )
}
"""All there are, by name."""


def sticky_user_data(owned: Sequence[TopicPartition], generation: int) -> bytes:
    """Return the user data of a member of the eager ``sticky``, in version 1 of Java's format.

    An array of topics, each with its name and an array of partitions, then the generation.
    """
    topics: dict[str, list[int]] = {}
    for partition in owned:
        topics.setdefault(partition.topic, []).append(partition.partition)
    out = bytearray(struct.pack(">i", len(topics)))
    for topic, numbers in topics.items():
        name = topic.encode()
        out += struct.pack(f">h{len(name)}si{len(numbers)}i", len(name), name, len(numbers), *numbers)
    return bytes(out + struct.pack(">i", generation))


def read_sticky_user_data(data: bytes) -> tuple[list[TopicPartition], int]:
    """Decode `sticky_user_data`; malformed data count as nothing owned, since stickiness is best effort."""
    owned: list[TopicPartition] = []
    try:
        (count,) = struct.unpack_from(">i", data)
        at = 4
        for _ in range(count):
            (size,) = struct.unpack_from(">h", data, at)
            topic = data[at + 2 : at + 2 + size].decode()
            at += 2 + size
            (numbers,) = struct.unpack_from(">i", data, at)
            owned += [
                TopicPartition(topic, each) for each in struct.unpack_from(f">{numbers}i", data, at + 4)
            ]
            at += 4 + 4 * numbers
        generation = struct.unpack_from(">i", data, at)[0] if at + 4 <= len(data) else -1
    except (struct.error, UnicodeDecodeError):
        return [], -1
    return owned, generation
