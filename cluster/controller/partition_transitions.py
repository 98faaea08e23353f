"""Partitions that get, change and lose their leaders: the partition machine with ZooKeeper and the brokers
around it.

Everything is done in batches: the states of all partitions are read at once, decided one by one, written at once, and
sent in one request per broker. A write by a leader in between shows as a stale version: such partitions are read and
decided again.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import trio

from cluster.controller.context import ControllerContext
from cluster.controller.request_batch import PARTITIONS_PER_TURN, RequestBatch
from cluster.controller.settings import ControllerSettings
from cluster.metrics.catalogue import BrokerMetrics
from cluster.statemachines import partition as machine
from cluster.statemachines.elections import (
    Election,
    bump_leader_epoch,
    elect_controlled_shutdown,
    elect_offline,
    elect_preferred,
    elect_reassigned,
)
from cluster.statemachines.leadership import PartitionLeadership, initial_leadership
from cluster.statemachines.partition import PartitionState
from cluster.zookeeper.client import BadVersionError, NodeExistsError, ZooKeeperError
from cluster.zookeeper.controller_store import ControllerStore
from cluster.zookeeper.znodes import TOPICS
from wire.types import BrokerId, TopicPartition

logger = logging.getLogger(__name__)

MAX_ROUNDS: Final = 100
"""How often a decision is made again after conflicting writes before it counts as failed."""
MAX_LOGGED_FAILURES: Final = 20
"""How many failed elections of one step are logged individually; the others are only counted."""
UNCLEAN_ELECTION_KEY: Final = "unclean.leader.election.enable"


@dataclass(frozen=True, slots=True)
class ElectionFailed:
    """No leader was elected; the partition is as it was.

    Attributes:
        reason: For people.
    """

    reason: str


ElectionOutcome = PartitionLeadership | ElectionFailed
Decisions = dict[TopicPartition, Election | None]
Decide = Callable[[Mapping[TopicPartition, PartitionLeadership]], Awaitable[Decisions]]


class PartitionTransitions:
    """Applies events of the partition machine to many partitions at once."""

    def __init__(
        self,
        context: ControllerContext,
        store: ControllerStore,
        batch: RequestBatch,
        settings: ControllerSettings,
        metrics: BrokerMetrics,
    ) -> None:
        self._context = context
        self._store = store
        self._batch = batch
        self._settings = settings
        self._metrics = metrics
        self.unclean_elections = 0
        """How many elections of this controller may have lost records."""

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Make partitions new: their replicas are known."""
        self._apply(partitions, machine.PartitionAssigned())

    def lose_leaders(self, partitions: Iterable[TopicPartition]) -> None:
        """Make partitions offline: their leaders are gone."""
        self._apply(partitions, machine.LeaderLost())

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        """Make partitions without a leader non-existent."""
        self._apply(partitions, machine.PartitionRemoved())

    async def bring_online(
        self, partitions: Sequence[TopicPartition] | None = None
    ) -> dict[TopicPartition, ElectionOutcome]:
        """Elect leaders for partitions without one: first leaders for new ones, others for those that lost theirs.

        Args:
            partitions: ``None`` for all that have none, except those of topics that are being deleted.
        """
        if partitions is None:
            partitions = self._context.leaderless_partitions()
        new = [tp for tp in partitions if self._context.partition_state(tp) is PartitionState.NEW]
        offline = [tp for tp in partitions if self._context.partition_state(tp) is PartitionState.OFFLINE]
        outcomes = await self._initialise(new)
        outcomes |= await self._elect(offline, partial(self._decide_offline, unclean=False))
        await self._batch.flush()
        return outcomes

    async def elect_offline(
        self, partitions: Sequence[TopicPartition], *, unclean: bool
    ) -> dict[TopicPartition, ElectionOutcome]:
        """Elect leaders as for partitions that lost theirs.

        Args:
            partitions: Those that have a state in ZooKeeper.
            unclean: Allow replicas that are not in sync, whatever the topics' configurations say.
        """
        return await self._elect_and_tell(partitions, partial(self._decide_offline, unclean=unclean))

    async def elect_preferred(
        self, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, ElectionOutcome]:
        """Return the leadership to the first replica of each partition."""
        return await self._elect_and_tell(partitions, self._decide_preferred)

    async def elect_reassigned(
        self, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, ElectionOutcome]:
        """Elect leaders among the target replicas of reassignments."""
        return await self._elect_and_tell(partitions, self._decide_reassigned)

    async def elect_controlled_shutdown(
        self, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, ElectionOutcome]:
        """Move leaderships away from brokers that are shutting down."""
        return await self._elect_and_tell(partitions, self._decide_controlled_shutdown)

    async def bump_epochs(
        self, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, ElectionOutcome]:
        """Raise the leader epochs and keep the leaders, dead or alive, so that replicas accept changed assignments.

        Nothing is sent: the caller notifies the brokers concerned.
        """
        return await self._elect(partitions, self._decide_same, tell=False)

    async def topics_that_allow_unclean(self, topics: set[str]) -> set[str]:
        """Return the topics that allow leaders from outside the ISR."""
        if not topics:
            return set()
        default = "true" if self._settings.unclean_leader_election_enable else "false"
        configs = await self._store.read_configs(TOPICS, sorted(topics))
        return {
            topic
            for topic, config in configs.items()
            if config.get(UNCLEAN_ELECTION_KEY, default).strip().lower() == "true"
        }

    # The machine

    def _apply(self, partitions: Iterable[TopicPartition], event: machine.PartitionEvent) -> None:
        for partition in partitions:
            state = self._context.partition_state(partition)
            if machine.allows(state, type(event)):
                self._context.put_partition_state(partition, machine.step(state, event))
            else:
                logger.warning("partition %s stays %s: %s", partition, state.value, type(event).__name__)

    async def _initialise(
        self, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, ElectionOutcome]:
        """Write the first leadership of the new partitions that have a live replica."""
        context = self._context
        outcomes: dict[TopicPartition, ElectionOutcome] = {}
        first: list[tuple[TopicPartition, PartitionLeadership]] = []
        for partition in partitions:
            replicas = context.assignment(partition).replicas
            live = [replica for replica in replicas if context.is_online(partition, replica)]
            if live:
                first.append((partition, initial_leadership(live, context.epoch)))
            else:
                outcomes[partition] = ElectionFailed(f"none of its replicas {list(replicas)} is live")
        existing = []
        for index, (partition, result) in enumerate(
            (await self._store.create_partition_states(first)).items() if first else ()
        ):
            if index % PARTITIONS_PER_TURN == 0:
                await trio.lowlevel.checkpoint()
            if isinstance(result, NodeExistsError):
                existing.append(partition)
            elif isinstance(result, ZooKeeperError):
                outcomes[partition] = ElectionFailed(f"its state was not created: {result}")
            else:
                outcomes[partition] = result
                self._now_led(partition, result)
                self._tell(partition, result, result.isr, is_new=True)
        if existing:
            # Another controller's unfinished work: what it wrote counts, so these are partitions that lost their
            # leader.
            self.lose_leaders(existing)
            outcomes |= await self._elect(existing, partial(self._decide_offline, unclean=False))
        self._log_failures(outcomes)
        return outcomes

    async def _elect_and_tell(
        self, partitions: Sequence[TopicPartition], decide: Decide
    ) -> dict[TopicPartition, ElectionOutcome]:
        outcomes = await self._elect(partitions, decide)
        await self._batch.flush()
        return outcomes

    async def _elect(
        self, partitions: Sequence[TopicPartition], decide: Decide, *, tell: bool = True
    ) -> dict[TopicPartition, ElectionOutcome]:
        """Read, decide and write until nothing is stale; written leaderships go into the context and the batch."""
        outcomes: dict[TopicPartition, ElectionOutcome] = {}
        remaining = []
        for partition in partitions:
            state = self._context.partition_state(partition)
            if machine.allows(state, machine.LeaderElected) and state is not PartitionState.NEW:
                remaining.append(partition)
            else:
                outcomes[partition] = ElectionFailed(f"it is {state.value}")
        rounds = 0
        while remaining:
            rounds += 1
            if rounds > MAX_ROUNDS:
                outcomes.update(dict.fromkeys(remaining, ElectionFailed("its state is written all the time")))
                break
            current = await self._read_states(remaining, outcomes)
            decisions = await decide(current) if current else {}
            elected: dict[TopicPartition, Election] = {}
            for partition, election in decisions.items():
                if election is None:
                    outcomes[partition] = ElectionFailed(self._why_nobody(partition, current[partition]))
                else:
                    elected[partition] = election
            remaining = await self._write(elected, outcomes, tell=tell)
        self._log_failures(outcomes)
        return outcomes

    async def _read_states(
        self, partitions: Sequence[TopicPartition], outcomes: dict[TopicPartition, ElectionOutcome]
    ) -> dict[TopicPartition, PartitionLeadership]:
        states = await self._store.read_partition_states(partitions)
        current = {}
        for partition in partitions:
            leadership = states.get(partition)
            if leadership is None:
                outcomes[partition] = ElectionFailed("it has no state in ZooKeeper")
            elif leadership.controller_epoch > self._context.epoch:
                outcomes[partition] = ElectionFailed(
                    f"the controller of epoch {leadership.controller_epoch} decided it, ours is "
                    f"{self._context.epoch}"
                )
            else:
                current[partition] = leadership
        return current

    async def _write(
        self,
        elected: Mapping[TopicPartition, Election],
        outcomes: dict[TopicPartition, ElectionOutcome],
        *,
        tell: bool,
    ) -> list[TopicPartition]:
        """Write decisions; return the partitions that have to be decided again."""
        if not elected:
            return []
        self._metrics.leader_elections.only.value += len(elected) if tell else 0
        writes = await self._store.write_partition_states(
            [(partition, election.leadership) for partition, election in elected.items()]
        )
        stale = []
        for index, (partition, result) in enumerate(writes.items()):
            if index % PARTITIONS_PER_TURN == 0:
                await trio.lowlevel.checkpoint()
            if isinstance(result, BadVersionError):
                stale.append(partition)
            elif isinstance(result, ZooKeeperError):
                outcomes[partition] = ElectionFailed(f"its state was not written: {result}")
            else:
                outcomes[partition] = result
                if not tell:
                    self._context.leaderships[partition] = result
                    continue
                self._now_led(partition, result)
                if elected[partition].unclean:
                    self.unclean_elections += 1
                    self._metrics.unclean_leader_elections.only.value += 1
                    logger.warning("partition %s: broker %d leads uncleanly", partition, result.leader)
                self._tell(partition, result, elected[partition].recipients, is_new=False)
        return stale

    def _now_led(self, partition: TopicPartition, leadership: PartitionLeadership) -> None:
        self._context.leaderships[partition] = leadership
        state = self._context.partition_state(partition)
        self._context.put_partition_state(partition, machine.step(state, machine.LeaderElected()))

    def _tell(
        self,
        partition: TopicPartition,
        leadership: PartitionLeadership,
        recipients: Iterable[BrokerId],
        *,
        is_new: bool,
    ) -> None:
        assignment = self._context.assignment(partition)
        self._batch.tell_role(recipients, partition, leadership, assignment, is_new=is_new)

    def _why_nobody(self, partition: TopicPartition, leadership: PartitionLeadership) -> str:
        replicas = self._context.assignment(partition).replicas
        live = [replica for replica in replicas if self._context.is_online(partition, replica)]
        return f"of its replicas {list(replicas)} are live {live}, in sync {list(leadership.isr)}"

    def _log_failures(self, outcomes: Mapping[TopicPartition, ElectionOutcome]) -> None:
        failed = [(tp, outcome) for tp, outcome in outcomes.items() if isinstance(outcome, ElectionFailed)]
        for partition, failure in failed[:MAX_LOGGED_FAILURES]:
            logger.warning("partition %s gets no leader: %s", partition, failure.reason)
        if len(failed) > MAX_LOGGED_FAILURES:
            logger.warning("%d more partitions get no leader", len(failed) - MAX_LOGGED_FAILURES)

    # The elections

    async def _decide_offline(
        self, states: Mapping[TopicPartition, PartitionLeadership], *, unclean: bool
    ) -> Decisions:
        context = self._context
        decisions: Decisions = {}
        lost: list[TopicPartition] = []
        for partition, leadership in states.items():
            election = elect_offline(
                context.assignment(partition),
                leadership,
                partial(context.is_online, partition),
                controller_epoch=context.epoch,
                unclean=unclean,
            )
            decisions[partition] = election
            if election is None and not unclean:
                lost.append(partition)
        # The topic's setting matters only where no in-sync replica is left: read it for these alone.
        allowed = await self.topics_that_allow_unclean({partition.topic for partition in lost})
        for partition in lost:
            if partition.topic in allowed:
                decisions[partition] = elect_offline(
                    context.assignment(partition),
                    states[partition],
                    partial(context.is_online, partition),
                    controller_epoch=context.epoch,
                    unclean=True,
                )
        return decisions

    async def _decide_preferred(self, states: Mapping[TopicPartition, PartitionLeadership]) -> Decisions:
        context = self._context
        return {
            partition: elect_preferred(
                context.assignment(partition),
                leadership,
                partial(context.is_online, partition),
                controller_epoch=context.epoch,
            )
            for partition, leadership in states.items()
        }

    async def _decide_reassigned(self, states: Mapping[TopicPartition, PartitionLeadership]) -> Decisions:
        context = self._context
        return {
            partition: elect_reassigned(
                context.assignment(partition),
                leadership,
                partial(context.is_online, partition),
                controller_epoch=context.epoch,
            )
            for partition, leadership in states.items()
        }

    async def _decide_controlled_shutdown(
        self, states: Mapping[TopicPartition, PartitionLeadership]
    ) -> Decisions:
        context = self._context
        return {
            partition: elect_controlled_shutdown(
                context.assignment(partition),
                leadership,
                partial(context.is_reachable, partition),
                controller_epoch=context.epoch,
                shutting_down=context.shutting_down,
            )
            for partition, leadership in states.items()
        }

    async def _decide_same(self, states: Mapping[TopicPartition, PartitionLeadership]) -> Decisions:
        epoch = self._context.epoch
        return {
            partition: Election(bump_leader_epoch(leadership, epoch), ())
            for partition, leadership in states.items()
        }
