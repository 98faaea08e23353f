"""A group's znodes below `/consumers/<group>`: who is in it, who owns what, and where it is.

ids/<consumer id>           ephemeral, a registration
owners/<topic>/<partition>  ephemeral, the thread that consumes the partition
offsets/<topic>/<partition> persistent, the next offset in decimal digits
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from cluster.zookeeper.broker_znodes import BrokerIdsZnode, BrokerIdZnode, BrokerRegistration
from cluster.zookeeper.client import (
    ANY_VERSION,
    ConnectionLossError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    WatchEvent,
)
from cluster.zookeeper.cluster_znodes import ConsumersZnode
from cluster.zookeeper.json_data import MalformedZnodeError
from cluster.zookeeper.topic_znodes import TopicsZnode, TopicZnode
from ottla.old_consumer.assignment import GroupView, ThreadId
from ottla.old_consumer.subscription import Registration, decode_registration, encode_registration
from ottla.old_consumer.zookeeper import GroupZooKeeper
from wire.types import BrokerEpoch, BrokerId, Offset, TopicPartition

Wanted = Callable[[Mapping[str, Registration], frozenset[str]], Collection[str]]
"""Returns the topics whose partitions are of interest, from the group's registrations and the existing topics."""


class AlreadyRegistered(Exception):
    """Another session has registered a consumer of this name."""


