"""Watches the ZooKeeper sessions of other brokers, and closes them when their host is dead.

A guardian closes the session of a process that dies. If the guardian dies as well, with its container or host, the
session would live until its timeout, and the dead broker would keep its leaderships as long. A witness holds the
session's key, in memory, asks the broker for a sign of life several times within a limit, and closes its session on
good evidence: `cluster.statemachines.peer_liveness` says which.
"""

import errno
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import trio

from cluster.peers.pulse import Pulse
from cluster.statemachines.peer_liveness import (
    Observation,
    PeerLiveness,
    is_dead,
    is_suspect,
    observe,
    seems_dead,
)
from wire.messages.reach_broker import ReachBrokerRequest

if TYPE_CHECKING:
    from cluster.network.dialling import Dial
    from cluster.peers.peer_requests import Connect, PeerRequests
    from cluster.replication.metadata_cache import MetadataCache, Node
    from cluster.zookeeper.session_closer import SessionKey
    from timing.clock import Clock
    from wire.types import BrokerEpoch, BrokerId

logger = logging.getLogger(__name__)

CloseSession = Callable[["SessionKey"], Awaitable[bool]]

SIGNS_PER_LIMIT: Final = 5
"""How many times a sign of life is asked for within the limit."""
KEPT_S: Final = 15.0
"""How long a key is kept without being handed over again, while its broker lives."""
QUIET_S: Final = 10.0
"""How long after we close a broker's session its silence is no reason to close the next one."""
WATCHED_MAX: Final = 1000
ASKED_MAX: Final = 8
"""How many other brokers are asked about a suspect."""
_ATTEMPTS: Final = 3
UNANSWERED_MAX: Final = 16
"""By what factor, at most, the wait grows for a broker that can be reached but does not answer."""
_PATIENCE_ANSWER: Final = 0.3
_PATIENCE_ENDED: Final = 0.2
_PATIENCE_SILENT: Final = 0.6
_PATIENCE_ASKED: Final = 0.2
_PATIENCE_ASKING: Final = 0.5
"""Parts of the limit: how long we wait for an answer; how long we try to connect after a connection was ended, and
after silence; how long a broker that we ask tries to connect, and how long we wait for its vote."""
_OWN_NETWORK: Final = frozenset(
    {errno.ENETUNREACH, errno.ENETDOWN, errno.EADDRNOTAVAIL, errno.EMFILE, errno.ENFILE}
)
"""The errors of connecting that are faults of our own network."""


@dataclass(slots=True, eq=False)
class _Watched:
    """One broker whose session's key we hold."""

    broker_id: "BrokerId"
    epoch: "BrokerEpoch"
    key: "SessionKey"
    renewed_at: float
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)


