"""The connections of one client: dialled when needed, shared by its producers, readers and groups.

A broker has one connection for data, one for fetches, which wait there, and one for each group or transaction, whose
joins wait: a *purpose*. Dialling runs in a task of the client, so
that a caller who is cancelled takes no connection away from another.
"""

import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from ottla.addresses import Address
from ottla.client import runtime
from ottla.client.backoff import Backoff
from ottla.client.broker_link import BrokerLink
from ottla.client.errors import AuthenticationError, BootstrapError, BrokerUnreachable, ClientError
from ottla.client.link import Link, dial
from ottla.client.metadata import ClusterMetadata
from ottla.client.settings import ConnectionSettings
from wire.schema import Request
from wire.types import NO_BROKER, BrokerId

DATA: Final = "data"
FETCH: Final = "fetch"
"""Separate from `DATA`: a broker answers in order, and a waiting fetch would hold up all requests behind it."""
_FIRST_BOOTSTRAP_ID: Final = -2
"""Bootstrap addresses count downwards from here, since no broker has these ids."""

Dialer = Callable[[Address, float], Awaitable[Link]]


class _Slot:
    """The connection to one broker for one purpose, or the attempts to make it."""

    __slots__ = ("dial_at", "dialled", "error", "failures", "link", "then")

    def __init__(self) -> None:
        self.then: list[Callable[[], None]] = []
        self.link: BrokerLink | None = None
        self.dialled: runtime.Event | None = None
        self.failures = 0
        self.dial_at = 0.0
        self.error: ClientError | None = None


