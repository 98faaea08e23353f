"""Templates: their filters, and whole pages or the moving part of one."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import HTMLResponse

from ottla.commands.inspection.log_dirs import size_text
from ottla.commands.reassignment.progress import duration_text

FOLDER: Final = Path(__file__).parent
_NONE: Final = "–"
_LIVE: Final = "live"
"""The block of a template that is fetched repeatedly."""


class Pages:
    """Renders templates.

    Args:
        always: The values that every template gets.
    """

    def __init__(self, always: Mapping[str, Any]) -> None:
        self._environment = Environment(
            loader=FileSystemLoader(FOLDER / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._environment.filters |= {
            "count": count_text,
            "size": lambda size: _NONE if size is None else size_text(int(size)),
            "rate": rate_text,
            "moment": moment_text,
            "clock": clock_text,
            "lasting": duration_text,
            "ids": lambda ids: ", ".join(map(str, ids)) or _NONE,
            "segment": lambda text: quote(str(text), safe=""),
            "query": query_text,
            "plural": plural_text,
        }
        self._environment.globals |= always

    def page(
        self, template: str, *, status: int = 200, live_only: bool = False, **values: Any
    ) -> HTMLResponse:
        """Render a page, or only its changing part."""
        found = self._environment.get_template(template)
        if live_only and _LIVE in found.blocks:
            text = "".join(found.blocks[_LIVE](found.new_context(values)))
        else:
            text = found.render(values)
        return HTMLResponse(text, status)

    def fragment(self, template: str, **values: Any) -> str:
        """Render a template that is not a page."""
        return self._environment.get_template(template).render(values)


def count_text(number: float | None) -> str:
    """Write a number with thousands separated; a dash if there is none."""
    return _NONE if number is None else f"{number:,.0f}".replace(",", "\u202f")


def rate_text(rate: float | None) -> str:
    """Write a rate per second."""
    if rate is None:
        return _NONE
    return f"{rate:.1f}" if 0 < rate < 10 else count_text(rate)


def moment_text(wall_ms: int | None) -> str:
    """Write a moment in UTC, to the millisecond."""
    if wall_ms is None or wall_ms < 0:
        return _NONE
    try:
        return datetime.fromtimestamp(wall_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    except (OverflowError, ValueError, OSError):
        return str(wall_ms)


def clock_text(wall_ms: int) -> str:
    """Write the time of day of a moment in UTC."""
    return moment_text(wall_ms)[11:19]


def query_text(values: Mapping[str, object], **changed: object) -> str:
    """Write a query string of some values, overridden by others; empty ones are left out."""
    merged = {**values, **changed}
    return urlencode({name: value for name, value in merged.items() if value not in (None, "")})


def plural_text(count: int, one: str, many: str = "") -> str:
    """Write a count with its noun."""
    return f"{count_text(count)} {one if count == 1 else many or one + 's'}"
