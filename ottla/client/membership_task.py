"""The shell around `membership`: joins, heartbeats, and what must happen between an old assignment and a new one.

Eager: drain and release what we have, then join. Cooperative: join with what we have, while work on it goes on; then
drain and release what must go, and join again. Heartbeats run in a task and over a connection of their own, through all
of that.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from ottla.client import runtime
from ottla.client.context import ClientContext
from ottla.client.coordinator_link import CoordinatorLink
from ottla.client.errors import BrokerUnreachable
from ottla.client.membership import (
    PROTOCOL_TYPE,
    MemberEvent,
    Membership,
    MemberState,
    Reaction,
    decode_assignment,
    reaction_to,
)
from wire.errors import Error
from wire.messages.heartbeat import HeartbeatRequest
from wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from wire.types import TopicPartition

_log = logging.getLogger(__name__)

_JOIN_GRACE_S: Final = 5.0
"""How much longer than the rebalance timeout an answer to JoinGroup may take."""


class AssignmentOwner(Protocol):
    """What a group does about its member's assignments."""

    def subscription(self) -> Sequence[str]:
        """Return the subscribed topics: those named, or the existing ones that match the pattern."""
        ...

    def counts(self, topics: Sequence[str]) -> Mapping[str, int]:
        """Return the partition counts of those topics that are known."""
        ...

    async def release(self, partitions: Sequence[TopicPartition]) -> None:
        """Wait until the work on partitions has ended, commit, and release them."""
        ...

    async def acquire(self, partitions: Sequence[TopicPartition]) -> None:
        """Begin to read partitions that were assigned."""
        ...

    def lose(self) -> None:
        """Drop all partitions at once: other members may have them already."""
        ...

    def look_for_changes(self) -> None:
        """Join again if the metadata have changed since the last join."""
        ...


