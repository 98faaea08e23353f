"""Transactions: all known ones, the age of open ones, and hanging ones."""

from collections.abc import Sequence
from typing import Final

import trio
from starlette.responses import Response

from ottla.client.admin import ListedTransaction, TransactionDescription
from ottla.client.errors import ClientError
from ottla.commands.transactions.hanging import find_hanging_ones
from ottla.web.answers import attempt
from ottla.web.forms import FormError
from ottla.web.paging import page_of
from ottla.web.visit import Visit
from wire.types import TopicPartition

OPEN: Final = ("Ongoing", "PrepareCommit", "PrepareAbort")
HANGING_AFTER_MIN: Final = 15
_DESCRIBED_MAX: Final = 50
_TOGETHER: Final = 8
_LOOKED_AT_MAX: Final = 2_000


async def show(visit: Visit) -> Response:
    """List transactional ids, and for the open ones on the page the start time and the partitions."""
    admin = visit.admin
    only_open = visit.query.text("all") != "1"
    listed = await attempt(lambda: admin.list_transactions(OPEN if only_open else ()))
    search = visit.query.text("search")
    rows = [each for each in listed.or_else([]) if search.lower() in each.transactional_id.lower()]
    chosen = page_of(rows, visit.query.text("page"), _DESCRIBED_MAX)
    return visit.page(
        "transactions.html",
        "transactions",
        problem=listed.problem,
        page=chosen,
        described=await _described(visit, chosen.rows),
        only_open=only_open,
        search=search,
        now=visit.web.clock.wall_ms(),
        topics=list((await visit.web.watch.current()).topics),
        hanging_after=HANGING_AFTER_MIN,
    )


async def _described(visit: Visit, rows: Sequence[ListedTransaction]) -> dict[str, TransactionDescription]:
    found: dict[str, TransactionDescription] = {}
    limit = trio.CapacityLimiter(_TOGETHER)

    async def one(name: str) -> None:
        async with limit:
            answer = await attempt(lambda: visit.admin.describe_transaction(name))
        if answer.value is not None:
            found[name] = answer.value

    async with trio.open_nursery() as nursery:
        for each in rows:
            nursery.start_soon(one, each.transactional_id)
    return found


async def show_one(visit: Visit) -> Response:
    """Show a transactional id."""
    found = await visit.admin.describe_transaction(visit.path("id"))
    return visit.page("transaction.html", "transactions", transaction=found, now=visit.web.clock.wall_ms())


async def hanging(visit: Visit) -> Response:
    """Show the hanging transactions of a topic."""
    topic = visit.query.required("topic", "The topic")
    minutes = visit.query.number("minutes", "The minutes", default=HANGING_AFTER_MIN)
    seen = await visit.topic(topic)
    places = [TopicPartition(topic, each.partition) for each in seen.partitions if each.leader >= 0]
    if len(places) > _LOOKED_AT_MAX:
        raise FormError(
            f"{topic} has {len(places)} partitions; `ottla transactions find-hanging` looks at so many."
        )
    before = visit.web.clock.wall_ms() - minutes * 60_000
    found = await attempt(lambda: find_hanging_ones(visit.admin, places, before))
    return visit.page(
        "hanging.html",
        "transactions",
        topic=topic,
        minutes=minutes,
        problem=found.problem,
        rows=found.or_else([]),
        looked_at=len(places),
        now=visit.web.clock.wall_ms(),
    )


async def abort(visit: Visit) -> Response:
    """End a hanging transaction in one partition."""
    at = TopicPartition(
        visit.form.required("topic", "The topic"), visit.form.number("partition", "The partition")
    )
    start = visit.form.number("start", "The first offset")
    producers = (await visit.admin.describe_producers([at]))[at]
    if isinstance(producers, ClientError):
        raise producers
    open_ = next((each for each in producers if each.transaction_start == start), None)
    if open_ is None:
        raise FormError(f"No transaction is open in {at} from offset {start} on any more.")
    before = visit.web.clock.wall_ms()
    still = await find_hanging_ones(visit.admin, [at], before)
    if all(each.producer_id != open_.producer_id for _, each in still):
        raise FormError(f"The transaction in {at} does not hang: its coordinator knows it, and will end it.")
    await visit.admin.abort_in_partition(at, open_.producer_id, open_.producer_epoch, open_.coordinator_epoch)
    return visit.go("/transactions", f"Aborted the transaction of producer {open_.producer_id} in {at}.")
