"""A request in progress: the request, the broker's parts, and the slot for its answer."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from cluster.handlers.context import CallContext
from wire.apis import ApiKey
from wire.frames import RequestHeader, encode_response

if TYPE_CHECKING:
    from cluster.metrics.registry import Histogram
    from cluster.network.response_slot import ResponseSlot
    from cluster.security.acl import Operation, ResourceType
    from cluster.security.authorizer import Subject
    from cluster.security.principal import KafkaPrincipal


Broker_co = TypeVar("Broker_co", bound=CallContext, covariant=True)
"""The parts of the broker that a handler can reach."""


class ApiCall(Generic[Broker_co]):
    """A decoded request together with its response slot.

    Exactly one of `respond`, `skip` and `close` is called, at once or later, always from the broker's loop.
    A handler may keep the call (a parked fetch, a produce that waits for replicas); it must not keep views into the
    frame past its synchronous part, because the connection's receive buffer is reused.

    Attributes:
        header: The request's header.
        request: The decoded request message.
        slot: Where the answer goes; its connection identifies the client.
        broker: The parts of the broker that the handler uses, named by its type.
        throttle_ms: For how many milliseconds its client is throttled, so far.
        came_s: When it arrived, in seconds, until its time has been charged; None if no quota is set.
        handling_s: How long its handler took to return, in seconds; None until then.
        is_exempt: Whether the request quota does not count it.
    """

    __slots__ = (
        "_amendments",
        "_begun",
        "_time_ms",
        "broker",
        "came_s",
        "handling_s",
        "header",
        "is_exempt",
        "request",
        "slot",
        "throttle_ms",
    )

    def __init__(
        self,
        header: RequestHeader,
        request: Any,
        slot: "ResponseSlot",
        broker: Broker_co,
        time_ms: "Histogram | None" = None,
    ) -> None:
        self.header = header
        self.request = request
        self.slot = slot
        self.broker = broker
        self._amendments: tuple[Callable[[Any], Any], ...] = ()
        self.throttle_ms = 0
        self.came_s: float | None = None
        self.handling_s: float | None = None
        self.is_exempt = False
        self._time_ms = time_ms
        self._begun = 0.0 if time_ms is None else broker.clock.monotonic()

    @property
    def version(self) -> int:
        """The API version that the client chose."""
        return self.header.api_version

    @property
    def listener_name(self) -> str:
        """The name of the listener on which the request arrived: answers contain the endpoints of that listener."""
        return self.slot.connection.listener_name

    @property
    def principal(self) -> "KafkaPrincipal":
        """The client's principal; `ANONYMOUS` on a listener without authentication."""
        return self.slot.connection.principal

    @property
    def client_address(self) -> str:
        """The client's address without its port, as the socket shows it; IPv4-mapped IPv6 is shown as IPv4."""
        return self.slot.connection.peer_host

    @property
    def client_has_gone(self) -> bool:
        """Whether the client has closed the connection: it no longer waits for the answer, and may have asked again."""
        return self.slot.connection.peer_has_gone

    @property
    def subject(self) -> "Subject | None":
        """The client as the authorizer sees it; None without an authorizer, when everything is allowed."""
        authorizer = self.broker.authorizer
        if authorizer is None:
            return None
        connection = self.slot.connection
        if connection.subject is None:
            connection.subject = authorizer.subject(str(connection.principal), connection.peer_host)
        return connection.subject

    def may(
        self,
        operation: "Operation",
        resource_type: "ResourceType",
        name: str,
        *,
        count: int = 1,
        quiet: bool = False,
    ) -> bool:
        """Whether the client may do an operation on a resource; always true without an authorizer.

        Args:
            operation: The operation.
            resource_type: The type of the resource.
            name: The name of the resource.
            count: How often the resource occurs in the request, for the audit log.
            quiet: Whether a refusal is not logged: it decides only what is shown, or another check follows.
        """
        subject = self.subject
        if subject is None:
            return True
        api = ApiKey(self.header.api_key).name
        return subject.may(operation, resource_type, name, api=api, count=count, quiet=quiet)

    def may_somewhere(self, operation: "Operation", resource_type: "ResourceType") -> bool:
        """Whether the client may do an operation on at least one resource of a type, existing or not."""
        subject = self.subject
        api = ApiKey(self.header.api_key).name
        return subject is None or subject.may_somewhere(operation, resource_type, api=api)

    def amend(self, amendment: "Callable[[Any], Any]") -> None:
        """Add a change to make to the response before it is encoded, after earlier amendments."""
        self._amendments += (amendment,)

    def respond(self, response: Any) -> None:
        """Encode the response at the request's version and hand it to the slot."""
        for amendment in self._amendments:
            response = amendment(response)
        if self.charge() and hasattr(response, "throttle_time_ms"):
            response = response.replace(throttle_time_ms=self.throttle_ms)
        if self._time_ms is not None:
            self._time_ms.observe((self.broker.clock.monotonic() - self._begun) * 1000)
        header = self.header
        self.slot.complete(encode_response(response, header.api_version, header.correlation_id))

    def charge(self) -> int:
        """Charge the request's time to its client's quota; return for how many milliseconds the client is throttled."""
        throttling = self.broker.throttling
        return 0 if throttling is None else throttling.charge(self)

    def skip(self) -> None:
        """Finish without an answer: a Produce with acks=0.

        If a part of it was refused, the connection is dropped: the client has no other way to learn of it.
        """
        if self._amendments:
            self.slot.close()
        else:
            self.slot.skip()

    def close(self) -> None:
        """Finish by dropping the connection, after the answers to earlier requests have gone out."""
        self.slot.close()
