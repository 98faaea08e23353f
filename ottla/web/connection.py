"""The page's client, which reconnects after the cluster was out of reach."""

from typing import Final

import trio

from ottla.client import Kafka
from ottla.client.admin import Admin
from ottla.client.errors import BrokerUnreachable, ClientError
from ottla.client.settings import ConnectionSettings

RETRY_S: Final = 1.0


class NotConnected(BrokerUnreachable):
    """No broker of the cluster answers now; the text says why."""


class ClusterConnection:
    """Owns the client; `run` keeps it connected.

    Args:
        bootstrap_servers: Where to connect to.
        settings: How.

    Attributes:
        bootstrap_servers: The same.
    """

    def __init__(self, bootstrap_servers: str, settings: ConnectionSettings) -> None:
        self.bootstrap_servers = bootstrap_servers
        self._settings = settings
        self._kafka: Kafka | None = None
        self._problem = "the cluster has not been reached yet"

    @property
    def kafka(self) -> Kafka:
        """The client.

        Raises:
            NotConnected: No broker answers now.
        """
        if self._kafka is None:
            raise NotConnected(self._problem)
        return self._kafka

    @property
    def admin(self) -> Admin:
        """The client's administration; raises as `kafka`."""
        return self.kafka.admin

    def use(self, kafka: Kafka | None) -> None:
        """Use a client that is connected already, or none, in place of `run`."""
        self._kafka = kafka

    async def run(self) -> None:
        """Stay connected until cancelled; cancelled, the client is closed."""
        while True:
            try:
                async with Kafka(self.bootstrap_servers, self._settings) as kafka:
                    self._kafka = kafka
                    await trio.sleep_forever()
            except* ClientError as failed:
                self._problem = "; ".join(dict.fromkeys(map(str, _leaves(failed))))
            finally:
                self._kafka = None
            await trio.sleep(RETRY_S)


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for each in error.exceptions for leaf in _leaves(each)]
    return [error]
