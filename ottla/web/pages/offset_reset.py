"""Setting the offsets of a group: with the present ones filled in, and a preview of the changes."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from starlette.responses import Response

from ottla.client.admin import CommittedPosition, FoundOffset
from ottla.commands.groups.offset_resets import Reset, parse_duration, plan
from ottla.web.forms import FormError
from ottla.web.models.resets import PARTITIONS_MAX, WAYS, ResetRow, check_bounds, typed_rows
from ottla.web.pages.messages import parse_moment
from ottla.web.visit import Visit
from wire.errors import Error
from wire.types import Offset, TopicPartition

_MEMBERLESS = ("Empty", "Dead")


async def show(visit: Visit) -> Response:
    """Show the group's offsets in fields, filled in with the committed ones or with those of a reset."""
    name = visit.path("group")
    committed = await _committed(visit)
    topic = visit.query.text("topic")
    chosen = sorted(at for at in committed if topic in ("", at.topic))
    if visit.query.text("all") == "1" and topic:
        seen = await visit.topic(topic)
        chosen = [TopicPartition(topic, each.partition) for each in seen.partitions]
    if len(chosen) > PARTITIONS_MAX:
        raise FormError(f"These are {len(chosen)} partitions: choose a topic with at most {PARTITIONS_MAX}.")
    way = visit.query.chosen("way", WAYS, "to_current")
    notes: list[str] = []
    after: Mapping[TopicPartition, Offset] = {at: committed[at] for at in chosen if at in committed}
    if way != "to_current" and chosen:
        reset = _reset(visit, way)

        def now() -> datetime:
            return datetime.fromtimestamp(visit.web.clock.wall_ms() / 1000, UTC)

        planned = await plan(visit.admin, reset, chosen, committed, {}, now, notes.append)
        after = {at: each.after for at, each in planned.items()}
    group = await visit.admin.describe_group(name)
    return visit.page(
        "reset.html",
        "groups",
        name=name,
        state=group.state,
        has_members=group.state not in _MEMBERLESS,
        rows=[ResetRow(at, committed.get(at), after.get(at)) for at in chosen],
        topics=sorted({at.topic for at in committed}),
        topic=topic,
        way=way,
        ways=WAYS,
        value=visit.query.text("value"),
        adjusted=notes,
        previews=False,
    )


async def change(visit: Visit) -> Response:
    """Show what would change, or change it."""
    name = visit.path("group")
    committed = await _committed(visit)
    rows = typed_rows(visit.form, committed)
    if not rows:
        return visit.go(f"{visit.to_group(name)}/reset", "Nothing would change.", "plain")
    places = [row.at for row in rows]
    check_bounds(rows, await _look_up(visit, places, -2), await _look_up(visit, places, -1))
    if visit.form.text("step") != "apply":
        group = await visit.admin.describe_group(name)
        return visit.page(
            "reset.html",
            "groups",
            name=name,
            state=group.state,
            has_members=group.state not in _MEMBERLESS,
            rows=rows,
            previews=True,
        )
    wanted = {row.at: CommittedPosition(row.after) for row in rows if row.after is not None}
    outcome = await visit.admin.commit_offsets(name, wanted)
    failed = {at: error for at, error in outcome.items() if error is not Error.NONE}
    if failed:
        at, error = next(iter(sorted(failed.items())))
        raise FormError(f"{len(failed)} of {len(rows)} offsets were not set. {at}: {error.text}.")
    count = "1 offset" if len(rows) == 1 else f"{len(rows)} offsets"
    return visit.go(visit.to_group(name), f"Set {count} of {name}.")


def _reset(visit: Visit, way: str) -> Reset:
    text = visit.query.text("value")
    match way:
        case "to_datetime":
            return Reset(way, parse_moment(text))
        case "by_duration":
            return Reset(way, _duration(text))
        case "shift_by":
            return Reset(way, visit.query.number("value", "The number of records", at_least=-(2**62)))
        case "to_offset":
            return Reset(way, visit.query.number("value", "The offset"))
    return Reset(way)


def _duration(text: str) -> timedelta:
    try:
        return parse_duration(text)
    except ValueError:
        raise FormError(f"{text!r} is no duration: write PT1H30M, or P1D for a day.") from None


async def _committed(visit: Visit) -> dict[TopicPartition, Offset]:
    found = await visit.admin.committed_offsets(visit.path("group"))
    return {at: each.offset for at, each in found.items()}


async def _look_up(visit: Visit, places: list[TopicPartition], when: int) -> dict[TopicPartition, Offset]:
    found = await visit.admin.list_offsets(dict.fromkeys(places, when))
    return {at: each.offset for at, each in found.items() if isinstance(each, FoundOffset)}
