"""Groups: the list with lag, and one group with the lag of each partition and its history."""

import json
from typing import Final

from starlette.responses import Response

from ottla.client.admin import GroupDescription
from ottla.commands.groups.positions import PositionRow, positions
from ottla.web.answers import attempt
from ottla.web.models.groups import group_rows, lag_rows
from ottla.web.paging import page_of
from ottla.web.visit import Missing, Visit

_PARTITIONS: Final = 100


async def show(visit: Visit) -> Response:
    """List groups."""
    admin = visit.admin
    search = visit.query.text("search")
    listed = await attempt(admin.list_groups)
    if listed.value is None:
        listed = visit.web.samples.listed
    rows = group_rows(listed.or_else([]), visit.web.samples.groups, search)
    return visit.page(
        "groups.html",
        "groups",
        page=page_of(rows, visit.query.text("page")),
        problem=listed.problem,
        search=search,
    )


async def show_one(visit: Visit) -> Response:
    """Show a group."""
    name = visit.path("group")
    admin = visit.admin

    async def ask() -> tuple[GroupDescription, list[PositionRow]]:
        group = await admin.describe_group(name)
        return group, await positions(admin, group, await admin.committed_offsets(name))

    found = await attempt(ask)
    if found.value is not None and found.value[0].state == "Dead" and not found.value[1]:
        raise Missing(f"There is no group {name}.")
    if found.value is not None:
        visit.web.samples.note_lag(name, found.value[1])
    lag = visit.web.samples.groups.get(name)
    rows = lag_rows(found.value[1] if found.value is not None else lag.rows if lag else [], lag)
    return visit.page(
        "group.html",
        "groups",
        name=name,
        group=None if found.value is None else found.value[0],
        problem=found.problem,
        lag=lag,
        chart=json.dumps(
            [[], []] if lag is None else list(zip(*lag.history.points, strict=True)) or [[], []]
        ),
        page=page_of(rows, visit.query.text("page"), _PARTITIONS),
    )
