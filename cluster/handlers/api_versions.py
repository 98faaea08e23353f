"""ApiVersions 0 to 4: what this broker serves, computed from the registry.

A version that is not served is answered in version 0 with UNSUPPORTED_VERSION and the versions of ApiVersions
itself (KIP-511). Our own APIs are listed to our own brokers only. Features are empty, as they are on Kafka while
it coordinates through ZooKeeper.
"""

import re
from typing import TYPE_CHECKING, Final, Protocol

from cluster.handlers.context import HasServedApis, HasSessionWatch
from cluster.peers.peer_requests import SOFTWARE_NAME
from wire.apis import FIRST_OWN_KEY, ApiKey
from wire.errors import Error
from wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.context import ServedApi, ServedApis
    from cluster.handlers.registry import Registry

_SOFTWARE_NAME: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


class _Broker(HasServedApis, HasSessionWatch, Protocol):
    """The parts of a broker that this API reaches."""


def register(registry: "Registry") -> None:
    """Serve ApiVersions."""
    registry.add(ApiKey.API_VERSIONS, 0, 4, begin)


def begin(call: "ApiCall[_Broker]") -> None:
    """Answer with every served API; note the client's software if it is named."""
    request: ApiVersionsRequest = call.request
    is_our_own = call.version >= 3 and request.client_software_name == SOFTWARE_NAME
    with_own = is_our_own and call.broker.session_watch is not None
    response = answer(call.broker.served, request, call.version, with_own=with_own)
    if response.error_code == Error.NONE:
        connection = call.slot.connection
        connection.client_software_name = request.client_software_name
        connection.client_software_version = request.client_software_version
    call.respond(response)


def answer(
    served: "ServedApis", request: ApiVersionsRequest | None, version: int, *, with_own: bool = False
) -> ApiVersionsResponse:
    """Return the answer to a request, before and after authentication alike.

    Args:
        served: What is served.
        request: The request; None if its version is not served.
        version: Its version.
        with_own: Whether to include the APIs that only Ottla's brokers know.
    """
    if request is None:
        return unsupported_version_response(served)
    if version >= 3 and not (
        _SOFTWARE_NAME.fullmatch(request.client_software_name)
        and _SOFTWARE_NAME.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=Error.INVALID_REQUEST)
    return ApiVersionsResponse(
        api_keys=[_versions(route) for route in served if route.key < FIRST_OWN_KEY or with_own],
        finalized_features_epoch=0 if version >= 3 else -1,
    )


def unsupported_version_response(served: "ServedApis") -> ApiVersionsResponse:
    """Return the answer to a version that is not served; it is sent in version 0."""
    own = [_versions(route) for route in served if route.key == ApiKey.API_VERSIONS]
    return ApiVersionsResponse(error_code=Error.UNSUPPORTED_VERSION, api_keys=own)


def _versions(route: "ServedApi") -> ApiVersion:
    return ApiVersion(api_key=route.key, min_version=route.min_version, max_version=route.max_version)
