"""Groups in every version of their requests: a member's whole life, and offsets that all versions agree on."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from ottla.testing import Cluster
from tests.conftest import Topics
from tests.patience import until
from tests.raw_client import RawClient
from tests.zookeeper_client import zookeeper_client
from wire.errors import Error
from wire.messages.delete_groups import DeleteGroupsRequest
from wire.messages.describe_groups import DescribeGroupsRequest
from wire.messages.find_coordinator import FindCoordinatorRequest
from wire.messages.heartbeat import HeartbeatRequest
from wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from wire.messages.list_groups import ListGroupsRequest
from wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from wire.types import LeaderEpoch, Offset

PROTOCOLS = [JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0\xff\xff\xff\xff")]
NO_SUCH_PARTITION = 9


@pytest.fixture
def group() -> str:
    return f"group-{uuid4().hex[:8]}"


@pytest.fixture
def coordinator(quick_cluster: Cluster, group: str) -> Iterator[RawClient]:
    """A connection to the group's coordinator."""
    found: list[Any] = []
    with RawClient(quick_cluster.bootstrap_servers.split(",")[0]) as client:

        def is_known() -> bool:
            request = FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
            found[:] = client.ask(request, 6).coordinators
            return found[0].error_code == Error.NONE

        until(is_known)
    with RawClient(f"{found[0].host}:{found[0].port}") as client:
        asked = DescribeGroupsRequest(groups=[group])
        until(lambda: client.ask(asked, 5).groups[0].error_code == Error.NONE)
        yield client


@pytest.fixture
def topic(quick_cluster: Cluster, coordinator: RawClient) -> str:
    """A topic that the coordinator knows."""
    name = f"versions-{uuid4().hex[:8]}"
    Topics(quick_cluster.bootstrap_servers).create([name], 2)
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
    until(lambda: coordinator.ask(asked, 9).topics[0].error_code == Error.NONE)
    return name


@pytest.mark.parametrize("version", range(10))
def test_a_members_life(version: int, coordinator: RawClient, group: str) -> None:
    ask = coordinator.ask

    def join(member_id: str) -> Any:
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=-1 if version == 0 else 30_000,
            member_id=member_id,
            protocol_type="consumer",
            protocols=PROTOCOLS,
        )
        return ask(request, version)

    joined = join("")
    if version >= 4:
        assert joined.error_code == Error.MEMBER_ID_REQUIRED
        joined = join(joined.member_id)
    assert (joined.error_code, joined.generation_id, joined.protocol_name) == (Error.NONE, 1, "range")
    assert [each.member_id for each in joined.members] == [joined.leader] == [joined.member_id]
    assert joined.protocol_type == ("consumer" if version >= 7 else None)
    identity = {"group_id": group, "generation_id": 1, "member_id": joined.member_id}
    named = {"protocol_type": "consumer", "protocol_name": "range"} if version >= 5 else {}
    part = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"part")
    synced = ask(SyncGroupRequest(assignments=[part], **identity, **named), min(version, 5))
    assert (synced.error_code, synced.assignment) == (Error.NONE, b"part")
    beat = ask(HeartbeatRequest(**identity), min(version, 4))
    assert beat.error_code == Error.NONE
    (described,) = ask(DescribeGroupsRequest(groups=[group]), min(version, 5)).groups
    assert (described.group_state, described.members[0].member_assignment) == ("Stable", b"part")
    assert described.members[0].client_host == "/127.0.0.1"
    assert group in {each.group_id for each in ask(ListGroupsRequest(), min(version, 5)).groups}
    (kept,) = ask(DeleteGroupsRequest(groups_names=[group]), min(version, 2)).results
    assert kept.error_code == Error.NON_EMPTY_GROUP
    leaving = (
        {"member_id": joined.member_id}
        if version < 3
        else {"members": [MemberIdentity(member_id=joined.member_id), MemberIdentity(member_id="nobody")]}
    )
    left = ask(LeaveGroupRequest(group_id=group, **leaving), min(version, 5))
    assert left.error_code == Error.NONE
    if version >= 3:
        assert [each.error_code for each in left.members] == [Error.NONE, Error.UNKNOWN_MEMBER_ID]
    assert ask(HeartbeatRequest(**identity), min(version, 4)).error_code == Error.UNKNOWN_MEMBER_ID
    (gone,) = ask(DeleteGroupsRequest(groups_names=[group]), min(version, 2)).results
    assert gone.error_code == Error.NONE


