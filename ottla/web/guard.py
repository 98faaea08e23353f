"""The checks before every page: which host a request names, where a form comes from, what browsers may do with pages.

A page on a loopback address can still be reached by other sites through a browser on this machine: by a name that leads
to 127.0.0.1 (DNS rebinding), by forms on other sites, or by frames. So a request must name this host, a form must come
from one of our pages, and the headers of answers forbid everything that our pages do not need.
"""

import ipaddress
from collections.abc import Collection
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
_SAFE: Final = frozenset({"GET", "HEAD"})


class Guard:
    """Refuses requests that name another host or come from another site, and adds headers to every answer.

    Args:
        application: The application that it guards.
        names: The host names that requests may name, besides ``localhost`` and addresses.
    """

    def __init__(self, application: ASGIApp, names: Collection[str]) -> None:
        self._application = application
        self._names = frozenset(name.lower() for name in names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        problem = self._problem(scope["method"], Headers(scope=scope))
        if problem is not None:
            await PlainTextResponse(problem, 403)(scope, receive, send_guarded)
            return
        await self._application(scope, receive, send_guarded)

    def _problem(self, method: str, headers: Headers) -> str | None:
        host = headers.get("host", "")
        if not is_allowed_host(host, self._names):
            return (
                f"This page is not served under the name {host!r}: "
                "start it with --allow-host NAME, or use its address.\n"
            )
        if method in _SAFE:
            return None
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
            return "This form comes from another site.\n"
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return "This form comes from another site.\n"
        return None


def is_allowed_host(host: str, names: Collection[str]) -> bool:
    """Whether a request may name a host: an address, which no foreign name can lead to, or a known name."""
    try:
        name = urlsplit(f"//{host}").hostname
    except ValueError:
        return False
    if name is None:
        return False
    if name == "localhost" or name in names:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
