"""One peer's connection as the layers above see it: its identity, its row of answers, what it has in flight.

A subclass moves the bytes (`socket_connection` for TCP, the simulation for its own network).

Rules of the row. `admit` appends a slot for each request begun; a finished slot leaves when all before it
have left. While a subclass hands out several requests that came together it sets `corked`, and calls
`release` afterwards: their answers then go out in one write.
"""

import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from cluster.network.byte_budget import ByteBudget
from cluster.network.endpoints import SecurityProtocol
from cluster.network.network_counters import NetworkCounters
from cluster.network.response_slot import CLOSE, Answer, Part, ResponseSlot
from cluster.security.principal import ANONYMOUS
from wire.errors import RemoteProtocolError
from wire.file_range import FileRange

if TYPE_CHECKING:
    from cluster.security.authorizer import Subject

logger = logging.getLogger(__name__)

Dispatch: TypeAlias = Callable[[memoryview, ResponseSlot], None]
"""Begins one request. The view is valid during the call only. RemoteProtocolError closes the connection."""

CORKED_REQUESTS: Final = 32
"""How many requests that came together have their answers collected into one write."""
SLOT_OVERHEAD: Final = 512
"""Bytes that a request counts for besides its own, so that a row of tiny requests is bounded too."""
IN_FLIGHT_BYTES_MAX: Final = 16 * 1024 * 1024
"""Requests begun, and answers not taken by the peer, above which a connection is read no further."""