def commit(client: RawClient, version: int, group: str, topic: str, offset: int) -> dict[int, int]:
    """Commit one offset, and one of a partition that does not exist; return the errors by partition."""
    partitions = [
        OffsetCommitRequestPartition(
            partition_index=partition,
            committed_offset=Offset(offset),
            committed_leader_epoch=LeaderEpoch(0),
            committed_metadata=f"in {version}",
        )
        for partition in (0, NO_SUCH_PARTITION)
    ]
    topics = [OffsetCommitRequestTopic(name=topic, partitions=partitions)]
    answer = client.ask(OffsetCommitRequest(group_id=group, topics=topics), version)
    return {each.partition_index: each.error_code for each in answer.topics[0].partitions}


def fetch(client: RawClient, version: int, group: str, topic: str) -> dict[int, tuple[int, str, int]]:
    """Return the offset, metadata and error of partitions 0 and 1."""
    if version >= 8:
        of_group = OffsetFetchRequestGroup(
            group_id=group, topics=[OffsetFetchRequestTopics(name=topic, partition_indexes=[0, 1])]
        )
        nobody = OffsetFetchRequestGroup(group_id=group, topics=None)
        answers = client.ask(OffsetFetchRequest(groups=[of_group, nobody]), version).groups
        assert [each.error_code for each in answers] == [0, 0]
        found, everything = answers
        assert [p.partition_index for t in everything.topics for p in t.partitions] == [0]
    else:
        topics = [OffsetFetchRequestTopic(name=topic, partition_indexes=[0, 1])]
        found = client.ask(OffsetFetchRequest(group_id=group, topics=topics), version)
    return {
        each.partition_index: (each.committed_offset, each.metadata, each.error_code)
        for each in found.topics[0].partitions
    }


def test_every_version_commits_and_finds_what_every_other_committed(
    coordinator: RawClient, group: str, topic: str
) -> None:
    for version in range(1, 10):
        outcome = commit(coordinator, version, group, topic, 100 + version)
        assert outcome == {0: Error.NONE, NO_SUCH_PARTITION: Error.UNKNOWN_TOPIC_OR_PARTITION}
        for reading in range(1, 10):
            assert fetch(coordinator, reading, group, topic) == {
                0: (100 + version, f"in {version}", 0),
                1: (-1, "", 0),
            }


def test_version_0_keeps_positions_in_zookeeper_and_nowhere_else(
    coordinator: RawClient, group: str, topic: str, quick_cluster: Cluster
) -> None:
    assert fetch(coordinator, 0, group, topic)[0] == (-1, "", Error.UNKNOWN_TOPIC_OR_PARTITION)
    for offset in (41, 42):
        outcome = commit(coordinator, 0, group, topic, offset)
        assert outcome == {0: Error.NONE, NO_SUCH_PARTITION: Error.UNKNOWN_TOPIC_OR_PARTITION}
    assert fetch(coordinator, 0, group, topic) == {
        0: (42, "", 0),
        1: (-1, "", Error.UNKNOWN_TOPIC_OR_PARTITION),
    }
    assert fetch(coordinator, 1, group, topic)[0] == (-1, "", 0)
    with zookeeper_client(quick_cluster.zookeeper) as zookeeper:
        assert zookeeper.get(f"/consumers/{group}/offsets/{topic}/0")[0] == b"42"