class GroupZnodes:
    """Reads and writes one group.

    Watches are armed once for each path: a path that is read again before its watch fired keeps that one.

    Args:
        zookeeper: The session.
        group: The group.
        changed: Called when a watch fires, or is lost with its connection: the group must be read again.
    """

    def __init__(
        self, zookeeper: GroupZooKeeper, group: str, changed: Callable[[], None] | None = None
    ) -> None:
        self._zookeeper = zookeeper
        self._changed = changed
        self._root: Final = f"{ConsumersZnode.PATH}/{group}"
        self._group = group
        self._armed: set[str] = set()

    # Reading

    async def view(self, wanted: Wanted) -> GroupView:
        """Read what the assignment depends on, and watch all of it.

        Raises:
            MalformedZnodeError: A registration or a topic's znode is malformed.
        """
        registrations = await self.registrations()
        topics = frozenset(await self._names(TopicsZnode.PATH))
        places = sorted(set(wanted(registrations, topics)) & topics)
        found = await self._read_many([TopicZnode.path(each) for each in places])
        partitions = {
            topic: tuple(sorted(TopicZnode.decode(topic, data).partitions))
            for topic, data in zip(places, found, strict=True)
            if data is not None
        }
        brokers = await self._names(BrokerIdsZnode.PATH)
        return GroupView(registrations, partitions, topics, bool(brokers))

    async def registrations(self) -> dict[str, Registration]:
        """Return the consumers that are registered, by consumer id."""
        names = await self._names(f"{self._root}/ids")
        found = await self._zookeeper.get_many([f"{self._root}/ids/{name}" for name in names])
        return {
            name: decode_registration(name, read[0])
            for name, read in zip(names, found, strict=True)
            if read is not None
        }

    async def brokers(self) -> list[BrokerRegistration]:
        """Return the brokers that are registered."""
        names = await self._names(BrokerIdsZnode.PATH)
        ids = [BrokerId(int(name)) for name in names]
        found = await self._zookeeper.get_many([BrokerIdZnode.path(each) for each in ids])
        return [
            BrokerIdZnode.decode(broker_id, read[0], BrokerEpoch(read[1].czxid))
            for broker_id, read in zip(ids, found, strict=True)
            if read is not None
        ]

    async def partitions(self, topics: Iterable[str]) -> list[TopicPartition]:
        """Return the partitions of topics, those that exist."""
        names = sorted(set(topics))
        found = await self._zookeeper.get_many([TopicZnode.path(name) for name in names])
        return [
            TopicPartition(name, number)
            for name, read in zip(names, found, strict=True)
            if read is not None
            for number in sorted(TopicZnode.decode(name, read[0]).partitions)
        ]

    async def topics(self) -> list[str]:
        """Return the topics that the group has owners or offsets of."""
        found = await self._zookeeper.children_many([f"{self._root}/owners", f"{self._root}/offsets"])
        return sorted({name for names in found if names is not None for name in names})

    async def owners(self) -> dict[TopicPartition, str]:
        """Return the thread that owns each partition, as its znode says."""
        return {
            place: data.decode(errors="replace")
            for place, (data, _) in (await self._below(f"{self._root}/owners")).items()
        }

    async def offsets(self) -> dict[TopicPartition, Offset]:
        """Return every offset that the group has in ZooKeeper.

        Raises:
            MalformedZnodeError: One is not a number.
        """
        found = await self._below(f"{self._root}/offsets")
        return _decoded({place: data for place, (data, _) in found.items()})

    async def offsets_of(self, places: Collection[TopicPartition]) -> dict[TopicPartition, Offset]:
        """Return the group's offsets of partitions; those without one are left out."""
        listed = list(places)
        found = await self._zookeeper.get_many([self._offset_path(place) for place in listed])
        return _decoded(
            {place: read[0] for place, read in zip(listed, found, strict=True) if read is not None}
        )

    async def exists(self) -> bool:
        """Return whether the group has a znode."""
        try:
            await self._zookeeper.children(self._root)
        except NoNodeError:
            return False
        return True

    async def still_own(self, owned: Mapping[TopicPartition, ThreadId]) -> bool:
        """Return whether this session still holds all of its claims."""
        listed = list(owned)
        found = await self._zookeeper.get_many([self._owner_path(place) for place in listed])
        session = self._zookeeper.session_id
        return all(read is not None and read[1].ephemeral_owner == session for read in found)

    # Writing

    async def register(self, consumer_id: str, registration: Registration) -> None:
        """Register a consumer for the length of this session.

        Raises:
            AlreadyRegistered: Another session has.
        """
        path = f"{self._root}/ids/{consumer_id}"
        if not await self._claim(path, encode_registration(registration)):
            raise AlreadyRegistered(f"group {self._group}: consumer {consumer_id} is registered already")

    async def deregister(self, consumer_id: str) -> None:
        """Delete this session's registration."""
        await self._delete_own(f"{self._root}/ids/{consumer_id}")

    async def claim(self, wanted: Mapping[TopicPartition, ThreadId]) -> list[TopicPartition]:
        """Claim partitions: all of them or none.

        Returns:
            Those that another consumer still has; if there are any, none is claimed.
        """
        taken: list[TopicPartition] = []
        for place, thread in wanted.items():
            if not await self._claim(self._owner_path(place), str(thread).encode()):
                await self.release(taken)
                return [place]
            taken.append(place)
        return []

    async def release(self, owned: Iterable[TopicPartition]) -> None:
        """Delete this session's claims; those that it does not have are left alone."""
        for place in owned:
            await self._delete_own(self._owner_path(place))

    async def write_offset(self, place: TopicPartition, offset: int) -> None:
        """Write the group's next offset of a partition, whatever its present value."""
        path = self._offset_path(place)
        data = ConsumersZnode.encode_offset(Offset(offset))
        while True:
            try:
                await self._zookeeper.set(path, data, ANY_VERSION)
                return
            except NoNodeError:
                pass
            except ConnectionLossError:
                continue
            try:
                await self._zookeeper.create(path, data, make_parents=True)
                return
            except (NodeExistsError, ConnectionLossError):
                continue

    async def remove_offset(self, place: TopicPartition) -> None:
        """Delete the group's offset of a partition, where there is one."""
        await self._delete_tree(self._offset_path(place))

    async def remove(self) -> None:
        """Delete the group's znodes."""
        await self._delete_tree(self._root)

    # The znodes themselves

    def _owner_path(self, place: TopicPartition) -> str:
        return f"{self._root}/owners/{place.topic}/{place.partition}"

    def _offset_path(self, place: TopicPartition) -> str:
        return ConsumersZnode.offset_path(self._group, place.topic, place.partition)

    def _watch(self, path: str) -> Callable[[WatchEvent], None] | None:
        changed = self._changed
        if changed is None or path in self._armed:
            return None
        self._armed.add(path)

        def fired(_: WatchEvent) -> None:
            self._armed.discard(path)
            changed()

        return fired

    async def _names(self, path: str) -> list[str]:
        watch = self._watch(path)
        try:
            return await self._zookeeper.children(path, watch)
        except BaseException as error:
            if watch is not None:
                self._armed.discard(path)
            if isinstance(error, NoNodeError):
                return []
            raise

    async def _read_many(self, paths: list[str]) -> list[bytes | None]:
        """Read nodes, and watch each one that exists."""
        found: list[bytes | None] = []
        for path in paths:
            watch = self._watch(path)
            try:
                found.append((await self._zookeeper.get(path, watch))[0])
            except BaseException as error:
                if watch is not None:
                    self._armed.discard(path)
                if not isinstance(error, NoNodeError):
                    raise
                found.append(None)
        return found

    async def _below(self, root: str) -> dict[TopicPartition, tuple[bytes, int]]:
        """Return the nodes of partitions below a node, with the sessions that own them."""
        try:
            topics = await self._zookeeper.children(root)
        except NoNodeError:
            return {}
        numbers = await self._zookeeper.children_many([f"{root}/{topic}" for topic in topics])
        places = [
            TopicPartition(topic, int(number))
            for topic, listed in zip(topics, numbers, strict=True)
            for number in listed or ()
            if number.isdecimal()
        ]
        paths = [f"{root}/{place.topic}/{place.partition}" for place in places]
        found = await self._zookeeper.get_many(paths)
        return {
            place: (read[0], read[1].ephemeral_owner)
            for place, read in sorted(zip(places, found, strict=True), key=lambda each: each[0])
            if read is not None
        }

    async def _claim(self, path: str, data: bytes) -> bool:
        """Create an ephemeral node; return whether this session has it with these data."""
        while True:
            try:
                await self._zookeeper.create(path, data, ephemeral=True, make_parents=True)
                return True
            except ConnectionLossError:
                continue
            except NodeExistsError:
                pass
            try:
                found, stat = await self._zookeeper.get(path)
            except NoNodeError:
                continue
            # A write of ours whose answer was lost; or one of another consumer, which has not gone yet.
            return found == data and stat.ephemeral_owner == self._zookeeper.session_id

    async def _delete_own(self, path: str) -> None:
        while True:
            try:
                _, stat = await self._zookeeper.get(path)
                if stat.ephemeral_owner == self._zookeeper.session_id:
                    await self._zookeeper.delete(path, stat.version)
                return
            except NoNodeError:
                return
            except ConnectionLossError:
                continue

    async def _delete_tree(self, path: str) -> None:
        while True:
            try:
                for name in await self._zookeeper.children(path):
                    await self._delete_tree(f"{path}/{name}")
                await self._zookeeper.delete(path, ANY_VERSION)
                return
            except NoNodeError:
                return
            except (ConnectionLossError, NotEmptyError):
                continue


async def list_groups(zookeeper: GroupZooKeeper) -> list[str]:
    """Return the groups that have a znode, sorted."""
    try:
        return await zookeeper.children(ConsumersZnode.PATH)
    except NoNodeError:
        return []


def bootstrap_addresses(brokers: Iterable[BrokerRegistration], security_protocol: str = "PLAINTEXT") -> str:
    """Return the addresses that brokers advertise for a security protocol, as ``host:port,host:port``."""
    return ",".join(
        f"[{each.host}]:{each.port}" if ":" in each.host else f"{each.host}:{each.port}"
        for broker in brokers
        for each in broker.endpoints
        if each.security_protocol == security_protocol and each.host
    )


def _decoded(found: Mapping[TopicPartition, bytes]) -> dict[TopicPartition, Offset]:
    offsets = {}
    for place, data in found.items():
        try:
            offset = ConsumersZnode.decode_offset(data)
        except MalformedZnodeError as error:
            raise MalformedZnodeError(f"{place}: the committed offset is no number", error.data) from None
        if offset is not None and offset >= 0:
            offsets[place] = offset
    return offsets
