"""From a frame to a handler: header, route, decode, begin.

Runs synchronously inside the connection's receive loop, once per frame: nothing here may await. Requests of
one connection are therefore begun in the order in which they came.
"""

import logging
from typing import TYPE_CHECKING

from cluster.handlers.call import ApiCall
from cluster.handlers.failures import EXPECTED_FAILURES, failure_of
from cluster.handlers.throttling import EXEMPT
from wire.apis import ApiKey
from wire.errors import RemoteProtocolError, UnsupportedVersionError
from wire.frames import RequestHeader, decode_request_header

if TYPE_CHECKING:
    from cluster.handlers.context import BrokerContext
    from cluster.handlers.registry import Handle, Registry, Route
    from cluster.network.response_slot import ResponseSlot

logger = logging.getLogger(__name__)


class Dispatcher:
    """Routes the requests of every connection of one broker.

    Args:
        broker: The parts of the broker that handlers use.
        registry: The served APIs.
    """

    __slots__ = ("_broker", "_registry")

    def __init__(self, broker: "BrokerContext", registry: "Registry") -> None:
        self._broker = broker
        self._registry = registry

    def dispatch(self, frame: memoryview, slot: "ResponseSlot") -> None:
        """Begin the request in one frame.

        Args:
            frame: The request without its length; valid during this call only.
            slot: Where its response goes.

        Raises:
            RemoteProtocolError: the bytes are not a request that we serve; the connection is to be closed.
        """
        header, position = decode_request_header(frame)
        route = self._registry.route(header.api_key)
        if route is None:
            raise RemoteProtocolError(f"API key {header.api_key} is not served")
        version = header.api_version
        if not route.serves(version):
            if header.api_key == ApiKey.API_VERSIONS:
                self._refuse_api_versions(header, slot)
                return
            raise UnsupportedVersionError(
                f"{route.key.name} version {version} is not served; "
                f"versions {route.min_version} to {route.max_version} are"
            )
        # Bytes after a request are ignored, as Kafka does: librdkafka's Metadata for all topics has three
        # too many.
        request, _ = route.decoder(version)(frame, position)
        call = ApiCall(header, request, slot, self._broker, route.time_ms)
        if route.requests is not None:
            route.requests.value += 1
        throttling = self._broker.throttling
        if throttling is not None:
            throttling.begin(call, len(frame))
        if route.guard is not None and not route.guard(call):
            return
        call.is_exempt = header.api_key in EXEMPT
        if route.begin is None:
            self._broker.nursery.start_soon(_answer, call, route, name=f"{route.key.name.lower()} request")
            if throttling is not None:
                throttling.begun(call)
            return
        try:
            route.begin(call)
        except EXPECTED_FAILURES as failure:
            _give_up(call, route, failure)
        if throttling is not None:
            throttling.begun(call)

    def _refuse_api_versions(self, header: RequestHeader, slot: "ResponseSlot") -> None:
        """Answer an ApiVersions of an unknown version in version 0, which every client reads (KIP-511)."""
        from cluster.handlers.api_versions import unsupported_version_response

        call = ApiCall(
            RequestHeader(header.api_key, 0, header.correlation_id, header.client_id),
            None,
            slot,
            self._broker,
        )
        call.respond(unsupported_version_response(self._registry))


async def _answer(call: "ApiCall[BrokerContext]", route: "Route") -> None:
    """Run an asynchronous handler and send its response; a cancelled one sends nothing."""
    handle: Handle | None = route.handle
    if handle is None:
        raise TypeError(f"{route.key.name} has neither a begin nor a handle")
    try:
        response = await handle(call)
    except EXPECTED_FAILURES as failure:
        _give_up(call, route, failure)
    else:
        call.respond(response)


def _give_up(call: "ApiCall[BrokerContext]", route: "Route", failure: BaseException) -> None:
    """Drop the connection of a request whose failure its handler did not turn into an answer."""
    logger.warning("%s from %s failed: %s", route.key.name, call.slot.connection.peer, failure_of(failure))
    call.close()
