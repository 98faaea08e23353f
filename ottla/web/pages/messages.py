"""A topic's messages: by offset, time, partition, key and content; live; and a single one."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from starlette.responses import Response

from ottla.client.errors import ClientError
from ottla.web.answers import Answer, sentence
from ottla.web.browsing import Registered, TopicBrowser
from ottla.web.event_stream import EventStream
from ottla.web.forms import FormError
from ottla.web.models.messages import (
    BACK,
    FORWARD,
    Browse,
    Filter,
    Message,
    parse_filter,
    parse_places,
    places_text,
)
from ottla.web.models.values import FORMATS
from ottla.web.visit import Missing, Visit

COUNTS: Final = ("25", "50", "100", "200")
FROMS: Final = ("newest", "oldest", "offset", "time")


@dataclass(frozen=True, slots=True)
class FoundPage:
    """A page of messages.

    Attributes:
        messages: What it shows.
        scanned: How many messages were looked at.
        is_whole: Whether it was finished before the time was over.
        older: Where older messages are; None where there are none.
        newer: Where newer ones are; None likewise.
        starts: Where each partition begins.
        ends: Where each ends.
    """

    messages: list[Message]
    scanned: int
    is_whole: bool
    older: str | None
    newer: str | None
    starts: dict[int, int]
    ends: dict[int, int]


async def show(visit: Visit) -> Response:
    """Show a page of a topic's messages."""
    name = visit.path("topic")
    partitions = await _partitions(visit, name)
    chosen = _chosen(visit, partitions)
    wanted = _filter(visit)
    try:
        found = Answer(await _browse(visit, name, chosen, wanted))
    except ClientError as error:
        found = Answer(None, sentence(error))
    return visit.page(
        "messages.html",
        "topics",
        topic=name,
        partitions=partitions,
        found=found.value,
        problem=found.problem,
        formats=FORMATS,
        counts=COUNTS,
        froms=FROMS,
        wanted=wanted,
        registry=visit.web.settings.registry is not None,
    )


async def show_one(visit: Visit) -> Response:
    """Show one message, whole."""
    name = visit.path("topic")
    partition, offset = visit.path("partition"), visit.path("offset")
    if (
        not partition.isdigit()
        or not offset.isdigit()
        or int(partition) not in await _partitions(visit, name)
    ):
        raise Missing(f"There is no partition {partition} of {name}.")
    message = await _browser(visit, name).one(int(partition), int(offset))
    if message is None:
        raise Missing(
            f"There is no message at offset {offset} of {name}-{partition}: compacted, deleted, or not yet written."
        )
    return visit.page(
        "message.html",
        "topics",
        topic=name,
        message=message,
        formats=FORMATS,
        shown_as=visit.query.chosen("as", FORMATS, "auto"),
    )


async def tail(visit: Visit) -> Response:
    """Send the messages that are written from now on, as events."""
    name = visit.path("topic")
    chosen = _chosen(visit, await _partitions(visit, name))
    wanted = _filter(visit)
    browser = _browser(visit, name)
    pages = visit.web.pages

    async def produce(send: Callable[[str, str], Awaitable[None]]) -> None:
        async def on_messages(messages: list[Message], left_out: int) -> None:
            rows = pages.fragment("message_rows.html", topic=name, messages=messages, left_out=left_out)
            await send("messages", rows)

        await send("open", "")
        try:
            await browser.follow(chosen, wanted, on_messages)
        except ClientError as error:
            await send("problem", sentence(error))

    return EventStream(produce)


async def _browse(visit: Visit, name: str, chosen: list[int], wanted: Filter) -> FoundPage:
    browser = _browser(visit, name)
    starts, ends = await browser.bounds(chosen)
    count = int(visit.query.chosen("count", COUNTS, "50"))
    at = visit.query.text("at")
    if at:
        direction = visit.query.chosen("to", (BACK, FORWARD), BACK)
        try:
            places = {number: offset for number, offset in parse_places(at).items() if number in ends}
        except ValueError as error:
            raise FormError(f"{error}.") from None
        begin = ends if direction == BACK else starts
        places = {number: places.get(number, begin[number]) for number in chosen}
    else:
        direction, places = await _beginning(visit, browser, chosen, starts, ends)
    places = {number: min(max(offset, starts[number]), ends[number]) for number, offset in places.items()}
    browse = Browse(direction, places, starts if direction == BACK else ends, wanted, count)
    is_whole = await browser.fill(browse)
    ahead = None if browse.is_at_end else places_text(browse.places)
    limit = ends if direction == BACK else starts
    behind = None if places == limit else places_text(places)
    return FoundPage(
        browse.shown,
        browse.scanned,
        is_whole,
        ahead if direction == BACK else behind,
        behind if direction == BACK else ahead,
        starts,
        ends,
    )


async def _beginning(
    visit: Visit, browser: TopicBrowser, chosen: list[int], starts: dict[int, int], ends: dict[int, int]
) -> tuple[str, dict[int, int]]:
    match visit.query.chosen("from", FROMS, "newest"):
        case "oldest":
            return FORWARD, starts
        case "offset":
            offset = visit.query.number("offset", "The offset")
            return FORWARD, dict.fromkeys(chosen, offset)
        case "time":
            moment = parse_moment(visit.query.required("time", "The time"))
            return FORWARD, await browser.at_time(chosen, moment, ends)
    return BACK, ends


def parse_moment(text: str) -> datetime:
    """Read a time as people and browsers write it, in UTC if it names no zone; or milliseconds since 1970.

    Raises:
        FormError: It is neither.
    """
    try:
        if text.isascii() and text.isdigit():
            return datetime.fromtimestamp(int(text) / 1000, UTC)
        found = datetime.fromisoformat(text)
    except (ValueError, OverflowError, OSError):
        raise FormError(
            f"{text!r} is no time: write 2026-01-31 12:00:00, or milliseconds since 1970."
        ) from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _browser(visit: Visit, name: str) -> TopicBrowser:
    registry = visit.web.settings.registry
    return TopicBrowser(
        visit.web.connection.kafka,
        name,
        visit.query.chosen("as", FORMATS, "auto"),
        None if registry is None else Registered(registry),
        committed_only=visit.query.text("committed") == "1",
    )


async def _partitions(visit: Visit, name: str) -> list[int]:
    topic = await visit.topic(name)
    return [each.partition for each in topic.partitions]


def _chosen(visit: Visit, partitions: list[int]) -> list[int]:
    number = visit.query.optional_number("partition", "The partition")
    if number is None:
        return partitions
    if number not in partitions:
        raise FormError(f"There is no partition {number}: there are 0 to {len(partitions) - 1}.")
    return [number]


def _filter(visit: Visit) -> Filter:
    try:
        return parse_filter(visit.query.text("key"), visit.query.text("contains"), visit.query.text("where"))
    except ValueError as error:
        raise FormError(f"The member {error}.") from None
