"""What the client raises: one base class, and a class for each reaction a caller can have."""

from collections.abc import Mapping, Sequence
from typing import Any

import trio

from wire.errors import Error
from wire.types import TopicPartition


class ClientError(Exception):
    """Something failed that the client could not repair within its timeout.

    Attributes:
        topic: The topic concerned, None if the failure is not about a topic.
        partition: The partition concerned, None likewise.
        error: The broker's error code, None where no broker answered one.
        retriable: Whether the same call may succeed later.
        maybe_written: Whether the records may be in the log in spite of the failure.
    """

    retriable = False

    def __init__(
        self,
        message: str,
        *,
        topic: str | None = None,
        partition: int | None = None,
        error: Error | None = None,
        maybe_written: bool = False,
    ) -> None:
        super().__init__(message)
        self.topic = topic
        self.partition = partition
        self.error = error
        self.maybe_written = maybe_written
        if error is not None:
            self.retriable = error.retriable


class BrokerUnreachable(ClientError):
    """A broker cannot be connected to, or the connection broke; the text names the address and the reason."""

    retriable = True


class RequestTimedOut(BrokerUnreachable):
    """A broker did not answer within the request timeout; the connection is closed."""


class BootstrapError(ClientError):
    """None of the addresses led to a cluster; the text has a line for each, with its reason."""

    retriable = True

    def __init__(self, problems: Mapping[str, str]) -> None:
        lines = "".join(f"\n  {address}: {reason}" for address, reason in problems.items())
        super().__init__(f"no broker of the cluster can be reached:{lines}")
        self.problems = dict(problems)


class ClusterChanged(ClientError):
    """The addresses lead to another cluster than before: its cluster id differs."""


class UnsupportedByBroker(ClientError):
    """The broker does not serve an API, or in no version known here."""


class AuthenticationError(ClientError):
    """A broker refused the credentials, or the TLS handshake failed; the text names the broker. Fatal."""


class NotAuthorized(ClientError):
    """The principal may not do this."""


class NoRoom(ClientError, trio.WouldBlock):
    """`Producer.post_nowait` cannot accept the record at once: the producer's room is full, or the topic not known."""

    retriable = True


class SchemaRegistryError(ClientError):
    """The schema registry refuses something, or cannot be asked.

    Attributes:
        status: The HTTP status that it answered, None where it did not answer.
    """

    retriable = True

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retriable = status is None or status >= 500


class UnknownTopic(ClientError):
    """The cluster has no such topic or partition."""


class NoLeader(ClientError):
    """A partition has no leader, or its leader cannot be reached at the address that the cluster advertises."""

    retriable = True


class ClosedClient(ClientError):
    """The object was used outside of its ``async with`` block, or after it failed."""


class RecordTooLarge(ClientError):
    """A record is larger than the client's ``max_request_size`` or than the broker accepts."""


class DeliveryError(ClientError):
    """A record was not acknowledged; `maybe_written` tells whether it may be in the log.

    Attributes:
        record_errors: What the broker says of single records (Produce 8), by their index in the batch.
    """

    record_errors: Mapping[int, str] = {}


class InvalidRecord(DeliveryError):
    """The broker refused the record's content."""


class DeliveryErrors(ExceptionGroup[ClientError]):
    """The failed deliveries that nobody waited for, raised by `flush` and at the end of a producer's block."""

    def derive(self, excs: Sequence[ClientError]) -> "DeliveryErrors":  # type: ignore[override]
        """Return a group of the same kind with other members."""
        return DeliveryErrors(self.message, excs)


class DecodeError(ClientError):
    """A key or value could not be decoded.

    Attributes:
        record: The record as it came, with the bytes in `raw_key` and `raw_value`.
    """

    def __init__(self, message: str, record: Any, **place: Any) -> None:
        super().__init__(message, **place)
        self.record = record


class CorruptData(ClientError):
    """Fetched bytes are damaged: checksum, length or compressed data are wrong; the text names the offset."""


class OffsetLost(ClientError):
    """The records before a position are gone or were replaced: by retention, or by an unclean election.

    Attributes:
        position: The offset that was to be read next.
        truncated_to: Where the log diverges from what was read (KIP-320); None where the offset is out of range.
    """

    def __init__(self, message: str, *, position: int, truncated_to: int | None, **place: Any) -> None:
        super().__init__(message, **place)
        self.position = position
        self.truncated_to = truncated_to


class CommitFailed(ClientError):
    """Offsets were not committed, since their partitions are not this member's any more.

    Attributes:
        lost: Those partitions; the offsets of the others were committed.
    """

    def __init__(self, message: str, lost: Sequence[TopicPartition], **place: Any) -> None:
        super().__init__(message, **place)
        self.lost = tuple(lost)


class GroupMismatch(ClientError):
    """The group's members use other assignors or another protocol type."""


class FencedInstance(ClientError):
    """Another member has taken over this static member's ``instance_id``. Fatal."""


class ProducerFenced(ClientError):
    """Another producer has taken over this ``transactional_id``. Fatal."""


class TransactionAborted(ClientError):
    """The transaction was aborted; it may be tried again with a new one."""

    retriable = True


class TransactionUnknown(ClientError):
    """Whether the transaction was committed could not be learned within ``close_timeout``."""


_AUTHORIZATION = frozenset(
    {
        Error.TOPIC_AUTHORIZATION_FAILED,
        Error.GROUP_AUTHORIZATION_FAILED,
        Error.CLUSTER_AUTHORIZATION_FAILED,
        Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)


def refusal(error: Error, text: str | None = None) -> ClientError:
    """Return the exception for an error that stands for the whole answer; its text begins with the error's name."""
    return _kind(error)(f"{error.name}: {text or error.text}", error=error)


def error_for(
    code: int,
    what: str,
    *,
    message: str | None = None,
    topic: str | None = None,
    partition: int | None = None,
) -> ClientError:
    """Return the exception for a broker's error code.

    Args:
        code: The error code.
        what: What was tried, for people: the text begins with it.
        message: The broker's own text, None for the table's.
        topic: The topic concerned.
        partition: The partition concerned.
    """
    error = Error.from_code(code)
    return _kind(error)(
        f"{what}: {message or error.text} ({error.name})", topic=topic, partition=partition, error=error
    )


def _kind(error: Error) -> type[ClientError]:
    """Return the class for the reaction that a caller can have."""
    kind: type[ClientError] = ClientError
    if error in _AUTHORIZATION:
        kind = NotAuthorized
    elif error in (Error.UNKNOWN_TOPIC_OR_PARTITION, Error.INVALID_TOPIC_EXCEPTION, Error.UNKNOWN_TOPIC_ID):
        kind = UnknownTopic
    elif error in (Error.LEADER_NOT_AVAILABLE, Error.LISTENER_NOT_FOUND):
        kind = NoLeader
    elif error is Error.FENCED_INSTANCE_ID:
        kind = FencedInstance
    elif error is Error.PRODUCER_FENCED:
        kind = ProducerFenced
    elif error is Error.INCONSISTENT_GROUP_PROTOCOL:
        kind = GroupMismatch
    return kind