class MembershipTask:
    """Keeps a member in its group.

    Args:
        context: The client's connections.
        membership: The member.
        owner: The group.
        session_timeout: Seconds without heartbeats after which the coordinator drops us.
        heartbeat_interval: Seconds between heartbeats.
        rebalance_timeout: Seconds that releasing may take.

    Attributes:
        coordinator: The way to the coordinator, for commits too.
        stable: Set while we are in a generation with an assignment; replaced when we are not.
    """

    def __init__(
        self,
        context: ClientContext,
        membership: Membership,
        owner: AssignmentOwner,
        *,
        coordinator: CoordinatorLink,
        session_timeout: float,
        heartbeat_interval: float,
        rebalance_timeout: float,
    ) -> None:
        self.coordinator = coordinator
        self.stable = runtime.new_event()
        self._context = context
        self._member = membership
        self._owner = owner
        self._session_timeout = session_timeout
        self._heartbeat_interval = heartbeat_interval
        self._rebalance_timeout = rebalance_timeout
        self._rejoin = runtime.new_event()
        self._may_join = runtime.new_event()
        self._may_join.set()
        self._answered_at = runtime.current_time()
        self._reason = "first join"
        self._pinned: set[str] = set()

    def rejoin(self, reason: str) -> None:
        """Join again soon."""
        if not self._rejoin.is_set():
            self._reason = reason
            self._rejoin.set()

    def lost(self, reason: str) -> None:
        """Drop all partitions, and join anew."""
        _log.warning("group %r: the member is lost: %s", self._member.group_id, reason)
        self._unstable()
        self._member.move(MemberEvent.LOST)
        self._owner.lose()
        self.rejoin(reason)

    async def step_out(self, reason: str, *, leaves: bool) -> None:
        """Drop all partitions, and stay outside of the group until `come_back`, whatever happens meanwhile.

        Args:
            reason: Why, for the log.
            leaves: Whether to send LeaveGroup; else the coordinator waits for the session to expire.
        """
        member = self._member
        _log.warning("group %r: stepping out of the group: %s", member.group_id, reason)
        self._unstable()
        self._may_join = runtime.new_event()
        leaving = self._leave_request() if leaves else None
        member.move(MemberEvent.LOST)
        self._owner.lose()
        if leaving is not None:
            try:
                await self.coordinator.ask(leaving)
            except BrokerUnreachable as error:
                _log.info("group %r: leaving: %s", member.group_id, error)

    def come_back(self, reason: str) -> None:
        """Undo `step_out`: join again."""
        self._may_join.set()
        self.rejoin(reason)

    def _unstable(self) -> None:
        if self.stable.is_set():
            self.stable = runtime.new_event()

    async def run(self) -> None:
        """Join, and join again whenever it is due, until cancelled.

        Raises:
            FencedInstance: Another member has our instance id.
            GroupMismatch: The group's members use other assignors.
            NotAuthorized: The principal may not use the group.
        """
        try:
            async with runtime.open_nursery() as nursery:
                nursery.start_soon(self._beat)
                while True:
                    self._rejoin = runtime.new_event()
                    await self._rebalance()
                    # Metadata that came meanwhile, such as those of a topic that was just created.
                    self._owner.look_for_changes()
                    await self._rejoin.wait()
                    await self._may_join.wait()
                    if self._member.state is MemberState.STABLE:
                        self._member.move(MemberEvent.REBALANCE)
        finally:
            self._watch([])

    async def _rebalance(self) -> None:
        """Go through joins until there is an assignment that needs no further one."""
        member = self._member
        if not member.is_cooperative and member.owned:
            await self._owner.release(sorted(member.owned))
            member.owned = set()
        while True:
            assigned = await self._join_and_sync()
            if assigned is None:
                continue
            before, after = member.owned, set(assigned)
            going = sorted(before - after)
            member.synced(sorted(after))
            self.stable.set()
            self._context.metrics.add("rebalance-total")
            _log.info(
                "group %r: generation %d, %d partitions, %d of them new, %d given up",
                member.group_id,
                member.generation,
                len(after),
                len(after - before),
                len(going),
            )
            if going:
                await self._owner.release(going)
            if member.state is MemberState.STABLE:
                await self._owner.acquire(sorted(after - before))
            if not going or member.state is not MemberState.STABLE:
                return
            member.move(MemberEvent.REBALANCE)
            self._reason = "released what others get"

    async def _join_and_sync(self) -> list[TopicPartition] | None:
        """Join and sync once; return the assignment, None where it has to be tried again."""
        joined = await self._join()
        if joined is None:
            return None
        member = self._member
        member.joined(joined.member_id, joined.generation_id, joined.protocol_name, joined.leader)
        # From here to the sync's answer a commit would be refused; it waits.
        self._unstable()
        assignments: dict[str, bytes] = {}
        if member.is_leader and not joined.skip_assignment:
            members = member.members(joined.members)
            topics = sorted({topic for each in members for topic in each.subscription.topics})
            await self._learn(topics)
            assignments = member.assign(members, self._owner.counts(topics))
        elif not member.is_leader:
            self._watch([])
        request = SyncGroupRequest(
            group_id=member.group_id,
            generation_id=member.generation,
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=joined.protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=each, assignment=data)
                for each, data in assignments.items()
            ],
        )
        try:
            answer = await self.coordinator.ask(request, timeout_s=self._rebalance_timeout + _JOIN_GRACE_S)
        except BrokerUnreachable as error:
            _log.info("group %r: %s", member.group_id, error)
            member.move(MemberEvent.REBALANCE)
            return None
        if await self._react(answer.error_code) is not Reaction.GO_ON:
            if member.state is MemberState.SYNCING:
                member.move(MemberEvent.REBALANCE)
            return None
        return decode_assignment(bytes(answer.assignment))

    async def _learn(self, topics: Sequence[str]) -> None:
        """Make sure that the metadata have the topics of all members, including those that are not ours."""
        self._watch(topics)
        if any(topic not in self._context.metadata.topics for topic in topics):
            with runtime.move_on_after(self._heartbeat_interval):
                await self._context.refresh.wait_update()

    def _watch(self, topics: Sequence[str]) -> None:
        """Keep the topics that we assign fresh for as long as we lead the group, and no others."""
        wanted = set(topics)
        for topic in wanted - self._pinned:
            self._context.refresh.pin(topic)
        for topic in self._pinned - wanted:
            self._context.refresh.unpin(topic)
        self._pinned = wanted

    async def _join(self) -> JoinGroupResponse | None:
        member = self._member
        request = JoinGroupRequest(
            group_id=member.group_id,
            session_timeout_ms=int(self._session_timeout * 1000),
            rebalance_timeout_ms=int(self._rebalance_timeout * 1000),
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=metadata)
                for name, metadata in member.protocols(self._owner.subscription())
            ],
            reason=self._reason,
        )
        try:
            answer: JoinGroupResponse = await self.coordinator.ask(
                request, timeout_s=self._rebalance_timeout + _JOIN_GRACE_S
            )
        except BrokerUnreachable as error:
            _log.info("group %r: %s", member.group_id, error)
            return None
        self._answered_at = runtime.current_time()
        if answer.error_code == Error.MEMBER_ID_REQUIRED:
            member.member_id = answer.member_id
            return None
        reaction = await self._react(answer.error_code)
        return answer if reaction is Reaction.GO_ON else None

    async def _react(self, code: int) -> Reaction:
        member = self._member
        reaction = reaction_to(code, member.group_id, member.instance_id)
        if reaction is Reaction.FIND_COORDINATOR:
            self.coordinator.forget()
        if reaction is Reaction.LOST:
            self.lost(Error.from_code(code).name)
        if reaction in (Reaction.RETRY, Reaction.FIND_COORDINATOR):
            await runtime.sleep(self._context.settings.retry_backoff)
        return reaction

    async def _beat(self) -> None:
        """Send heartbeats while we are in a generation."""
        member = self._member
        while True:
            due = runtime.current_time() + self._heartbeat_interval
            await runtime.sleep_until(due)
            late = runtime.current_time() - due
            if late > self._heartbeat_interval:
                _log.warning(
                    "group %r: a heartbeat is %.1f s late: a task has held the loop; use in_thread for "
                    "what takes long",
                    member.group_id,
                    late,
                )
            if member.state is not MemberState.STABLE:
                self._answered_at = runtime.current_time()
                continue
            if runtime.current_time() - self._answered_at > self._session_timeout:
                self.lost("no heartbeat was answered within the session timeout")
                continue
            generation = member.generation
            request = HeartbeatRequest(
                group_id=member.group_id,
                generation_id=generation,
                member_id=member.member_id,
                group_instance_id=member.instance_id,
            )
            try:
                answer = await self.coordinator.ask(request, timeout_s=self._session_timeout)
            except BrokerUnreachable as error:
                _log.info("group %r: %s", member.group_id, error)
                continue
            if generation != member.generation or member.state is not MemberState.STABLE:
                continue
            self._answered_at = runtime.current_time()
            if await self._react(answer.error_code) is Reaction.REJOIN:
                self.rejoin("the group rebalances")

    async def leave(self) -> None:
        """Leave the group, so that others need not wait for our session to expire.

        Raises:
            BrokerUnreachable: The coordinator cannot be reached.
        """
        request = self._leave_request()
        if request is not None:
            await self.coordinator.ask(request)

    def _leave_request(self) -> LeaveGroupRequest | None:
        member = self._member
        if not member.member_id:
            return None
        identity = MemberIdentity(
            member_id=member.member_id, group_instance_id=member.instance_id, reason="closed"
        )
        return LeaveGroupRequest(group_id=member.group_id, member_id="", members=[identity])
