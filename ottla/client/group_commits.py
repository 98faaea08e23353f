"""Committing what is done of a member's partitions: one commit at a time, repeated until it counts or they are lost.

Commits have a connection of their own: while members join, they are legal under the old generation, and would queue
behind our own JoinGroup on the membership's connection.
"""

import logging
from collections.abc import Collection, Iterable

from ottla.client import runtime
from ottla.client.context import ClientContext
from ottla.client.coordinator_link import GROUP, CoordinatorLink
from ottla.client.errors import BrokerUnreachable, CommitFailed
from ottla.client.group_partitions import OwnedPartition
from ottla.client.group_settings import GroupSettings
from ottla.client.interceptors import notify
from ottla.client.membership import Membership, MemberState, Reaction
from ottla.client.membership_task import MembershipTask
from ottla.client.offset_commits import CommittedOffset, commit_once

_log = logging.getLogger(__name__)


class GroupCommits:
    """A member's commits.

    Args:
        context: The client's connections.
        membership: The member.
        task: Keeps the member in its group, and handles what a commit's answer says about the group.
        settings: How the group reads.
    """

    def __init__(
        self, context: ClientContext, membership: Membership, task: MembershipTask, settings: GroupSettings
    ) -> None:
        self._context = context
        self._member = membership
        self._task = task
        self._settings = settings
        self._coordinator = CoordinatorLink(context, GROUP, membership.group_id)
        self._committing = runtime.new_lock()

    async def commit(self, partitions: Iterable[OwnedPartition]) -> None:
        """Commit what is done of partitions, and wait for it.

        Raises:
            CommitFailed: Some are another member's now; the others are committed.
        """
        if not self._settings.commits:
            return
        async with self._committing:
            dirty = [each for each in partitions if each.progress.is_dirty]
            failures = 0
            while True:
                left = [each for each in dirty if not each.lost and each.progress.is_dirty]
                lost = [each.place for each in dirty if each.lost]
                if not left:
                    break
                offsets = {
                    each.place: CommittedOffset(each.progress.position, each.progress.leader_epoch)
                    for each in left
                }
                await self._task.stable.wait()
                generation = self._member.generation
                try:
                    reaction = await commit_once(self._coordinator, self._member, offsets)
                except BrokerUnreachable:
                    reaction = Reaction.RETRY
                if reaction is Reaction.GO_ON:
                    for each in left:
                        each.progress.committed = offsets[each.place].offset
                    self._context.metrics.add("commit-total")
                    notify(self._settings.on_commit, offsets)
                    break
                # While we join, the answer may be about a generation that the join has ended: it says nothing new then.
                is_news = generation == self._member.generation and self._member.state is MemberState.STABLE
                if reaction is Reaction.LOST and is_news:
                    self._task.lost("a commit was refused: the group goes on without this member")
                    continue
                if reaction is Reaction.REJOIN and is_news:
                    self._task.rejoin("a commit said that the group rebalances")
                await runtime.sleep(self._context.retry_backoff.delay_s(failures))
                failures += 1
            if lost:
                names = ", ".join(map(str, lost))
                raise CommitFailed(f"group {self._member.group_id!r}: lost before the commit: {names}", lost)

    def close(self) -> None:
        """Close the connection."""
        self._coordinator.close()

    async def run(self, partitions: Collection[OwnedPartition]) -> None:
        """Commit at the interval, until cancelled.

        Args:
            partitions: The member's, as they are at each time.
        """
        interval = self._settings.commit_interval
        if interval is None:
            return
        while True:
            await runtime.sleep(interval)
            try:
                await self.commit(list(partitions))
            except CommitFailed as error:
                _log.warning("%s", error)
