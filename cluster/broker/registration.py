"""Membership of the cluster: the registration in ZooKeeper, kept up across expired sessions.

When a session expires, every ephemeral node is gone: the broker registers again, with a new broker epoch,
as soon as ZooKeeper gives it a new session, and calls its listeners. It keeps serving its data meanwhile.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeVar

import trio

from cluster.zookeeper.client import SessionEvent, SessionExpiredError
from cluster.zookeeper.session_record import SessionRecords
from wire.types import NO_BROKER_EPOCH, BrokerEpoch

if TYPE_CHECKING:
    from cluster.environment.ports import Session
    from cluster.zookeeper.broker_store import BrokerStore
    from cluster.zookeeper.guardian import GuardianLink
    from cluster.zookeeper.znodes import BrokerRegistration
    from security.zookeeper_access import ZooKeeperAccess
    from timing.clock import Clock

logger = logging.getLogger(__name__)

_T = TypeVar("_T")


class Registration:
    """This broker's registration.

    Attributes:
        epoch: The epoch of the current registration; the last one's while there is none.
    """

    def __init__(
        self,
        zookeeper: "Session",
        store: "BrokerStore",
        directories: Callable[[], Sequence[Path]],
        link: "GuardianLink | None",
        clock: "Clock",
    ) -> None:
        """Make it; `join` registers.

        Args:
            zookeeper: The session.
            store: Registers.
            directories: Returns the log directories that are online and locked: one of them records the session.
            link: To the guardian, which closes the session should this process die.
            clock: Monotonic time.
        """
        self.epoch: BrokerEpoch = NO_BROKER_EPOCH
        self._zookeeper = zookeeper
        self._store = store
        self._records = SessionRecords(directories)
        self._link = link
        self._clock = clock
        self._registration: BrokerRegistration | None = None
        self._listeners: list[Callable[[BrokerEpoch], None]] = []
        self._expired = trio.Event()
        self._member = trio.Event()
        zookeeper.subscribe(self._on_session_event)

    @property
    def is_member(self) -> bool:
        """Whether this broker is registered, as far as it knows."""
        return self._member.is_set()

    def on_joined(self, listener: Callable[[BrokerEpoch], None]) -> None:
        """Call a listener with the new epoch after each registration."""
        self._listeners.append(listener)

    async def close_former_session(self, hosts: str, access: "ZooKeeperAccess") -> None:
        """Close the session that an earlier process of this broker left behind, so that its node is gone at once.

        Args:
            hosts: `zookeeper.connect`.
            access: How ZooKeeper is reached.
        """
        await trio.to_thread.run_sync(self._records.close_former, hosts, self._clock.monotonic, access)

    async def in_session(self, operation: "Callable[[], Awaitable[_T]]") -> "_T":
        """Run an operation on ZooKeeper before this broker is registered, again in a new session if one expires.

        A start takes as long as the recovery of its logs, and must not fail because the session did not last.
        """
        while True:
            try:
                await self._zookeeper.renew_session()
                return await operation()
            except SessionExpiredError:
                logger.warning("the ZooKeeper session has expired during the start: going on in a new one")

    async def join(self, registration: "BrokerRegistration") -> None:
        """Register, in a new session if the present one expired meanwhile; listeners are called before it returns.

        Raises:
            BrokerIdTakenError: another live broker has this id.
            ZooKeeperError: ZooKeeper cannot be asked.
        """
        self._registration = registration
        await self.in_session(partial(self._register, registration))

    async def keep(self) -> NoReturn:
        """Register again after each expired session, forever.

        Raises:
            BrokerIdTakenError: another live broker took this id meanwhile.
        """
        while True:
            await self._expired.wait()
            self._expired = trio.Event()
            registration = self._registration
            if registration is None:
                continue
            try:
                await self._register(registration)
            except SessionExpiredError:
                self._expired.set()  # this one expired too

    async def wait_member(self) -> None:
        """Wait until this broker is registered; return at once if it is."""
        await self._member.wait()

    def left(self) -> None:
        """Note that the session was closed in good order: neither the guardian nor the next start closes it."""
        self._records.erase()
        if self._link is not None:
            self._link.announce_closed()

    async def _register(self, registration: "BrokerRegistration") -> None:
        # Hand out the key before the session owns the broker's node: the guardian or the next start closes the session
        # should this process die.
        if self._expired.is_set():
            self._expired = trio.Event()
        await self._zookeeper.renew_session()
        key = self._zookeeper.session_key
        if self._link is not None:
            self._link.announce_session(key)
        self._records.write(key)
        self.epoch = await self._store.register(registration)
        logger.info("broker %d is registered with epoch %d", registration.broker_id, self.epoch)
        self._member.set()
        for listener in self._listeners:
            listener(self.epoch)

    def _on_session_event(self, event: SessionEvent) -> None:
        match event:
            case SessionEvent.EXPIRED:
                logger.warning("the ZooKeeper session has expired: registering again")
                if self._member.is_set():
                    self._member = trio.Event()
                self._expired.set()
            case SessionEvent.SUSPENDED:
                logger.warning("the connection to ZooKeeper is lost; serving on")
            case SessionEvent.RECONNECTED:
                logger.info("the connection to ZooKeeper is back, the session lives")
            case SessionEvent.CONNECTED:
                logger.info("connected to ZooKeeper")
