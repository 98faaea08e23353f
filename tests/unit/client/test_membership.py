"""A member's life: every transition, and what answers mean."""

from itertools import product

import pytest

from ottla.client.assignors import ASSIGNORS
from ottla.client.errors import ClientError, FencedInstance, GroupMismatch, NotAuthorized
from ottla.client.membership import (
    TRANSITIONS,
    IllegalTransition,
    MemberEvent,
    Membership,
    MemberState,
    Reaction,
    decode_assignment,
    encode_assignment,
    reaction_to,
)
from ottla.client.progress import Progress
from wire.errors import Error
from wire.formats.consumer_protocol import ConsumerProtocolSubscription
from wire.formats.versioned import decode_forward_compatible
from wire.messages.join_group import JoinGroupResponseMember
from wire.types import Generation, LeaderEpoch, TopicPartition

PLACE = TopicPartition("t", 1)


def member(*names: str, instance_id: str | None = None) -> Membership:
    return Membership("g", instance_id, [ASSIGNORS[name] for name in names or ("cooperative-sticky",)], "r1")


@pytest.mark.parametrize(
    ("state", "event"), [pair for pair in product(MemberState, MemberEvent) if pair not in TRANSITIONS]
)
def test_every_other_transition_is_illegal_and_changes_nothing(
    state: MemberState, event: MemberEvent
) -> None:
    one = member()
    one.state, one.owned, one.member_id = state, {PLACE}, "m"
    with pytest.raises(IllegalTransition):
        one.move(event)
    assert (one.state, one.owned, one.member_id) == (state, {PLACE}, "m")


def test_a_cooperative_member_says_what_it_has() -> None:
    one = member()
    one.joined("m", Generation(4), "cooperative-sticky", "m")
    one.synced([PLACE])
    ((name, metadata),) = one.protocols(["t"])
    said = decode_forward_compatible(ConsumerProtocolSubscription, metadata)
    assert name == "cooperative-sticky"
    assert (list(said.topics), said.generation_id, said.rack_id) == (["t"], 4, "r1")
    assert [(some.topic, list(some.partitions)) for some in said.owned_partitions] == [("t", [1])]
    (seen,) = one.members([JoinGroupResponseMember(member_id="m", metadata=metadata)])
    assert seen.subscription.owned == (PLACE,)
    assert seen.subscription.generation == 4


def test_an_eager_member_has_nothing_while_it_joins() -> None:
    one = member("range", "cooperative-sticky")
    assert not one.is_cooperative
    one.joined("m", Generation(4), "range", "x")
    one.synced([PLACE])
    assert [name for name, _ in one.protocols(["t"])] == ["range", "cooperative-sticky"]
    assert all(
        not decode_forward_compatible(ConsumerProtocolSubscription, metadata).owned_partitions
        for _, metadata in one.protocols(["t"])
    )


def test_a_lost_member_begins_anew_and_a_static_one_keeps_its_id() -> None:
    for instance_id, kept in ((None, ""), ("i", "m")):
        one = member(instance_id=instance_id)
        one.joined("m", Generation(4), "cooperative-sticky", "m")
        one.synced([PLACE])
        one.move(MemberEvent.LOST)
        assert (one.member_id, one.generation, one.owned) == (kept, -1, set())


def test_answers() -> None:
    assert reaction_to(Error.NOT_COORDINATOR, "g", None) is Reaction.FIND_COORDINATOR
    assert reaction_to(Error.ILLEGAL_GENERATION, "g", None) is Reaction.LOST
    with pytest.raises(FencedInstance, match="instance id 'i'"):
        reaction_to(Error.FENCED_INSTANCE_ID, "g", "i")
    with pytest.raises(GroupMismatch):
        reaction_to(Error.INCONSISTENT_GROUP_PROTOCOL, "g", None)
    with pytest.raises(NotAuthorized):
        reaction_to(Error.GROUP_AUTHORIZATION_FAILED, "g", None)


def test_assignments_on_the_wire() -> None:
    partitions = [TopicPartition("a", 0), TopicPartition("a", 2), TopicPartition("b", 1)]
    assert decode_assignment(encode_assignment(partitions)) == partitions
    assert decode_assignment(b"") == []
    with pytest.raises(ClientError, match="malformed assignment"):
        decode_assignment(b"\0\0\0\0")


class Handed:
    """What `Progress` asks of a batch."""

    def __init__(self, *offsets: int) -> None:
        self._offsets = offsets
        self.next_offset = offsets[-1] + 1
        self.leader_epoch = LeaderEpoch(1)

    def __len__(self) -> int:
        return len(self._offsets)

    def offsets(self) -> tuple[int, ...]:
        return self._offsets


def test_the_committed_offset_is_the_first_that_is_not_done() -> None:
    progress = Progress(10)
    first, second = Handed(10, 12, 15), Handed(16, 17)
    progress.handed_out(first)
    progress.handed_out(second)
    progress.done(second)
    assert progress.position == 10
    progress.done(first, 12)
    assert progress.position == 10
    progress.done(first, 10)
    assert progress.position == 15
    assert not progress.is_idle
    progress.skipped(99, LeaderEpoch(2))
    assert progress.position == 15, "nothing is passed while something is in work"
    progress.done(first, 15)
    assert progress.position == 18
    assert progress.is_idle
    progress.skipped(20, LeaderEpoch(2))
    assert (progress.position, progress.is_dirty) == (20, True)


def test_work_that_was_forgotten_counts_for_nothing() -> None:
    progress = Progress(10)
    batch = Handed(10, 11)
    progress.handed_out(batch)
    progress.forget_work()
    progress.done(batch)
    assert progress.position == 10
