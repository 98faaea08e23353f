"""Groups of old consumers, which ZooKeeper coordinates, behind the calls that commands make for the other groups."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from ottla.commands.terminal.connecting import client_settings, with_admin
from ottla.commands.terminal.failure import CommandError, failing_on
from ottla.commands.terminal.zookeeper import CONNECT_TIMEOUT_S, connected
from security.zookeeper_access import ZooKeeperAccess
from wire.errors import Error
from wire.types import BrokerId, TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin import Admin, CommittedPosition, GroupDescription, GroupMember, ListedGroup
    from ottla.old_consumer.group_znodes import GroupZnodes
    from ottla.old_consumer.zookeeper import GroupZooKeeper

_T = TypeVar("_T")
_EMPTY: Final = "Empty"
_STABLE: Final = "Stable"
_DEAD: Final = "Dead"
_NOBODY: Final = BrokerId(-1)


class ZooKeeperGroups:
    """The groups below `/consumers`, by the calls of `Admin`.

    A group with registered ends is Stable, one without is Empty. Nothing keeps ends from coming between a look and a
    change: ZooKeeper has no lock on groups, and Kafka's tools took none.

    Args:
        zookeeper: The session.
    """

    def __init__(self, zookeeper: "GroupZooKeeper") -> None:
        self._zookeeper = zookeeper

    async def list_groups(self, states: Sequence[str] = (), types: Sequence[str] = ()) -> "list[ListedGroup]":
        """Return the groups in some states; all of them are of the type ``classic``."""
        from ottla.client.admin import ListedGroup
        from ottla.old_consumer.group_znodes import list_groups

        wanted = {state.lower() for state in states}
        if types and "classic" not in {each.lower() for each in types}:
            return []
        found = []
        for group_id in await list_groups(self._zookeeper):
            state = _STABLE if await self._group(group_id).registrations() else _EMPTY
            if not wanted or state.lower() in wanted:
                found.append(ListedGroup(group_id, "consumer", state, _NOBODY))
        return found

    async def describe_group(self, group_id: str) -> "GroupDescription":
        """Return a group with its ends, and what each owns."""
        from ottla.client.admin import GroupDescription

        group = self._group(group_id)
        if not await group.exists():
            return GroupDescription(group_id, _DEAD, "", "", _NOBODY, ())
        registrations = await group.registrations()
        members = tuple(
            _member(group_id, consumer, places)
            for consumer, places in _shares(registrations, await group.owners()).items()
        )
        return GroupDescription(
            group_id, _STABLE if registrations else _EMPTY, "consumer", "", _NOBODY, members
        )

    async def committed_offsets(self, group_id: str) -> "dict[TopicPartition, CommittedPosition]":
        """Return the offsets that a group has in ZooKeeper."""
        from ottla.client.admin import CommittedPosition

        found = await self._group(group_id).offsets()
        return {place: CommittedPosition(offset) for place, offset in found.items()}

    async def commit_offsets(
        self, group_id: str, offsets: "Mapping[TopicPartition, CommittedPosition]"
    ) -> dict[TopicPartition, Error]:
        """Set offsets in ZooKeeper, and return what became of each."""
        group = self._group(group_id)
        if await group.registrations():
            return dict.fromkeys(offsets, Error.UNKNOWN_MEMBER_ID)  # as a coordinator refuses it
        for place, position in offsets.items():
            await group.write_offset(place, position.offset)
        return dict.fromkeys(offsets, Error.NONE)

    async def delete_groups(self, group_ids: Iterable[str]) -> dict[str, Error]:
        """Delete groups that have no ends, and return what became of each."""
        outcomes = {}
        for group_id in group_ids:
            group = self._group(group_id)
            if not await group.exists():
                outcomes[group_id] = Error.GROUP_ID_NOT_FOUND
            elif await group.registrations():
                outcomes[group_id] = Error.NON_EMPTY_GROUP
            else:
                await group.remove()
                outcomes[group_id] = Error.NONE
        return outcomes

    async def delete_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, Error]:
        """Delete offsets of partitions that no end owns, and return what became of each."""
        group = self._group(group_id)
        owned = await group.owners()
        outcomes = {}
        for place in partitions:
            if place in owned:
                outcomes[place] = Error.GROUP_SUBSCRIBED_TO_TOPIC
            else:
                await group.remove_offset(place)
                outcomes[place] = Error.NONE
        return outcomes

    async def owners(self, group_id: str) -> dict[TopicPartition, str]:
        """Return the thread that owns each partition."""
        return await self._group(group_id).owners()

    def _group(self, group_id: str) -> "GroupZnodes":
        from ottla.old_consumer.group_znodes import GroupZnodes

        return GroupZnodes(self._zookeeper, group_id)


def grouped_in_zookeeper(admin: "Admin", groups: ZooKeeperGroups) -> "Admin":
    """Return the administration of a cluster, with the groups in ZooKeeper in place of its own."""
    from ottla.client.admin import Admin

    replaced = Admin(admin.router)
    replaced.list_groups = groups.list_groups
    replaced.describe_group = groups.describe_group
    replaced.committed_offsets = groups.committed_offsets
    replaced.commit_offsets = groups.commit_offsets
    replaced.delete_groups = groups.delete_groups
    replaced.delete_offsets = groups.delete_offsets
    return replaced


def with_zookeeper_groups(
    zookeeper: str,
    access: ZooKeeperAccess,
    bootstrap_server: str | None,
    timeout_s: float,
    command_config: Path | None,
    body: "Callable[[Admin, ZooKeeperGroups], Awaitable[_T]]",
) -> _T:
    """Connect to ZooKeeper and its cluster, do something with them, and return its outcome.

    Args:
        zookeeper: ``host:port,...[/chroot]``.
        access: How it is reached.
        bootstrap_server: Where the cluster is; None for the brokers that are registered in ZooKeeper.
        timeout_s: How long each call may take.
        command_config: A file of a client's settings, or None.
        body: What to do.

    Raises:
        CommandError: something is not reached, or refuses.
    """
    from cluster.zookeeper.client import ZooKeeperError
    from cluster.zookeeper.json_data import MalformedZnodeError
    from ottla.old_consumer.zookeeper import HeldSession, make_session

    # Also where brokers are named: a session would create a chroot that is not there.
    servers = registered_servers(zookeeper, access, command_config)

    async def run(admin: "Admin") -> _T:
        outcome: list[_T] = []
        async with HeldSession(
            make_session(zookeeper, CONNECT_TIMEOUT_S, CONNECT_TIMEOUT_S, access)
        ) as session:
            outcome.append(await body(admin, ZooKeeperGroups(session)))
        return outcome[0]

    with failing_on(ZooKeeperError, MalformedZnodeError):
        return with_admin("groups", bootstrap_server or servers, timeout_s, command_config, run)


def registered_servers(zookeeper: str, access: ZooKeeperAccess, command_config: Path | None) -> str:
    """Return the addresses that brokers have registered in ZooKeeper, for a client's security protocol.

    Raises:
        CommandError: ZooKeeper is not reached, or has none.
    """
    from cluster.zookeeper.broker_znodes import BrokerIdsZnode, BrokerIdZnode
    from ottla.old_consumer.group_znodes import bootstrap_addresses
    from wire.types import NO_BROKER_EPOCH

    with failing_on(OSError, ValueError):
        protocol = client_settings(command_config).get("security.protocol", "PLAINTEXT").upper()
    with connected(zookeeper, access) as client:
        if client.exists(BrokerIdsZnode.PATH) is None:
            raise CommandError(f"no broker has ever registered at {zookeeper}: is the chroot right?")
        brokers = [
            BrokerIdZnode.decode(
                BrokerId(int(name)), client.get(f"{BrokerIdsZnode.PATH}/{name}")[0], NO_BROKER_EPOCH
            )
            for name in client.get_children(BrokerIdsZnode.PATH)
        ]
    addresses = bootstrap_addresses(brokers, protocol)
    if not addresses:
        raise CommandError(f"no broker at {zookeeper} has registered an address for {protocol}")
    return addresses


def _shares(
    consumers: Iterable[str], owners: Mapping[TopicPartition, str]
) -> dict[str, list[TopicPartition]]:
    """Return what each end owns; an owner whose registration is gone is an end, too."""
    from ottla.old_consumer.assignment import owning_consumer

    found: dict[str, list[TopicPartition]] = {consumer: [] for consumer in consumers}
    for place, thread in sorted(owners.items()):
        found.setdefault(owning_consumer(thread), []).append(place)
    return found


def _member(group_id: str, consumer: str, places: Sequence[TopicPartition]) -> "GroupMember":
    """Return an end as a member; a consumer id that was made by default has its host in it."""
    from ottla.client.admin import GroupMember

    host = consumer.removeprefix(f"{group_id}_").rsplit("-", 2)
    return GroupMember(consumer, None, "-", host[0] if len(host) == 3 else "-", tuple(places))
