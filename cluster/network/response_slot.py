"""The place in a connection's row of answers that one request holds.

Requests of a connection are begun in order and finish in any order; their answers leave in the order of the
requests. The code that finishes a request calls its slot directly, from the broker's loop: if the slot is the first
of its connection, the answer is sent at once, together with the finished ones behind it; if not, it waits for
those before it. There is no task and no event per request.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from cluster.network.endpoints import SecurityProtocol
from wire.file_range import FileRange

if TYPE_CHECKING:
    from cluster.security.authorizer import Subject
    from cluster.security.principal import KafkaPrincipal

Part: TypeAlias = bytes | bytearray | memoryview | FileRange
Answer: TypeAlias = Part | Sequence[Part]

NO_ANSWER: Final[Sequence[Part]] = ()
"""What a request that gets no answer completes with."""
CLOSE: Final[Sequence[Part]] = []
"""Marks, by identity, the slot at which the connection is dropped."""


class AskingConnection(Protocol):
    """The part of a connection that a request's slot and handler use; `Connection` is one.

    Attributes:
        peer: The client's address, for logs.
        peer_host: The client's address without its port.
        listener_name: The listener that it was accepted on.
        security_protocol: What protects it.
        principal: Who sends the requests.
        subject: The principal as the authorizer sees it, once the authorizer has been asked.
        client_software_name: What the client calls itself, from ApiVersions.
        client_software_version: Its version, likewise.
    """

    peer: str
    peer_host: str
    listener_name: str
    security_protocol: SecurityProtocol
    principal: "KafkaPrincipal"
    subject: "Subject | None"
    client_software_name: str
    client_software_version: str

    @property
    def peer_has_gone(self) -> bool:
        """Whether the peer has closed its side; what it sent before that is still read."""
        ...

    def answer_ready(self, slot: "ResponseSlot") -> None:
        """Send the answer of a completed slot, if it is its turn."""
        ...

    def stop_reading(self) -> None:
        """Begin no further requests."""
        ...

    def mute(self) -> None:
        """Begin no further requests until `unmute` was called as often as this."""
        ...

    def unmute(self) -> None:
        """Undo one `mute`."""
        ...


class ResponseSlot:
    """Where one request's answer goes. Completed exactly once, by `complete`, `skip` or `close`.

    Completing a slot of a closed connection does nothing.

    Attributes:
        connection: Where the request came from.
        cost: The bytes that this request counts for while it is in flight.
        held: The bytes of its answer that are part of the cost, while the answer waits for those before it.
    """

    __slots__ = ("answer", "connection", "cost", "held")

    def __init__(self, connection: AskingConnection, cost: int) -> None:
        self.connection = connection
        self.cost = cost
        self.held = 0
        self.answer: Answer | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the answer is known; it may still wait for earlier ones."""
        return self.answer is not None

    def complete(self, answer: Answer) -> None:
        """Hand over the whole answer, its length prefix included.

        Args:
            answer: One bytes-like, or a list of bytes-likes and file ranges that are sent one after the
                other. It belongs to the connection from now on: mutable parts must not be changed.

        Raises:
            RuntimeError: the slot was completed before, which is a bug of ours.
        """
        if self.answer is not None:
            raise RuntimeError(f"a request from {self.connection.peer} was answered twice")
        self.answer = answer
        self.connection.answer_ready(self)

    def skip(self) -> None:
        """Finish without an answer: a Produce with acks=0."""
        self.complete(NO_ANSWER)

    def close(self) -> None:
        """Finish by dropping the connection after the answers to earlier requests have gone out.

        Later requests are not begun.
        """
        self.connection.stop_reading()
        self.complete(CLOSE)
