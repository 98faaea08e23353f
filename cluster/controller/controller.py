"""The controller of the cluster, on the broker that was elected, and the candidate on all others.

One task owns everything: it takes events from one queue, and finishes each event before the next. A caller of the
controller's APIs puts a call into the same queue and waits.

ZooKeeper alone decides who is controller, and this broker leaves office

- when ``/controller`` names another, or a write finds the controller epoch raised (``ControllerMovedError``);
- when its session has expired, or *may* have: past the session timeout without an answer it neither acts nor
  sends until it knows better, because the other controller that may be elected by then cannot tell it to
  stop.

Any other error is a bug of ours and ends the broker: its death frees ``/controller`` for another.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import trio

from cluster.controller import calls, events, steps
from cluster.controller.answers import event_of
from cluster.controller.calls import Call
from cluster.controller.channels import Channels, ControlRequest, OpenChannel
from cluster.controller.controller_failover import fail_over
from cluster.controller.event_queue import EventQueue
from cluster.controller.events import ControllerEvent
from cluster.controller.leader_elections import ElectionKind, ElectionResult
from cluster.controller.pending_calls import PendingCalls
from cluster.controller.settings import ControllerSettings
from cluster.controller.state_changes import OnStateChange
from cluster.controller.term import Term, TermStatistics
from cluster.controller.watches import Watches
from cluster.metrics.catalogue import BrokerMetrics
from cluster.statemachines.leadership import PartitionAssignment
from cluster.zookeeper.client import SessionEvent, SessionExpiredError, ZooKeeper
from cluster.zookeeper.controller_store import ControllerStore
from cluster.zookeeper.fence import ControllerMovedError
from cluster.zookeeper.kraft import KraftControllerError
from cluster.zookeeper.znodes import BrokerRegistration
from timing.clock import Clock
from wire.errors import ApiError, Error
from wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from wire.schema import Response
from wire.types import NO_BROKER, NO_CONTROLLER_EPOCH, BrokerEpoch, BrokerId, ControllerEpoch, TopicPartition

logger = logging.getLogger(__name__)

FIRST_REBALANCE_S: Final = 5.0
"""How long after taking office leaders are rebalanced for the first time."""
FENCE_POLL_S: Final = 0.05
"""How often we check whether the session is live, while it may have expired."""


class Controller:
    """The candidate and, while it is elected, the controller.

    Attributes:
        controller_id: The broker that is controller as far as this one knows, ``NO_BROKER`` for none.
    """

    def __init__(
        self,
        broker_id: BrokerId,
        zookeeper: ZooKeeper,
        store: ControllerStore,
        open_channel: OpenChannel,
        config: ControllerSettings,
        clock: Clock,
        *,
        metrics: BrokerMetrics | None = None,
        on_state_change: OnStateChange | None = None,
    ) -> None:
        """Make a candidate; ``run`` makes it stand for election.

        Args:
            broker_id: This broker.
            zookeeper: Its session.
            store: The controller's view of that session.
            open_channel: Makes the connection to a broker on the listener that brokers use among themselves.
            config: This broker's configuration.
            clock: For the fence, and for the time stamp in ``/controller``.
            metrics: The broker's metrics; see also ``cluster.controller.gauges``.
            on_state_change: Called with every state that a partition or replica enters while this broker is in office.
        """
        self.controller_id = NO_BROKER
        self._broker_id = broker_id
        self._zookeeper = zookeeper
        self._store = store
        self._open_channel = open_channel
        self._config = config
        self._clock = clock
        self._metrics = BrokerMetrics() if metrics is None else metrics
        self._on_state_change = on_state_change
        self._queue = EventQueue()
        self._desk = PendingCalls(self._queue)
        self._watches = Watches(self._queue.put)
        self._term: Term | None = None
        self._term_scope = trio.CancelScope()
        self._nursery: trio.Nursery | None = None
        self._in_office = False
        self._has_resigned = False

    # What others see

    @property
    def is_active(self) -> bool:
        """Whether this broker is the controller, as far as it is known to hold its session."""
        return self._in_office and self._session_is_live()

    @property
    def epoch(self) -> ControllerEpoch:
        """The epoch of this controller, ``NO_CONTROLLER_EPOCH`` while it is none."""
        return NO_CONTROLLER_EPOCH if self._term is None else self._term.context.epoch

    def describe(self) -> dict[str, Any]:
        """Describe the controller for people and programs: a fresh value of plain types."""
        description: dict[str, Any] = {
            "controller_id": self.controller_id,
            "active": self.is_active,
            "queued_events": len(self._queue),
        }
        if self._term is not None:
            description |= self._term.describe()
        return description

    def statistics(self) -> TermStatistics:
        """Return the counts behind the controller's gauges; all 0 if this broker is not the controller."""
        return TermStatistics() if self._term is None else self._term.statistics()

    def registered(self) -> None:
        """Stand for election again: this broker has registered in a new session."""
        self._queue.put(events.ControllerChanged())

    def unclean_election_enabled(self, topic: str | None = None) -> None:
        """Note that unclean elections are now allowed, for one topic or, without one, for all."""
        self._queue.put(events.UncleanElectionEnabled(topic))

    async def controlled_shutdown(
        self, broker_id: BrokerId, broker_epoch: BrokerEpoch
    ) -> list[TopicPartition]:
        """Prepare a broker for its shutdown; return the replicated partitions that it still leads.

        Raises:
            ApiError: NOT_CONTROLLER, BROKER_NOT_AVAILABLE or STALE_BROKER_EPOCH.
        """
        outcome = await self._call(calls.ControlledShutdown(broker_id, broker_epoch))
        return cast(list[TopicPartition], outcome)

    async def alter_partition(self, request: AlterPartitionRequest, version: int) -> AlterPartitionResponse:
        """Write the ISR for a leader that runs Apache Kafka. Errors are in the response, NOT_CONTROLLER too."""
        try:
            return cast(AlterPartitionResponse, await self._call(calls.AlterPartition(request, version)))
        except ApiError as error:
            return AlterPartitionResponse(error_code=error.error)

    async def allocate_producer_ids(self, request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
        """Take a block of producer ids for a broker that runs Apache Kafka. Errors are in the response."""
        try:
            return cast(AllocateProducerIdsResponse, await self._call(calls.AllocateProducerIds(request)))
        except ApiError as error:
            return AllocateProducerIdsResponse(error_code=error.error)

    async def elect_leaders(
        self, partitions: Sequence[TopicPartition] | None, kind: ElectionKind
    ) -> dict[TopicPartition, ElectionResult]:
        """Elect leaders of some partitions, or of all; return the leader or the error of each.

        Raises:
            ApiError: NOT_CONTROLLER.
        """
        named = None if partitions is None else tuple(partitions)
        outcome = await self._call(calls.ElectLeaders(named, kind))
        return cast(dict[TopicPartition, ElectionResult], outcome)

    async def alter_partition_reassignments(
        self, targets: Mapping[TopicPartition, Sequence[BrokerId] | None]
    ) -> dict[TopicPartition, ApiError | None]:
        """Begin moves, or cancel those with target ``None``; return an error or ``None`` for each.

        Raises:
            ApiError: NOT_CONTROLLER.
        """
        outcome = await self._call(calls.Reassign(dict(targets)))
        return cast(dict[TopicPartition, ApiError | None], outcome)

    async def list_partition_reassignments(
        self, partitions: Sequence[TopicPartition] | None
    ) -> dict[TopicPartition, PartitionAssignment]:
        """Return the moves under way, of some partitions or of all.

        Raises:
            ApiError: NOT_CONTROLLER.
        """
        named = None if partitions is None else tuple(partitions)
        outcome = await self._call(calls.ListReassignments(named))
        return cast(dict[TopicPartition, PartitionAssignment], outcome)

    async def _call(self, call: Call) -> object:
        if not self._in_office:
            raise ApiError(Error.NOT_CONTROLLER)
        return await self._desk.call(call)

    # The task

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Stand for election, and be the controller while elected, until cancelled.

        Cancelled, it leaves ``/controller`` as it is; ``resign`` leaves office at once.

        Raises:
            KraftControllerError: the cluster is no longer coordinated through ZooKeeper.
        """
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            self._zookeeper.subscribe(self._on_session_event)
            self._queue.put(events.ControllerChanged())
            task_status.started()
            try:
                while True:
                    await self._take_one()
            finally:
                self._leave_office()
                nursery.cancel_scope.cancel()

    async def wait_told(self) -> None:
        """Wait until every broker has answered its requests; return at once if this is not the controller."""
        if self._term is not None:
            await self._term.channels.wait_sent()

    async def wait_heard(self) -> None:
        """Wait until the live brokers have answered earlier requests; return at once if this is not the controller.

        A broker that is shutting down, or goes away meanwhile, is not waited for.
        """
        if self._term is not None:
            await self._term.channels.wait_heard(self._term.context.live_brokers())

    async def resign(self) -> None:
        """Resign for good, so that another broker is elected: the last act of an orderly stop.

        Cancelled, it may leave ``/controller`` in place until the session ends.
        """
        self._has_resigned = True
        if self._term is not None:
            await self._store.resign()
            self._leave_office()

    async def _take_one(self) -> None:
        event = await self._queue.get()
        begun_at = self._clock.monotonic()
        try:
            if not await self._wait_until_live():
                return
            await self._handle(event)
        except ControllerMovedError:
            logger.warning("another controller was elected")
            self._leave_office()
            self._queue.put(events.ControllerChanged())
        except SessionExpiredError:
            self._leave_office()
        finally:
            elapsed_ms = (self._clock.monotonic() - begun_at) * 1000
            self._metrics.controller_event_time_ms.of(type(event).__name__).observe(elapsed_ms)
            if isinstance(event, events.CallReceived):
                self._desk.finish(event.ticket, ApiError(Error.NOT_CONTROLLER))

    async def _wait_until_live(self) -> bool:
        """Wait, in office, until the session is known to be live; return ``False`` if it has expired."""
        while self._term is not None and not self._session_is_live():
            if events.SessionExpired() in self._queue:
                return False
            await trio.sleep(FENCE_POLL_S)
        return True

    async def _handle(self, event: ControllerEvent) -> None:
        match event:
            case events.ControllerChanged():
                await self._see_who_is_controller()
            case events.SessionExpired():
                self._leave_office()
            case events.CallReceived(ticket, call):
                await self._answer(ticket, cast(Call, call))
            case _:
                if self._term is not None:
                    await steps.take_step(self._term, event, self._queue)

    async def _answer(self, ticket: int, call: Call) -> None:
        if self._term is None or not self._desk.is_waited_for(ticket):
            return
        try:
            outcome = await steps.answer_call(self._term, call)
        except ApiError as error:
            outcome = error
        self._desk.finish(ticket, outcome)

    # Elections

    async def _see_who_is_controller(self) -> None:
        """Read who is controller; leave office if it is another broker, stand for election if it is nobody."""
        found = await self._store.read_controller(self._watches.controller)
        registration, stat = found if found is not None else (None, None)
        if registration is not None and registration.is_kraft:
            raise KraftControllerError(
                f"/controller names KRaft controller epoch {registration.kraft_controller_epoch}: this cluster is "
                "being migrated to KRaft, which brokers with ZooKeeper of this kind cannot take part in"
            )
        ours = stat is not None and stat.ephemeral_owner == self._zookeeper.session_id
        if self._term is not None:
            if ours:
                return
            self._leave_office()
        self.controller_id = NO_BROKER if registration is None else registration.broker_id
        if (registration is None or ours) and not self._has_resigned:
            # Our node without our office: we did not learn the outcome of an election, or did not finish it.
            await self._stand()

    async def _stand(self) -> None:
        try:
            epoch = await self._store.elect(self._clock.wall_ms())
        except ControllerMovedError:
            # Another broker was faster. Read again: if it has gone since, the watch does not fire.
            self._queue.put(events.ControllerChanged())
            return
        if self._has_resigned:
            # We began to stop while we were being elected.
            await self._store.resign()
            return
        logger.info("broker %d is the controller, epoch %d", self._broker_id, epoch)
        self.controller_id = self._broker_id
        if self._nursery is None:
            raise RuntimeError("an election outside of run")
        self._term_scope = trio.CancelScope()
        channels = Channels(self._open_channel, may_send=self._session_is_live, on_answer=self._on_answer)
        channels.start(self._nursery)
        self._term = term = Term(
            self._broker_id,
            epoch,
            self._store,
            self._config,
            self._watches,
            channels,
            self._metrics,
            self._on_state_change,
        )
        # Brokers learn of this controller during the failover, and their clients call at once: the calls wait in the
        # queue until it is done.
        self._in_office = True
        await fail_over(term)
        if term.context.deletions_left:
            self._queue.put(events.DeletionsLeft())
        logger.info("controller epoch %d serves", epoch)
        self._nursery.start_soon(
            self._rebalance_ticks, self._term_scope, name="controller leader rebalance ticks"
        )

    def _leave_office(self) -> None:
        """Forget everything that belongs to the office, and refuse the calls that wait for it."""
        self._in_office = False
        term, self._term = self._term, None
        self._term_scope.cancel()
        if term is None:
            return
        logger.info("controller epoch %d ends here", term.context.epoch)
        term.channels.close_all()
        self._store.forget_election()
        self.controller_id = NO_BROKER
        self._desk.refuse_waiting()

    async def _rebalance_ticks(self, scope: trio.CancelScope) -> None:
        with scope:
            delay = FIRST_REBALANCE_S
            while True:
                await trio.sleep(delay)
                if self._config.auto_leader_rebalance_enable:
                    self._queue.put(events.RebalanceDue())
                delay = self._config.leader_imbalance_check_interval_seconds

    # Input from outside the task

    def _session_is_live(self) -> bool:
        return self._zookeeper.session_is_live(self._clock.monotonic())

    def _on_session_event(self, event: SessionEvent) -> None:
        if event is SessionEvent.EXPIRED:
            # The ephemeral nodes are gone, and with them the office: this goes in front of every waiting event.
            self._queue.put_first(events.SessionExpired())

    def _on_answer(
        self, registration: BrokerRegistration, request: ControlRequest, response: Response
    ) -> None:
        lost = self._term is not None and bool(
            self._term.context.offline_directories.get(registration.broker_id)
        )
        event = event_of(registration, request.message, response, lost_directory=lost)
        if event is not None:
            self._queue.put(event)
