"""The application: addresses, logins, and the handling of errors."""

import hmac
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import Any, Final
from urllib.parse import quote, urlsplit

import trio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from ottla.client.errors import ClientError
from ottla.commands.terminal.failure import CommandError
from ottla.web.answers import sentence
from ottla.web.connection import NotConnected
from ottla.web.forms import Form, FormError, form_of, query_of
from ottla.web.guard import Guard
from ottla.web.pages import (
    access,
    brokers,
    groups,
    jobs,
    messages,
    moves,
    offset_reset,
    produce,
    settings,
    timeline,
    topic_changes,
    topics,
    transactions,
)
from ottla.web.rendering import FOLDER, Pages
from ottla.web.sessions import LASTS_S
from ottla.web.visit import Missing, Visit, Web

Handler = Callable[[Visit], Awaitable[Response]]

PAGE_TIMEOUT_S: Final = 30.0
NOT_CONNECTED: Final = 503


@dataclass(frozen=True, slots=True)
class Place:
    """An address with its handlers.

    Attributes:
        path: The address.
        show: Answers GET; None if there is nothing to show.
        change: Answers POST of a person who is allowed to make changes; None if nothing can be changed.
    """

    path: str
    show: Handler | None = None
    change: Handler | None = None


PLACES: Final[Sequence[Place]] = (
    Place("/", brokers.show),
    Place("/status", brokers.status),
    Place("/brokers/{broker}", brokers.show_one),
    Place("/brokers/{broker}/settings/{setting}", settings.show, settings.change),
    Place("/topics", topics.show),
    Place("/new-topic", topic_changes.new, topic_changes.create),
    Place("/topics/{topic}", topics.show_one),
    Place("/topics/{topic}/messages", messages.show),
    Place("/topics/{topic}/messages/{partition}/{offset}", messages.show_one),
    Place("/topics/{topic}/tail", messages.tail),
    Place("/topics/{topic}/produce", produce.show, produce.send),
    Place("/topics/{topic}/change", topic_changes.show),
    Place("/topics/{topic}/partitions", None, topic_changes.add_partitions),
    Place("/topics/{topic}/purge", None, topic_changes.purge),
    Place("/topics/{topic}/delete", None, topic_changes.delete),
    Place("/topics/{topic}/settings/{setting}", settings.show, settings.change),
    Place("/groups", groups.show),
    Place("/groups/{group}", groups.show_one),
    Place("/groups/{group}/reset", offset_reset.show, offset_reset.change),
    Place("/moves", moves.show),
    Place("/moves/plan", None, moves.preview),
    Place("/moves/begin", None, moves.begin),
    Place("/moves/cancel", None, moves.cancel),
    Place("/moves/elect", None, moves.elect),
    Place("/transactions", transactions.show),
    Place("/transactions/hanging", transactions.hanging),
    Place("/transactions/abort", None, transactions.abort),
    Place("/transactions/id/{id}", transactions.show_one),
    Place("/timeline", timeline.show),
    Place("/access", access.show),
    Place("/access/add", None, access.add_rule),
    Place("/access/remove", None, access.remove_rule),
    Place("/access/users", None, access.set_user),
    Place("/access/users/remove", None, access.remove_user),
    Place("/jobs", jobs.show),
)


def make_pages() -> Pages:
    """Return the templates."""
    return Pages({"version": version("ottla")})


def make_application(web: Web) -> ASGIApp:
    """Put the application together."""
    routes: list[Any] = [
        Mount("/static", _Static(directory=FOLDER / "static")),
        Route("/login", partial(_log_in, web), methods=["GET", "POST"]),
        Route("/logout", partial(_log_out, web), methods=["POST"]),
    ]
    for place in PLACES:
        methods = (["GET"] if place.show else []) + (["POST"] if place.change else [])
        routes.append(Route(place.path, partial(_serve, web, place), methods=methods))
    application = Starlette(routes=routes, exception_handlers={HTTPException: partial(_refused, web)})
    return Guard(application, web.settings.names)


class _Static(StaticFiles):
    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers["Cache-Control"] = "max-age=3600"
        return response


