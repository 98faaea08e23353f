"""Requests as handlers get them: real calls, on a connection without a network, that keep their responses."""

from dataclasses import dataclass, field
from typing import Any

from cluster.handlers.call import ApiCall
from cluster.network.endpoints import SecurityProtocol
from cluster.network.response_slot import CLOSE, ResponseSlot
from cluster.security.authorizer import Authorizer, Subject
from cluster.security.principal import ANONYMOUS, KafkaPrincipal
from simulation.clock import SimulatedClock
from wire.apis import ApiKey
from wire.frames import RequestHeader


@dataclass(eq=False)
class Connection:
    """The client that asks."""

    principal: KafkaPrincipal = ANONYMOUS
    listener_name: str = "PLAINTEXT"
    security_protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    peer: str = "192.0.2.1:5000"
    peer_host: str = "192.0.2.1"
    subject: Subject | None = None
    client_software_name: str = ""
    client_software_version: str = ""
    answers: list[Any] = field(default_factory=list)
    is_closed: bool = False
    peer_has_gone: bool = False

    def answer_ready(self, slot: ResponseSlot) -> None:
        if slot.answer is not CLOSE:
            self.answers.append(slot.answer)

    def stop_reading(self) -> None:
        self.is_closed = True

    def mute(self) -> None:
        raise AssertionError("nothing is throttled")

    def unmute(self) -> None:
        raise AssertionError("nothing is throttled")


class KeptCall(ApiCall[Any]):
    """A call that keeps its responses as the handler made them, not encoded."""

    def __init__(
        self,
        broker: Any,
        request: Any,
        version: int,
        *,
        key: ApiKey = ApiKey.API_VERSIONS,
        client_id: str = "c",
        connection: Connection | None = None,
    ) -> None:
        self.connection = connection or Connection()
        slot = ResponseSlot(self.connection, 0)
        super().__init__(RequestHeader(key, version, 1, client_id), request, slot, broker)
        self.responses: list[Any] = []

    def respond(self, response: Any) -> None:
        for amendment in self._amendments:
            response = amendment(response)
        self.responses.append(response)


@dataclass(eq=False)
class Broker:
    """What every call needs from a broker; a test adds what its handler needs in a subclass."""

    clock: Any = field(default_factory=SimulatedClock, kw_only=True)
    authorizer: Authorizer | None = field(default=None, kw_only=True)
    throttling: Any = field(default=None, kw_only=True)
