"""A connection to one address, without a cluster around it: for tools that look at a single broker."""

from types import TracebackType

from ottla.addresses import Address
from ottla.client import runtime
from ottla.client.broker_link import BrokerLink
from ottla.client.errors import BrokerUnreachable
from ottla.client.link import dial
from ottla.client.settings import ConnectionSettings
from ottla.client.task_scope import TaskScope
from wire.types import NO_BROKER


class SingleLink:
    """Connects for the length of an ``async with`` block, which gives the `BrokerLink`.

    Args:
        address: Where to.
        settings: How; ``connection_setup_timeout`` bounds the connection and, once more, the negotiation.

    Raises:
        BrokerUnreachable: On entering: nothing listens there, or it is not a Kafka broker.
        AuthenticationError: On entering: the broker refuses us, or its certificate is refused.
    """

    def __init__(self, address: Address, settings: ConnectionSettings) -> None:
        self._address = address
        self._settings = settings
        self._scope = TaskScope()
        self._nursery: runtime.Nursery | None = None
        self._link: BrokerLink | None = None

    async def __aenter__(self) -> BrokerLink:
        timeout_s = self._settings.connection_setup_timeout
        raw = await dial(self._address, timeout_s, self._settings.tls)
        self._link = link = BrokerLink(raw, NO_BROKER, self._settings)
        try:
            with runtime.move_on_after(timeout_s) as scope:
                await link.open()
            if scope.cancelled_caught:
                raise BrokerUnreachable(
                    f"{self._address} accepts connections, but did not answer within {timeout_s:g} s"
                )
            self._nursery = await self._scope.open()
        except BaseException:
            link.close()
            raise
        self._nursery.start_soon(link.run)
        return link

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        assert self._link is not None
        assert self._nursery is not None
        self._link.close()
        return await self._scope.close(self._nursery, kind, error, trace)
