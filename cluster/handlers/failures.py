"""The border where typed failures become Kafka's error codes: the only place that maps them.

Three kinds of failure reach a handler. A peer's malformed bytes (`RemoteProtocolError`) close the
connection. An expected failure, one of `EXPECTED_FAILURES`, becomes an error code through `failure_of`.
Everything else is a bug of ours and ends the broker with a traceback.
"""

from typing import Final, NamedTuple

from cluster.configuration.errors import ConfigError
from cluster.network.broker_client import ConnectionFailedError
from cluster.zookeeper.client import OversizedWriteError, ZooKeeperError
from storage.errors import LogError
from wire.errors import ApiError, Error

EXPECTED_FAILURES: Final = (ApiError, LogError, ZooKeeperError, ConnectionFailedError, ConfigError)
"""The failures that a handler may catch and answer; a tuple for `except`."""


class Failure(NamedTuple):
    """The error and message for a request, topic or partition that failed."""

    error: Error
    message: str | None

    @property
    def code(self) -> int:
        """The error code as it stands on the wire."""
        return int(self.error)


def failure_of(exception: BaseException) -> Failure:
    """Return the error code and text for an expected failure.

    Args:
        exception: One of `EXPECTED_FAILURES`.

    Raises:
        TypeError: the exception is not one of these: a bug of ours, which no client should see as an error code.
    """
    match exception:
        case ApiError():
            return Failure(exception.error, exception.message)
        case LogError():
            return Failure(exception.kafka_error, str(exception) or None)
        case ConfigError():
            return Failure(Error.INVALID_CONFIG, str(exception))
        case ConnectionFailedError():
            return Failure(Error.NETWORK_EXCEPTION, str(exception) or None)
        case OversizedWriteError():
            return Failure(Error.INVALID_REQUEST, str(exception))
        case ZooKeeperError():
            # The client can retry: by then the session is back, or this broker is known to be gone.
            return Failure(Error.COORDINATOR_NOT_AVAILABLE, str(exception) or None)
    raise TypeError(f"{type(exception).__name__} is no expected failure") from exception
