"""Asking one broker for signs of life, over a connection that is kept for as long as its side keeps it.

A question waits for its answer however slow the broker is. So a broker that is slow or stalled never loses the
connection, whose end is the sign of its death: a witness without a connection could only wait for silence to pass the
limit, and a lone witness not even that.
"""

import errno
from typing import TYPE_CHECKING, Final, NoReturn

import trio

from cluster.network.broker_client import ConnectionFailedError
from cluster.statemachines.peer_liveness import Observation
from wire.errors import RemoteProtocolError
from wire.messages.api_versions import ApiVersionsRequest

if TYPE_CHECKING:
    from cluster.network.broker_client import BrokerChannel

_ENDED: Final = frozenset({errno.ECONNRESET, errno.EPIPE})
"""The errors of a request whose connection the other side has ended."""


class Pulse:
    """Asks for signs of life while `run` runs; `next` returns the observations.

    Args:
        channel: To the broker; closed at the end. A new connection is made after its time-outs.
        interval_s: How long after an answer the next question is asked.
        retry_s: How long after a failure the next question is asked.

    Attributes:
        has_answered: Whether the broker has answered at this address.
    """

    def __init__(self, channel: "BrokerChannel", interval_s: float, retry_s: float) -> None:
        self._channel = channel
        self._interval_s = interval_s
        self._retry_s = retry_s
        # A channel without buffer: nothing is observed until the observation before it has been judged.
        self._found, self._next = trio.open_memory_channel[Observation](0)
        self.has_answered = False

    async def run(self) -> NoReturn:
        """Ask until cancelled; the connection is closed then."""
        try:
            while True:
                found = await self._ask()
                if found is not None:
                    await self._found.send(found)
                if found is Observation.ANSWERED:
                    ended = False
                    with trio.move_on_after(self._interval_s):
                        await self._channel.wait_ended()
                        ended = True
                    if ended:
                        await self._found.send(Observation.ENDED)
                else:
                    await trio.sleep(self._retry_s)
        finally:
            self._channel.close()

    async def next(self, patience_s: float) -> Observation | None:
        """Return the next observation: ANSWERED, ENDED or REFUSED; None if nothing comes in time."""
        with trio.move_on_after(patience_s):
            return await self._next.receive()
        return None

    async def _ask(self) -> Observation | None:
        try:
            await self._channel.request(ApiVersionsRequest(), 0)
        except ConnectionFailedError as error:
            if error.errno in _ENDED:
                return Observation.ENDED
            # If it never answered, the address may be out of date, and belong to another machine by now.
            return Observation.REFUSED if self.has_answered and error.errno == errno.ECONNREFUSED else None
        except RemoteProtocolError:
            return None
        self.has_answered = True
        return Observation.ANSWERED
