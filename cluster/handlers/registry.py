"""Which APIs this broker serves, at which versions, and what begins each of them.

What ApiVersions advertises is computed from here, so a served API and an advertised one are the same thing.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from wire.apis import API_TABLE, ApiKey
from wire.codec import decoder

if TYPE_CHECKING:
    from cluster.handlers.authorization.guards import Guard
    from cluster.handlers.call import ApiCall
    from cluster.handlers.context import BrokerContext
    from cluster.metrics.catalogue import BrokerMetrics
    from cluster.metrics.registry import Counter, Histogram

Begin = Callable[["ApiCall[BrokerContext]"], None]
Handle = Callable[["ApiCall[BrokerContext]"], Awaitable[Any]]
Decode = Callable[[Any, int], tuple[Any, int]]


class Route:
    """One served API: its version range and how a request of it is begun.

    Attributes:
        key: The API.
        min_version: The lowest version served.
        max_version: The highest version served.
        begin: Starts a request synchronously; None if `handle` is given.
        handle: Answers a request in a task of its own; None if `begin` is given.
        guard: Authorizes a request before it is begun; None without an authorizer.
        requests: Counts the requests begun; None if nothing is counted.
        time_ms: Takes the time from a request's begin to its answer, in milliseconds; None likewise.
    """

    __slots__ = (
        "_decoders",
        "begin",
        "guard",
        "handle",
        "key",
        "max_version",
        "min_version",
        "requests",
        "time_ms",
    )

    def __init__(
        self, key: ApiKey, min_version: int, max_version: int, begin: Begin | None, handle: Handle | None
    ) -> None:
        self.key = key
        self.min_version = min_version
        self.max_version = max_version
        self.begin = begin
        self.handle = handle
        self.guard: Guard | None = None
        self.requests: Counter | None = None
        self.time_ms: Histogram | None = None
        self._decoders: list[Decode | None] = [None] * (max_version + 1)

    def serves(self, version: int) -> bool:
        """Whether requests of this version are answered."""
        return self.min_version <= version <= self.max_version

    def decoder(self, version: int) -> Decode:
        """Return the compiled decoder of requests at a served version; compiled at the first request."""
        decode = self._decoders[version]
        if decode is None:
            decode = self._decoders[version] = decoder(API_TABLE[self.key].request, version)
        return decode


class Registry:
    """The routes of a broker, filled once at start by the `register` function of each handler module."""

    __slots__ = ("_routes",)

    def __init__(self) -> None:
        self._routes: dict[int, Route] = {}

    def add(self, key: ApiKey, min_version: int, max_version: int, begin: Begin) -> None:
        """Serve an API by a synchronous function: `begin` answers at once, or keeps the call for later."""
        self._put(Route(key, min_version, max_version, begin, None))

    def add_async(self, key: ApiKey, min_version: int, max_version: int, handle: Handle) -> None:
        """Serve an API by a coroutine that returns the response; it runs in the broker's nursery."""
        self._put(Route(key, min_version, max_version, None, handle))

    def route(self, key: int) -> Route | None:
        """Return the route of an API key, or None if it is not served."""
        return self._routes.get(key)

    def protect(self, guards: "Mapping[ApiKey, Guard]") -> None:
        """Authorize the requests of every API before they are begun.

        Raises:
            ValueError: an API has no guard: its requests would pass unchecked.
        """
        for route in self._routes.values():
            if route.key not in guards:
                raise ValueError(f"{route.key.name} has no guard")
            route.guard = guards[route.key]

    def measure(self, metrics: "BrokerMetrics") -> None:
        """Count and time the requests of every API."""
        for route in self._routes.values():
            name = _metric_name(route.key)
            route.requests = metrics.requests.of(name)
            route.time_ms = metrics.request_time_ms.of(name)

    def __iter__(self) -> Iterator[Route]:
        return iter(sorted(self._routes.values(), key=lambda route: route.key))

    def _put(self, route: Route) -> None:
        api = API_TABLE[route.key]
        if route.key in self._routes:
            raise ValueError(f"{route.key.name} is registered twice")
        if not api.min_version <= route.min_version <= route.max_version <= api.max_version:
            raise ValueError(
                f"{route.key.name} is registered for versions {route.min_version} to {route.max_version}, "
                f"outside {api.min_version} to {api.max_version}"
            )
        self._routes[route.key] = route


def _metric_name(key: ApiKey) -> str:
    """Return an API's name in the form of Kafka's metrics: ListOffsets."""
    return "".join(part.capitalize() for part in key.name.split("_"))
