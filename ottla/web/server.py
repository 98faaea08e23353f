"""Running the page: its client, its tasks, and the server of its addresses."""

from collections.abc import Awaitable, Callable
from functools import partial

import trio
from hypercorn.config import Config
from hypercorn.trio import serve

from ottla.addresses import Address
from ottla.client.settings import ConnectionSettings
from ottla.web.application import make_application, make_pages
from ottla.web.connection import ClusterConnection
from ottla.web.moves import Moves
from ottla.web.samples import Samples
from ottla.web.sessions import Sessions
from ottla.web.settings import WebSettings
from ottla.web.visit import Web
from ottla.web.watch import ClusterWatch
from timing.clock import Clock


def make_web(settings: WebSettings, client: ConnectionSettings, clock: Clock) -> Web:
    """Put the parts of the page together; nothing runs yet."""
    connection = ClusterConnection(settings.bootstrap_servers, client)
    watch = ClusterWatch(connection, clock)
    sessions = None if settings.password is None else Sessions(settings.password, clock)
    return Web(
        settings, connection, watch, Samples(connection, watch, clock), make_pages(), clock, sessions, Moves()
    )


async def run(web: Web, on_serving: Callable[[str], None], until: Callable[[], Awaitable[None]]) -> None:
    """Serve the page.

    Args:
        web: Its parts.
        on_serving: Gets its address once it is served.
        until: Returns when the page is to end.

    Raises:
        OSError: The address cannot be listened on.
    """
    config = Config()
    config.bind = [str(Address(web.settings.host, web.settings.port))]
    config.include_server_header = False
    config.accesslog = None
    config.loglevel = "WARNING"
    config.h11_max_incomplete_size = 64 * 1024
    if web.settings.certificate is not None:
        config.certfile = str(web.settings.certificate)
        config.keyfile = None if web.settings.key is None else str(web.settings.key)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(web.connection.run)
        nursery.start_soon(web.watch.run)
        nursery.start_soon(web.samples.run)
        application = make_application(web)
        # Hypercorn's type of an ASGI application has other names for the same things.
        binds = await nursery.start(partial(serve, application, config))  # type: ignore[arg-type]
        on_serving(binds[0])
        await until()
        nursery.cancel_scope.cancel()
