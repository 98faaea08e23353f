"""One request, with all that a page needs to answer it."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ottla.client.admin import TopicDescription
from ottla.web.connection import ClusterConnection
from ottla.web.forms import Form
from ottla.web.moves import Moves
from ottla.web.rendering import Pages
from ottla.web.samples import Samples
from ottla.web.sessions import Session, Sessions
from ottla.web.settings import WebSettings
from ottla.web.watch import ClusterWatch
from timing.clock import Clock

if TYPE_CHECKING:
    from ottla.client.admin import Admin

NAVIGATION: Final = (
    ("cluster", "/", "Cluster"),
    ("topics", "/topics", "Topics"),
    ("groups", "/groups", "Groups"),
    ("moves", "/moves", "Moves"),
    ("transactions", "/transactions", "Transactions"),
    ("timeline", "/timeline", "Time line"),
    ("access", "/access", "Access"),
    ("jobs", "/jobs", "Jobs"),
)


class Missing(Exception):
    """What the address names does not exist; the text says what it is."""


@dataclass(frozen=True, slots=True)
class Web:
    """The parts of the page, which all visits share."""

    settings: WebSettings
    connection: ClusterConnection
    watch: ClusterWatch
    samples: Samples
    pages: Pages
    clock: Clock
    sessions: Sessions | None
    moves: Moves


@dataclass(frozen=True, slots=True)
class Visit:
    """A request.

    Attributes:
        web: The parts of the page.
        request: The request itself.
        session: The login; None if no login is needed.
        query: The fields of the query string.
        form: The fields of the form.
    """

    web: Web
    request: Request
    session: Session | None
    query: Form
    form: Form = field(default_factory=lambda: Form([]))

    @property
    def admin(self) -> "Admin":
        """The cluster's administration.

        Raises:
            NotConnected: No broker answers now.
        """
        return self.web.connection.admin

    async def topic(self, name: str) -> TopicDescription:
        """Return a topic; one that is not known yet is looked up.

        Raises:
            Missing: There is no such topic.
            NotConnected: The cluster has never been seen.
        """
        found = (await self.web.watch.current()).topics.get(name)
        if found is None:
            found = (await self.web.watch.look_again()).topics.get(name)
        if found is None:
            raise Missing(f"There is no topic {name}.")
        return found

    def path(self, name: str) -> str:
        """Return a part of the address."""
        return str(self.request.path_params[name])

    @staticmethod
    def to_topic(name: str) -> str:
        """Return the address of a topic."""
        return f"/topics/{quote(name, safe='')}"

    @staticmethod
    def to_group(name: str) -> str:
        """Return the address of a group."""
        return f"/groups/{quote(name, safe='')}"

    def page(self, template: str, active: str, *, status: int = 200, **values: Any) -> Response:
        """Render a page, or the part of it that htmx asks for again.

        Args:
            template: Its file.
            active: The name of its place in the navigation.
            status: The answer's status.
            values: What the template shows.
        """
        is_live = self.request.headers.get("hx-request") == "true"
        return self.web.pages.page(
            template,
            status=status,
            live_only=is_live,
            active=active,
            navigation=NAVIGATION,
            path=self.request.url.path,
            here=self.request.url.path + (f"?{self.request.url.query}" if self.request.url.query else ""),
            query=self.query,
            can_change=self.web.settings.allow_changes,
            csrf="" if self.session is None else self.session.csrf,
            logged_in=self.session is not None,
            notes=[] if self.session is None or is_live else self.session.take_notes(),
            watch=self.web.watch,
            seen=self.web.watch.seen,
            bootstrap_servers=self.web.settings.bootstrap_servers,
            **values,
        )

    def go(self, address: str, note: str = "", tone: str = "good") -> Response:
        """Send the browser to another page, which says what was done."""
        if note and self.session is not None:
            self.session.notes.append((tone, note))
        return RedirectResponse(address, 303)
