"""WatchSession 0, Ottla's own: take over the key of another broker's ZooKeeper session, to watch over it.

The ensemble is this broker's own, because the brokers of a cluster share it. An empty password takes the key back.
"""

from typing import TYPE_CHECKING, Protocol

from cluster.handlers.context import HasConfig, HasSessionWatch
from cluster.zookeeper.session_closer import SessionKey
from wire.apis import ApiKey
from wire.messages.watch_session import WatchSessionRequest, WatchSessionResponse

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.registry import Registry


class _Broker(HasConfig, HasSessionWatch, Protocol):
    """The parts of a broker that this API reaches."""


def register(registry: "Registry") -> None:
    """Serve WatchSession."""
    registry.add(ApiKey.WATCH_SESSION, 0, 0, begin)


def begin(call: "ApiCall[_Broker]") -> None:
    """Keep the key, or drop it."""
    request: WatchSessionRequest = call.request
    watch = call.broker.session_watch
    if watch is not None:
        if request.password:
            key = SessionKey(
                call.broker.config.zookeeper_connect,
                request.session_id,
                bytes(request.password),
                request.timeout_ms / 1000,
                call.broker.config.zookeeper_access,
            )
            watch.hold(request.broker_id, request.broker_epoch, key)
        else:
            watch.release(request.broker_id, request.session_id)
    call.respond(WatchSessionResponse())