class SessionWatch:
    """Holds the keys of other brokers' sessions, and watches over each.

    Args:
        broker_id: This broker.
        listener: The listener that brokers talk to each other on.
        metadata: Which brokers are live.
        limit_s: How long a broker may be silent.
        connect: Makes a channel to a watched broker; its request time-out is many times the limit.
        dial: Makes bare connections.
        requests: Asks other brokers.
        close_session: Closes a session; returns whether ZooKeeper confirmed that.
        session_is_live: Whether our own session is known to live.
        clock: Monotonic time.
    """

    def __init__(
        self,
        broker_id: "BrokerId",
        listener: str,
        metadata: "MetadataCache",
        limit_s: float,
        connect: "Connect",
        dial: "Dial",
        requests: "PeerRequests",
        close_session: CloseSession,
        session_is_live: Callable[[], bool],
        clock: "Clock",
    ) -> None:
        self._broker_id = broker_id
        self._listener = listener
        self._metadata = metadata
        self._limit_s = limit_s
        self._connect = connect
        self._dial = dial
        self._requests = requests
        self._close_session = close_session
        self._session_is_live = session_is_live
        self._clock = clock
        self._watched: dict[BrokerId, _Watched] = {}
        self._closed_at: dict[BrokerId, float] = {}
        self._nursery: trio.Nursery | None = None

    @property
    def watched(self) -> list["BrokerId"]:
        """The brokers whose sessions we watch over."""
        return sorted(self._watched)

    async def run(self) -> None:
        """Watch until cancelled."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            try:
                await trio.sleep_forever()
            finally:
                self._nursery = None

    def hold(self, broker_id: "BrokerId", epoch: "BrokerEpoch", key: "SessionKey") -> None:
        """Take over the key of a broker's session, and watch over it from now on."""
        if self._nursery is None or broker_id == self._broker_id:
            return
        present = self._watched.get(broker_id)
        if present is not None and present.key == key:
            present.renewed_at = self._clock.monotonic()
            return
        if present is not None:
            if epoch < present.epoch:
                return  # the key of an earlier registration, handed over late
            present.scope.cancel()
        elif len(self._watched) >= WATCHED_MAX:
            return
        watched = self._watched[broker_id] = _Watched(broker_id, epoch, key, self._clock.monotonic())
        self._nursery.start_soon(self._watch, watched, name=f"watch over the session of broker {broker_id}")

    def release(self, broker_id: "BrokerId", session_id: int) -> None:
        """Forget the key of a broker that shuts down in good order."""
        watched = self._watched.get(broker_id)
        if watched is not None and watched.key.session_id == session_id:
            del self._watched[broker_id]
            watched.scope.cancel()

    async def reach(self, broker_id: "BrokerId") -> bool:
        """Return whether a connection can be made to a live broker."""
        node = self._metadata.node(broker_id, self._listener)
        if node is None:
            return False
        # A fault of our own network is no vote against the broker.
        outcome = await self._try(node, _PATIENCE_ASKED)
        return outcome in (Observation.REACHED, Observation.NOTHING)

    async def _watch(self, watched: _Watched) -> None:
        with watched.scope:
            try:
                if await self._wait_dead(watched):
                    await self._end_session(watched)
                    with trio.move_on_after(QUIET_S):
                        while self._metadata.is_alive(watched.broker_id):
                            await self._metadata.wait_changed()
            finally:
                self._metadata.suspect(watched.broker_id, is_suspect=False)
        if self._watched.get(watched.broker_id) is watched:
            del self._watched[watched.broker_id]

    async def _wait_dead(self, watched: _Watched) -> bool:
        """Wait until a broker is found dead, and return True; return False if it is no longer ours to watch."""
        interval_s = self._limit_s / SIGNS_PER_LIMIT
        while True:
            node = self._metadata.node(watched.broker_id, self._listener)
            if node is None:
                await trio.sleep(interval_s)
                if self._is_outdated(watched):
                    return False
                continue
            pulse = Pulse(self._connect(node), interval_s, interval_s / 4)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(pulse.run, name=f"pulse of broker {watched.broker_id}")
                is_dead = await self._judge(watched, node, pulse)
                nursery.cancel_scope.cancel()
            if is_dead is not None:
                return is_dead

    async def _judge(self, watched: _Watched, node: "Node", pulse: Pulse) -> bool | None:
        """Wait until the broker at one address is found dead; False if we stop watching, None if it moved."""
        interval_s = self._limit_s / SIGNS_PER_LIMIT
        liveness = PeerLiveness()
        unanswered = 0
        looked_at = self._clock.monotonic()
        while self._metadata.node(watched.broker_id, self._listener) == node:
            if liveness == PeerLiveness():
                if self._is_outdated(watched):
                    return False
                # A stalled broker accepts nothing from its backlog: our attempts must not fill it.
                patience_s = interval_s + _PATIENCE_ANSWER * self._limit_s * min(
                    1 + unanswered, UNANSWERED_MAX
                )
            else:
                patience_s = interval_s / 4
            observations, votes = await self._look(watched, node, pulse, liveness, patience_s)
            for observation in observations:
                unanswered = unanswered + 1 if observation is Observation.REACHED else 0
                now = self._clock.monotonic()
                # Time in which we were stalled does not count as their silence.
                elapsed_s, looked_at = min(now - looked_at, 1.2 * self._limit_s), now
                liveness = observe(liveness, observation, elapsed_s, self._limit_s)
                self._metadata.suspect(watched.broker_id, is_suspect=seems_dead(liveness, self._limit_s))
                if is_suspect(liveness, observation, self._limit_s) and await self._is_dead(
                    watched, liveness, votes
                ):
                    return True
        return None

    def _is_outdated(self, watched: _Watched) -> bool:
        return self._clock.monotonic() - watched.renewed_at > KEPT_S

    async def _look(
        self, watched: _Watched, node: "Node", pulse: Pulse, liveness: PeerLiveness, patience_s: float
    ) -> tuple[list[Observation], list[bool] | None]:
        """Wait for a sign of life; if none comes, test whether a connection can be made.

        Args:
            watched: The broker.
            node: Its address.
            pulse: Asks it.
            liveness: What is known so far.
            patience_s: How long to wait for the sign.

        Returns:
            What came of it, and the other brokers' votes if they were asked meanwhile.
        """
        found = await pulse.next(patience_s)
        if found is Observation.ANSWERED or found is Observation.REFUSED:
            return [found], None
        if found is Observation.ENDED:
            # Clients have lost their connections as well, and ask at once who leads.
            self._metadata.suspect(watched.broker_id, is_suspect=True)
        observations = [] if found is None else [found]
        was_ended = liveness.was_ended or found is Observation.ENDED
        patience = _PATIENCE_ENDED if was_ended else _PATIENCE_SILENT
        # The others are asked at the same time: at once if its side ended the connection, as a death does, else when
        # the first attempt has had its time.
        waits_s = 0.0 if was_ended else patience * self._limit_s / _ATTEMPTS
        votes: list[bool] = []
        outcome = Observation.NOTHING
        async with trio.open_nursery() as nursery:

            async def ask() -> None:
                await trio.sleep(waits_s)
                votes.extend(await self._votes(watched))

            nursery.start_soon(ask)
            outcome = await self._try(node, patience)
            if outcome is Observation.REFUSED and not pulse.has_answered:
                outcome = Observation.NOT_REACHED
            if outcome in (Observation.REACHED, Observation.NOTHING):
                nursery.cancel_scope.cancel()
        return [*observations, outcome], votes

    async def _try(self, node: "Node", patience: float) -> Observation:
        """Make and close a connection, in overlapping attempts.

        Args:
            node: Where to.
            patience: How much of the limit it may take.
        """
        outcome = Observation.NOT_REACHED
        patience_s = patience * self._limit_s
        with trio.move_on_after(patience_s):
            async with trio.open_nursery() as nursery:

                async def attempt() -> None:
                    nonlocal outcome
                    try:
                        link = await self._dial(node.host, node.port)
                    except OSError as error:
                        if error.errno in _OWN_NETWORK:
                            outcome = Observation.NOTHING
                        elif error.errno == errno.ECONNREFUSED:
                            outcome = Observation.REFUSED
                        else:
                            outcome = Observation.NOT_REACHED
                    else:
                        link.close()
                        outcome = Observation.REACHED
                    nursery.cancel_scope.cancel()

                for _ in range(_ATTEMPTS):
                    nursery.start_soon(attempt)
                    await trio.sleep(patience_s / _ATTEMPTS)
        return outcome

    async def _is_dead(self, watched: _Watched, liveness: PeerLiveness, votes: list[bool] | None) -> bool:
        """Decide about a suspect, with the votes of the other brokers, which are asked unless they were already."""
        if not self._session_is_live():
            return False
        closed_at = self._closed_at.get(watched.broker_id)
        if not liveness.was_ended and closed_at is not None and self._clock.monotonic() - closed_at < QUIET_S:
            return False
        if votes is None:
            votes = await self._votes(watched)
        registered = len(self._metadata.snapshot.brokers.keys() | {self._broker_id, watched.broker_id})
        return is_dead(liveness, votes, registered)

    async def _votes(self, watched: _Watched) -> list[bool]:
        """Ask the other brokers whether they can connect to a suspect; return the answers that come in time."""
        brokers = self._metadata.snapshot.brokers
        others = [each for each in sorted(brokers) if each not in (self._broker_id, watched.broker_id)]
        votes: list[bool] = []

        async def ask(broker_id: "BrokerId") -> None:
            node = self._metadata.node(broker_id, self._listener)
            if node is None:
                return
            try:
                answer = await self._requests.ask(node, ReachBrokerRequest(broker_id=watched.broker_id))
            except OSError:
                return
            if answer is not None:
                votes.append(answer.is_reached)

        # The next brokers in the ring, up to `ASKED_MAX`.
        nearest = sorted(others, key=lambda each: (each < watched.broker_id, each))[:ASKED_MAX]
        with trio.move_on_after(_PATIENCE_ASKING * self._limit_s):
            async with trio.open_nursery() as nursery:
                for broker_id in nearest:
                    nursery.start_soon(ask, broker_id)
        return votes

    async def _end_session(self, watched: _Watched) -> None:
        logger.warning(
            "broker %d is dead: no broker that answers can connect to it; closing its ZooKeeper session 0x%x",
            watched.broker_id,
            watched.key.session_id & 0xFFFFFFFFFFFFFFFF,
        )
        self._closed_at[watched.broker_id] = self._clock.monotonic()
        if not await self._close_session(watched.key):
            logger.warning("the session of broker %d was not closed, and must time out", watched.broker_id)