def cookie_name(web: Web) -> str:
    """Return the name of the session's cookie: browsers share cookies among the ports of a host."""
    return f"ottla-session-{web.settings.port}"


async def _serve(web: Web, place: Place, request: Request) -> Response:
    session = None
    if web.sessions is not None:
        session = web.sessions.find(request.cookies.get(cookie_name(web)))
        if session is None:
            return _to_login(request)
    visit = Visit(web, request, session, query_of(request))
    with trio.move_on_after(PAGE_TIMEOUT_S):
        try:
            if request.method == "POST":
                assert place.change is not None
                return await _change(visit, place.change)
            assert place.show is not None
            return await place.show(visit)
        except FormError as error:
            return _problem(visit, str(error), 400)
        except Missing as error:
            return _problem(visit, str(error), 404)
        except (ClientError, CommandError) as error:
            return _problem(visit, sentence(error), NOT_CONNECTED if isinstance(error, NotConnected) else 502)
    return _problem(visit, f"The page was not ready within {PAGE_TIMEOUT_S:g} s.", 504)


async def _change(visit: Visit, change: Handler) -> Response:
    if not visit.web.settings.allow_changes or visit.session is None:
        return _problem(visit, "This page is read-only: start it with --allow-changes.", 403)
    form = await form_of(visit.request)
    if not hmac.compare_digest(form.get("csrf", "").encode(), visit.session.csrf.encode()):
        return _problem(
            visit, "This form is out of date: go back, load the page anew, and send it again.", 403
        )
    return await change(Visit(visit.web, visit.request, visit.session, visit.query, form))


def _problem(visit: Visit, text: str, status: int) -> Response:
    # A cluster that was away may come back: the page is loaded again, unless that would repeat a POST.
    retries = status == NOT_CONNECTED and visit.request.method == "GET"
    return visit.page("problem.html", "", status=status, text=text, retries=retries)


def _to_login(request: Request) -> Response:
    here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    address = "/login" if request.method != "GET" or here == "/" else f"/login?next={quote(here, safe='')}"
    if request.headers.get("hx-request") == "true":
        return PlainTextResponse("", 401, {"HX-Redirect": "/login"})
    return RedirectResponse(address, 303)


async def _log_in(web: Web, request: Request) -> Response:
    if web.sessions is None:
        return RedirectResponse("/", 303)
    visit = Visit(web, request, None, query_of(request))
    problem, status = "", 200
    if request.method == "POST":
        try:
            form = await form_of(request)
        except FormError:
            form = Form([])
        address = request.client.host if request.client else ""
        if not web.sessions.may_try(address):
            problem, status = "Too many wrong passwords: try again in a minute.", 429
        else:
            name = web.sessions.log_in(address, form.text("password"))
            if name is not None:
                response = RedirectResponse(safe_address(visit.query.text("next")), 303)
                response.set_cookie(
                    cookie_name(web),
                    name,
                    max_age=int(LASTS_S),
                    httponly=True,
                    samesite="strict",
                    secure=web.settings.is_secure,
                )
                return response
            problem, status = "This is not the password.", 403
    return visit.page("login.html", "", status=status, problem=problem)


async def _log_out(web: Web, request: Request) -> Response:
    if web.sessions is not None:
        name = request.cookies.get(cookie_name(web))
        session = web.sessions.find(name)
        form = await form_of(request)
        if session is not None and hmac.compare_digest(form.get("csrf", "").encode(), session.csrf.encode()):
            web.sessions.log_out(name)
    response = RedirectResponse("/login", 303)
    response.delete_cookie(cookie_name(web))
    return response


def safe_address(text: str) -> str:
    """Return an address if it is on this site, else that of the first page."""
    parts = urlsplit(text)
    local = not parts.scheme and not parts.netloc and text.startswith("/") and not text.startswith("//")
    return text if local and "\\" not in text else "/"


async def _refused(web: Web, request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if web.sessions is not None and web.sessions.find(request.cookies.get(cookie_name(web))) is None:
        return _to_login(request)
    text = "There is no such page." if error.status_code == 404 else f"{error.detail}."
    return _problem(Visit(web, request, None, query_of(request)), text, error.status_code)