class Connection(ABC):
    """A peer that sends requests.

    Args:
        peer_host: The address of the peer, without its port.
        peer_port: Its port.
        listener_name: The listener that it came in by.
        dispatch: Begins a request.
        security_protocol: The listener's.
        budget: The bytes in flight in the whole broker.
        counters: Where bytes and requests are counted.
        in_flight_bytes_max: The bound of this connection.

    Attributes:
        peer: ``host:port``, as log lines name it.
        principal: Who the peer is; `ANONYMOUS` until TLS or SASL says otherwise.
        subject: The principal as the authorizer sees it, once the authorizer has been asked.
        client_software_name: From the client's ApiVersions; empty before.
        client_software_version: Likewise.
        closed: Whether the connection has gone; answers to it go nowhere.
        lingers: Whether the connection stays open for the peer to read the last answer.
        unauthenticated_since: When the connection joined, in monotonic seconds, while it has yet to pass TLS or SASL;
            else None.
        on_authenticated: Called once the peer has proved its identity.
        in_flight_bytes: What counts against the bounds now.
        frames_begun: Requests begun so far.
        received_bytes: Bytes received so far.
    """

    __slots__ = (
        "__weakref__",
        "_budget",
        "_close_callbacks",
        "_counters",
        "_dispatch",
        "_mutes",
        "_slots",
        "_unsent_cost",
        "client_software_name",
        "client_software_version",
        "closed",
        "corked",
        "frame_from",
        "frame_since",
        "frames_begun",
        "idle_since",
        "in_flight_bytes",
        "in_flight_bytes_max",
        "lingers",
        "listener_name",
        "noted_frames",
        "noted_received",
        "noted_sent",
        "on_authenticated",
        "peer",
        "peer_host",
        "peer_port",
        "principal",
        "reads_no_more",
        "received_bytes",
        "security_protocol",
        "subject",
        "unauthenticated_since",
        "waits_for_room",
    )

    def __init__(
        self,
        peer_host: str,
        peer_port: int,
        listener_name: str,
        dispatch: Dispatch,
        *,
        security_protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT,
        budget: ByteBudget | None = None,
        counters: NetworkCounters | None = None,
        in_flight_bytes_max: int = IN_FLIGHT_BYTES_MAX,
    ) -> None:
        self.peer_host = peer_host
        self.peer_port = peer_port
        self.peer = f"[{peer_host}]:{peer_port}" if ":" in peer_host else f"{peer_host}:{peer_port}"
        self.listener_name = listener_name
        self.security_protocol = security_protocol
        self.principal = ANONYMOUS
        self.subject: Subject | None = None
        self.unauthenticated_since: float | None = None
        self.on_authenticated: Callable[[], object] | None = None
        self._mutes = 0
        self.client_software_name = ""
        self.client_software_version = ""
        self.closed = False
        self.corked = False
        self.reads_no_more = False
        self.lingers = False
        self.in_flight_bytes = 0
        self.in_flight_bytes_max = in_flight_bytes_max
        self.waits_for_room = False
        self.frames_begun = 0
        self.received_bytes = 0
        # The notes of `slow_peers`: here, because they live as long as the connection.
        self.idle_since = 0.0
        self.noted_received = 0
        self.noted_sent = 0
        self.noted_frames = -1
        self.frame_since = 0.0
        self.frame_from = 0
        self._dispatch = dispatch
        self._counters = NetworkCounters() if counters is None else counters
        self._budget = ByteBudget() if budget is None else budget
        self._slots: deque[ResponseSlot] = deque()
        self._unsent_cost = 0
        self._close_callbacks: list[Callable[[], None]] = []

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{len(self._slots)} in flight"
        return f"<{type(self).__name__} {self.peer} on {self.listener_name}, {state}>"

    # What carries the bytes.

    @abstractmethod
    async def run(self) -> None:
        """Serve until the connection is closed, and close it."""

    @property
    @abstractmethod
    def sent_bytes(self) -> int:
        """Bytes that the transport has taken."""

    @property
    @abstractmethod
    def is_inside_frame(self) -> bool:
        """Whether the peer has sent a part of a request."""

    @property
    @abstractmethod
    def is_sending(self) -> bool:
        """Whether an answer waits for the peer to take it."""

    @property
    @abstractmethod
    def peer_has_gone(self) -> bool:
        """Whether the peer has closed its side or broken the connection, whatever it sent before that."""

    @abstractmethod
    def _transmit(self, answer: Answer) -> bool:
        """Send, behind all that was sent before; False if some of it has to wait for the peer or the disk.

        A transport that returned False calls `_all_transmitted` once everything has gone.
        """

    @abstractmethod
    def _disconnect(self) -> None:
        """Close the transport; called once."""

    @abstractmethod
    def _room_again(self) -> None:
        """Resume reading: there is room in flight again, or the row ends."""

    @abstractmethod
    def _limit_frames(self, size_max: int) -> None:
        """Take frames of up to `size_max` bytes from now on."""

    # Authentication.

    def await_authentication(self, dispatch: Dispatch, frame_size_max: int, now: float) -> None:
        """Send frames to an authenticator until it calls `authenticated`.

        Args:
            dispatch: The authenticator.
            frame_size_max: The largest frame that it takes.
            now: Monotonic seconds.
        """
        self._dispatch = dispatch
        self._limit_frames(frame_size_max)
        self.unauthenticated_since = now

    def authenticated(self, frame_size_max: int | None = None) -> None:
        """Record that the peer has proved its identity, and accept requests of up to `frame_size_max` bytes."""
        self.unauthenticated_since = None
        if frame_size_max is not None:
            self._limit_frames(frame_size_max)
        if self.on_authenticated is not None:
            self.on_authenticated()

    def dispatch_by(self, dispatch: Dispatch) -> None:
        """Have `dispatch` begin the requests from the next frame on."""
        self._dispatch = dispatch

    def refuse(self, slot: ResponseSlot, answer: Answer | None, delay_s: float) -> None:  # noqa: ARG002
        """Close the connection of a peer that failed to authenticate, after a last answer.

        Nothing is read meanwhile. A transport with a clock delays the answer and the close by `delay_s`.
        """
        self.reads_no_more = True
        if answer is None:
            slot.close()
        else:
            slot.complete(answer)

    # Requests, and the row of answers.

    def _begin_requests(self, next_frame: Callable[[], memoryview | None]) -> bool:
        """Begin the requests that have arrived, as long as there is room in flight.

        Args:
            next_frame: Returns the next request, or None; if it raises RemoteProtocolError, the peer is cut off.

        Returns:
            False if there is no room: `_room_again` will be called, and must call this again.
        """
        begun = 0
        self.corked = True
        try:
            while not self.reads_no_more:
                if not self.has_room():
                    self.release()
                    if not self.closed and not self.has_room():
                        self.wait_for_room()
                        return False
                    continue
                frame = next_frame()
                if frame is None:
                    break
                begun += 1
                self._dispatch(frame, self.admit(len(frame)))
                if begun % CORKED_REQUESTS == 0:
                    self.release()
        except RemoteProtocolError as error:
            self.release()
            self.cut_off(str(error))
        finally:
            self.corked = False
            self.frames_begun += begun
            self._counters.requests += begun
            self.release()
        return True

    @property
    def pending_count(self) -> int:
        """Requests whose answers have not been handed to the transport."""
        return len(self._slots)

    @property
    def is_idle(self) -> bool:
        """Whether no request is pending and nothing is left to send."""
        return not self._slots and not self._unsent_cost

    def has_room(self) -> bool:
        """Whether one more request can be begun. Back-pressure is to begin none, and then to read no more."""
        if self._mutes:
            return False
        if not self._slots and not self._unsent_cost:
            return True
        budget = self._budget
        return self.in_flight_bytes < self.in_flight_bytes_max and budget.used < budget.limit

    def admit(self, size: int) -> ResponseSlot:
        """Append a slot for a request of `size` bytes."""
        cost = size + SLOT_OVERHEAD
        self.in_flight_bytes += cost
        self._budget.used += cost
        slot = ResponseSlot(self, cost)
        self._slots.append(slot)
        return slot

    def answer_ready(self, slot: ResponseSlot) -> None:
        """Send what a completed slot lets us send; an answer that has to wait counts as in flight from now on."""
        if not self.corked and self._slots and self._slots[0] is slot:
            self.release()
        elif slot.answer and not self.closed:
            held = _held_bytes(slot.answer)
            slot.held = held
            slot.cost += held
            self.in_flight_bytes += held
            self._budget.used += held

    def release(self) -> None:
        """Send the finished answers at the front of the row, in one go."""
        slots = self._slots
        if not slots or slots[0].answer is None or self.closed:
            return
        slot = slots.popleft()
        answer: Answer = slot.answer  # type: ignore[assignment]  # the line above saw that it is not None
        cost, held = slot.cost, slot.held
        if answer is CLOSE:
            self._finish()
            return
        if slots and slots[0].answer is not None:
            parts: list[Part] = []
            _extend(parts, answer)
            while slots and slots[0].answer is not None and slots[0].answer is not CLOSE:
                slot = slots.popleft()
                cost += slot.cost
                held += slot.held
                _extend(parts, slot.answer)
            answer = parts
        if (answer and not self._transmit(answer)) or self._unsent_cost:
            # The answers' own bytes count, too, until the peer has taken everything.
            size = _held_bytes(answer) - held
            self.in_flight_bytes += size
            self._budget.used += size
            self._unsent_cost += cost + size
        else:
            self._settle(cost)
        if slots and slots[0].answer is CLOSE and not self.closed:
            self.release()

    def _all_transmitted(self) -> None:
        """Settle the answers sent; the transport calls this when nothing is left unsent."""
        cost, self._unsent_cost = self._unsent_cost, 0
        self._settle(cost)

    def _settle(self, cost: int) -> None:
        if self.closed:
            return
        self.in_flight_bytes -= cost
        self._budget.release(cost)
        if self.waits_for_room:
            self._look_for_room()
        if self.reads_no_more and not self._slots and not self._unsent_cost and not self.lingers:
            self.close()

    # Back-pressure.

    def mute(self) -> None:
        """Begin no more requests until `unmute` was called as often as this: the client is over its quota."""
        self._mutes += 1

    def unmute(self) -> None:
        """Undo one `mute`, and resume reading if it was the last."""
        self._mutes -= 1
        if not self._mutes:
            self._look_for_room()

    def wait_for_room(self) -> None:
        """Ask for `_room_again` to be called; only when `has_room` said no."""
        if not self.waits_for_room:
            self.waits_for_room = True
            if self._budget.used >= self._budget.limit:
                self._budget.call_when_free(self._look_for_room)

    def _look_for_room(self) -> None:
        if not self.waits_for_room or self.closed:
            return
        if self.has_room():
            self.waits_for_room = False
            self._room_again()
        elif self._budget.used >= self._budget.limit:
            self._budget.call_when_free(self._look_for_room)

    # The end.

    def call_on_close(self, callback: Callable[[], None]) -> None:
        """Have `callback` called, once, when the connection closes; at once if it is closed."""
        if self.closed:
            callback()
        else:
            self._close_callbacks.append(callback)

    def stop_reading(self) -> None:
        """Begin no more requests; those begun are still answered."""
        self.reads_no_more = True

    def finish(self) -> None:
        """Begin no more requests, and close once those begun have been answered."""
        self.reads_no_more = True
        if self.is_idle:
            self.close()

    def cut_off(self, reason: str) -> None:
        """Close at once because of what the peer did, and log the reason."""
        if not self.closed:
            logger.warning("Closing the connection of %s on %s: %s", self.peer, self.listener_name, reason)
            self.close()

    def close(self) -> None:
        """Drop the connection at once; what was not sent is lost. May be called again."""
        if self.closed:
            return
        self.closed = True
        self.reads_no_more = True
        self._slots.clear()
        self._unsent_cost = 0
        in_flight, self.in_flight_bytes = self.in_flight_bytes, 0
        self._disconnect()
        self._budget.release(in_flight)
        callbacks, self._close_callbacks = self._close_callbacks, []
        for callback in callbacks:
            callback()

    def _finish(self) -> None:
        """End the connection: the row has reached the slot that closes it."""
        self._slots.clear()
        self.reads_no_more = True
        if not self._unsent_cost:
            self.close()


def _extend(parts: list[Part], answer: Answer | None) -> None:
    if answer is None:
        return
    if isinstance(answer, Sequence) and not isinstance(answer, bytes | bytearray | memoryview):
        parts.extend(answer)
    else:
        parts.append(answer)


def _held_bytes(answer: Answer) -> int:
    """How much memory an answer holds: ranges of files hold none."""
    if isinstance(answer, bytes | bytearray | memoryview):
        return len(answer)
    if isinstance(answer, FileRange):
        return 0
    return sum(len(part) for part in answer if not isinstance(part, FileRange))
