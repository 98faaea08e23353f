"""Members of groups and committers as raw protocol, thousands in one process: their cost is small, and equal for every
system.
"""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import trio

from bench.systems import System
from ottla.addresses import Address, parse_addresses
from ottla.client.broker_link import BrokerLink
from ottla.client.errors import BrokerUnreachable
from ottla.client.settings import ConnectionSettings
from ottla.client.single_link import SingleLink
from wire.errors import Error
from wire.messages.find_coordinator import FindCoordinatorRequest
from wire.messages.heartbeat import HeartbeatRequest
from wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from wire.schema import Request
from wire.types import Generation, Offset

SESSION_MS = 300_000
ANSWER_S = 120.0
_AGAIN_S = 0.005
_PASSING = frozenset(
    {
        Error.NONE,  # of other partitions of the request
        Error.COORDINATOR_NOT_AVAILABLE,
        Error.NOT_COORDINATOR,
        Error.COORDINATOR_LOAD_IN_PROGRESS,
        Error.UNKNOWN_TOPIC_OR_PARTITION,  # the coordinator does not know a new topic yet
    }
)
_SUBSCRIPTION = b"\0\0\0\0\0\1\0\5bench\xff\xff\xff\xff"


class GroupClient:
    """A connection to one broker. An async context manager."""

    def __init__(self, address: Address) -> None:
        settings = ConnectionSettings(client_id="bench", connection_setup_timeout=ANSWER_S)
        self._block = SingleLink(address, settings)
        self._link: BrokerLink | None = None

    async def __aenter__(self) -> Self:
        self._link = await self._block.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        return await self._block.__aexit__(kind, error, trace)

    async def ask(self, request: Request, at_most: int | None = None) -> Any:
        """Send a request, in a version of at most `at_most`, and return its answer.

        Raises:
            BrokerUnreachable: the broker went away.
        """
        assert self._link is not None
        return await self._link.request(request, timeout_s=ANSWER_S, at_most=at_most)

    async def commit(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Commit as a client that assigns its partitions itself.

        Raises:
            RuntimeError: it was refused.
        """
        partitions = [
            OffsetCommitRequestPartition(partition_index=p, committed_offset=Offset(offset))
            for p, offset in offsets.items()
        ]
        request = OffsetCommitRequest(
            group_id=group, topics=[OffsetCommitRequestTopic(name=topic, partitions=partitions)]
        )
        while True:
            answer = await self.ask(request)
            codes = {each.error_code for each in answer.topics[0].partitions}
            if codes == {Error.NONE}:
                return
            if not codes <= _PASSING:
                raise RuntimeError(f"a commit is refused: {codes}")
            await trio.sleep(_AGAIN_S)

    async def position(self, group: str, topic: str, partition: int) -> int | None:
        """Return a committed offset, -1 where there is none; None where this broker does not coordinate the group."""
        asked = OffsetFetchRequestTopics(name=topic, partition_indexes=[partition])
        answer = await self.ask(
            OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=[asked])])
        )
        (found,) = answer.groups
        if found.error_code:
            return None
        return int(found.topics[0].partitions[0].committed_offset)


class GroupMember(GroupClient):
    """A member that does only what the protocol requires."""

    def __init__(self, address: Address, group: str) -> None:
        super().__init__(address)
        self._group = group
        self.member_id = ""
        self.generation = Generation(-1)
        self.leads = False

    async def rejoin(self) -> None:
        """Go through a rebalance: join, and sync; the group's leader assigns a few bytes to each member."""
        while True:
            members = await self._join()
            assignments = [SyncGroupRequestAssignment(member_id=each, assignment=b"part") for each in members]
            request = SyncGroupRequest(
                group_id=self._group,
                generation_id=self.generation,
                member_id=self.member_id,
                protocol_type="consumer",
                protocol_name="range",
                assignments=assignments,
            )
            if (await self.ask(request)).error_code == Error.NONE:
                return

    async def wait_rebalance(self) -> None:
        """Send heartbeats until there is a rebalance."""
        request = HeartbeatRequest(
            group_id=self._group, generation_id=self.generation, member_id=self.member_id
        )
        while (await self.ask(request)).error_code != Error.REBALANCE_IN_PROGRESS:  # noqa: ASYNC110  # it polls
            await trio.sleep(_AGAIN_S)

    async def _join(self) -> Sequence[str]:
        while True:
            request = JoinGroupRequest(
                group_id=self._group,
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=SESSION_MS,
                member_id=self.member_id,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name="range", metadata=_SUBSCRIPTION)],
            )
            answer = await self.ask(request)
            if answer.error_code == Error.NONE:
                break
            if answer.error_code == Error.MEMBER_ID_REQUIRED:
                self.member_id = answer.member_id
            else:
                await trio.sleep(_AGAIN_S)
        self.member_id, self.generation = answer.member_id, answer.generation_id
        self.leads = answer.leader == answer.member_id
        return [each.member_id for each in answer.members]


async def coordinator_of(system: System, group: str, *, without: int | None = None) -> tuple[int, Address]:
    """Wait until a group has a coordinator other than one broker; return its broker id and address."""
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
    addresses = [a for i, a in enumerate(parse_addresses(system.bootstrap)) if i != without]
    with trio.fail_after(ANSWER_S):
        while True:
            for address in addresses:
                try:
                    async with GroupClient(address) as client:
                        (found,) = (await client.ask(request)).coordinators
                except BrokerUnreachable:
                    continue
                if found.error_code == Error.NONE and found.node_id != without:
                    return found.node_id, Address(found.host, found.port)
            await trio.sleep(_AGAIN_S)