class BrokerLinks:
    """Connections by broker and purpose.

    Args:
        bootstrap: The addresses that the user gave.
        metadata: Where the brokers' addresses are found.
        settings: How to connect.
        nursery: Runs the connections.
        source: Where jitter and the order of brokers come from.
        dialer: Makes a connection; by default over TCP.
    """

    def __init__(
        self,
        bootstrap: Sequence[Address],
        metadata: ClusterMetadata,
        settings: ConnectionSettings,
        nursery: runtime.Nursery,
        source: random.Random,
        dialer: Dialer | None = None,
    ) -> None:
        self._bootstrap = {BrokerId(_FIRST_BOOTSTRAP_ID - i): each for i, each in enumerate(bootstrap)}
        self._metadata = metadata
        self._settings = settings
        self._nursery = nursery
        self._source = source
        self._dial: Dialer = dialer or (lambda address, timeout_s: dial(address, timeout_s, settings.tls))
        self._slots: dict[tuple[BrokerId, str], _Slot] = {}
        self._reconnect = Backoff(settings.reconnect_backoff, settings.reconnect_backoff_max, source)
        self._setup = Backoff(
            settings.connection_setup_timeout, settings.connection_setup_timeout_max, source
        )

    def ready(self, broker_id: BrokerId, purpose: str = DATA) -> BrokerLink | None:
        """Return the open connection to a broker, None where there is none."""
        slot = self._slots.get((broker_id, purpose))
        if slot is None or slot.link is None or not slot.link.is_open:
            return None
        if slot.link.retires_at <= runtime.current_time():
            # Its session ends soon: what is in flight may still be answered, the next goes over a new connection.
            retired, slot.link = slot.link, None
            retired.retire()
            return None
        return slot.link

    def dial_error(self, broker_id: BrokerId, purpose: str = DATA) -> ClientError | None:
        """Return why the last attempt to connect to a broker failed, None where it did not."""
        slot = self._slots.get((broker_id, purpose))
        return None if slot is None else slot.error

    def dial_soon(
        self, broker_id: BrokerId, purpose: str = DATA, then: Callable[[], None] | None = None
    ) -> None:
        """Connect to a broker in the background, unless that is being done.

        Args:
            broker_id: Which one.
            purpose: For what.
            then: Called once when the attempt has ended, either way, whichever caller began it.
        """
        slot = self._slots.setdefault((broker_id, purpose), _Slot())
        if slot.dialled is None:
            if slot.link is not None and slot.link.is_open:
                return
            slot.dialled = runtime.new_event()
            self._nursery.start_soon(self._connect, slot, broker_id)
        if then is not None and then not in slot.then:
            slot.then.append(then)

    async def get(self, broker_id: BrokerId, purpose: str = DATA) -> BrokerLink:
        """Return the connection to a broker, made where there is none.

        Raises:
            BrokerUnreachable: It cannot be connected to; the next call waits out the back-off and tries again.
            AuthenticationError: It refuses us.
        """
        link = self.ready(broker_id, purpose)
        if link is not None:
            await runtime.checkpoint_if_cancelled()
            return link
        self.dial_soon(broker_id, purpose)
        slot = self._slots[broker_id, purpose]
        assert slot.dialled is not None
        await slot.dialled.wait()
        if slot.link is not None and slot.link.is_open:
            return slot.link
        raise slot.error or BrokerUnreachable(f"the connection to broker {broker_id} broke at once")

    async def any(self) -> BrokerLink:
        """Return a connection to any broker: the least busy open one, else a new one.

        Known brokers are tried first, then the bootstrap addresses (KIP-899).

        Raises:
            BootstrapError: None can be reached.
            AuthenticationError: A broker refused the credentials.
        """
        open_links = [
            slot.link
            for (_, purpose), slot in self._slots.items()
            if purpose == DATA and slot.link is not None and slot.link.is_open
        ]
        if open_links:
            return min(open_links, key=_busy)
        known = list(self._metadata.brokers)
        self._source.shuffle(known)
        problems: dict[str, str] = {}
        for broker_id in [*known, *self._bootstrap]:
            try:
                return await self.get(broker_id)
            except BrokerUnreachable as error:
                problems[str(self._address(broker_id))] = str(error)
        raise BootstrapError(problems)

    async def ask_any(self, message: Request, *, at_most: int | None = None) -> Any:
        """Send a request to any broker and return the answer; raises as `any` and `BrokerLink.request`."""
        link = await self.any()
        return await link.request(message, at_most=at_most)

    async def ask(
        self, broker_id: BrokerId, message: Request, *, purpose: str = DATA, timeout_s: float | None = None
    ) -> Any:
        """Send a request to one broker and return the answer; raises as `get` and `BrokerLink.request`."""
        link = await self.get(broker_id, purpose)
        return await link.request(message, timeout_s=timeout_s)

    def _address(self, broker_id: BrokerId) -> Address | None:
        address = self._bootstrap.get(broker_id)
        if address is None:
            broker = self._metadata.brokers.get(broker_id)
            address = None if broker is None else broker.address
        return address

    async def _connect(self, slot: _Slot, broker_id: BrokerId) -> None:
        try:
            await runtime.sleep_until(slot.dial_at)
            address = self._address(broker_id)
            if address is None:
                raise BrokerUnreachable(f"broker {broker_id} is not among the live ones")
            slot.link = await self._open(slot, broker_id, address)
            slot.failures = 0
            slot.error = None
            self._nursery.start_soon(slot.link.run)
        except (BrokerUnreachable, AuthenticationError) as error:
            slot.error = error
            slot.dial_at = runtime.current_time() + self._reconnect.delay_s(slot.failures)
            slot.failures += 1
        finally:
            dialled, slot.dialled = slot.dialled, None
            if dialled is not None:
                dialled.set()
        waiting, slot.then = slot.then, []
        for then in waiting:
            then()

    async def _open(self, slot: _Slot, broker_id: BrokerId, address: Address) -> BrokerLink:
        timeout_s = self._setup.delay_s(slot.failures)
        try:
            raw = await self._dial(address, timeout_s)
        except BrokerUnreachable as error:
            if broker_id in self._bootstrap:
                raise
            raise BrokerUnreachable(f"broker {broker_id}, advertised at {address}: {error}") from None
        link = BrokerLink(raw, NO_BROKER if broker_id in self._bootstrap else broker_id, self._settings)
        try:
            with runtime.move_on_after(timeout_s) as scope:
                await link.open()
        except BaseException:
            link.close()
            raise
        if scope.cancelled_caught:
            link.close()
            raise BrokerUnreachable(f"{address} accepts connections, but did not answer in {timeout_s:g} s")
        return link

    def metadata_changed(self) -> None:
        """Close connections to brokers that have moved or gone, and those to bootstrap addresses."""
        for (broker_id, _), slot in self._slots.items():
            link = slot.link
            if link is not None and link.is_open and link.in_flight == 0:
                broker = self._metadata.brokers.get(broker_id)
                if broker is None or broker.address != link.address:
                    link.close()

    def bootstrap_again(self) -> None:
        """Forget the known brokers, so that the bootstrap addresses are asked next (KIP-1102)."""
        self._metadata.brokers.clear()
        for slot in self._slots.values():
            if slot.link is not None and not slot.link.in_flight:
                slot.link.close()

    def close_idle(self) -> None:
        """Close the connections that had nothing to do for ``connections_max_idle``."""
        before = runtime.current_time() - self._settings.connections_max_idle
        for slot in self._slots.values():
            link = slot.link
            if link is not None and link.is_open and not link.in_flight and link.last_used < before:
                link.close()

    def close_purpose(self, purpose: str) -> None:
        """Close the connections of a purpose, when what used them has ended."""
        for key in [key for key in self._slots if key[1] == purpose]:
            slot = self._slots.pop(key)
            if slot.link is not None:
                slot.link.close()

    def close(self) -> None:
        """Close everything."""
        for slot in self._slots.values():
            if slot.link is not None:
                slot.link.close()


def _busy(link: BrokerLink) -> int:
    return link.in_flight
