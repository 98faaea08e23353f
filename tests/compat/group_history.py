"""Consumer groups that outlive brokers of both kinds: the positions of one, and the only member of another."""

from typing import Any

from tests.patience import until
from tests.raw_client import RawClient
from wire.errors import Error
from wire.messages.describe_groups import DescribeGroupsRequest
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
from wire.types import Offset

COMMITS = 520
"""Enough for a broker of ours to leave a snapshot when it stops."""
ASSIGNMENT = b"everything"
SESSION_MS = 1_500_000


class GroupHistory:
    """The positions of the group `readers` and the member of the group `members`, on whichever broker runs."""

    def __init__(self, address: str, topic: str) -> None:
        self._address = address
        self._topic = topic
        self._position = 0
        self._member = ""
        self._generation = -1

    def check(self) -> None:
        """Check that the position is the last acknowledged one, and that the member is unchanged."""
        with RawClient(self._address) as client:
            until(lambda: self._is_served(client))
            if not self._member:
                return
            asked = OffsetFetchRequestTopics(name=self._topic, partition_indexes=[0])
            group = OffsetFetchRequestGroup(group_id="readers", topics=[asked])
            (found,) = client.ask(OffsetFetchRequest(groups=[group]), 8).groups
            (position,) = found.topics[0].partitions
            assert (position.error_code, position.committed_offset) == (Error.NONE, self._position)
            assert position.metadata == f"at {self._position}"
            (described,) = client.ask(DescribeGroupsRequest(groups=["members"]), 5).groups
            (member,) = described.members
            assert (described.group_state, described.protocol_data) == ("Stable", "range")
            assert (member.member_id, member.member_assignment) == (self._member, ASSIGNMENT)
            assert self._of_member(client, HeartbeatRequest, 4).error_code == Error.NONE

    def go_on(self) -> None:
        """Commit further positions; the first time, also join a member to its own group."""
        with RawClient(self._address) as client:
            until(lambda: self._is_served(client))
            for _ in range(COMMITS):
                self._position += 1
                partition = OffsetCommitRequestPartition(
                    partition_index=0,
                    committed_offset=Offset(self._position),
                    committed_metadata=f"at {self._position}",
                )
                topic = OffsetCommitRequestTopic(name=self._topic, partitions=[partition])
                answer = client.ask(OffsetCommitRequest(group_id="readers", topics=[topic]), 8)
                assert answer.topics[0].partitions[0].error_code == Error.NONE
            if not self._member:
                self._join(client)

    def _is_served(self, client: RawClient) -> bool:
        found = client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["readers"]), 4)
        described = client.ask(DescribeGroupsRequest(groups=["readers", "members"]), 5)
        codes = {each.error_code for each in (*found.coordinators, *described.groups)}
        return codes == {Error.NONE}

    def _join(self, client: RawClient) -> None:
        for error in (Error.MEMBER_ID_REQUIRED, Error.NONE):
            protocol = JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0\xff\xff\xff\xff")
            request = JoinGroupRequest(
                group_id="members",
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=SESSION_MS,
                member_id=self._member,
                protocol_type="consumer",
                protocols=[protocol],
            )
            joined = client.ask(request, 6)
            assert joined.error_code == error
            self._member, self._generation = joined.member_id, joined.generation_id
        part = SyncGroupRequestAssignment(member_id=self._member, assignment=ASSIGNMENT)
        assert self._of_member(client, SyncGroupRequest, 4, assignments=[part]).error_code == Error.NONE

    def _of_member(self, client: RawClient, kind: type[Request], version: int, **more: Any) -> Any:
        identity = {
            "group_id": "members",
            "generation_id": self._generation,
            "member_id": self._member,
        }
        return client.ask(kind(**identity, **more), version)
