"""Moving partitions and electing preferred leaders: plan, preview, throttle and follow."""

import json
from typing import Final

from starlette.responses import Response

from ottla.client.admin import Election
from ottla.commands.reassignment.execution import begin_moves, checked_replicas
from ottla.commands.reassignment.plan_file import as_object
from ottla.commands.reassignment.progress import MoveMeter, Progress
from ottla.commands.reassignment.proposal import Proposal, propose
from ottla.commands.reassignment.throttle import throttle_of
from ottla.placement import PlacementError, Plan
from ottla.web.answers import Answer, attempt
from ottla.web.forms import FormError
from ottla.web.models.moves import ROWS_MAX, misled, move_rows, parse_rate, parse_targets, shares
from ottla.web.paging import page_of
from ottla.web.visit import Visit
from wire.errors import Error
from wire.types import TopicPartition

WAYS: Final = {
    "even": "Even out all brokers",
    "fill": "Fill brokers",
    "empty": "Empty brokers",
    "json": "As this JSON says",
}
_RATE_MB: Final = "50"


async def show(visit: Visit) -> Response:
    """Show the moves in progress, the plans on offer, and the partitions without their preferred leader."""
    seen = await visit.web.watch.current()
    rows = misled(seen.topics.values(), seen.cluster)
    progress = await attempt(lambda: _look(visit))
    ongoing = await attempt(visit.admin.list_reassignments)
    return visit.page(
        "moves.html",
        "moves",
        progress=progress.value,
        problem=ongoing.problem or progress.problem,
        ongoing=page_of(sorted(ongoing.or_else({}).items()), visit.query.text("page")),
        misled=rows[:ROWS_MAX],
        misled_count=len(rows),
        movable=sum(row.obstacle is None for row in rows),
        ways=WAYS,
        brokers=seen.brokers,
        rate=_RATE_MB,
    )


async def _look(visit: Visit) -> Progress | None:
    """Measure what is being moved, from one page to the next."""
    visit.web.moves.reap()
    ongoing = frozenset(await visit.admin.list_reassignments())
    meter = visit.web.moves.meter
    if meter is None or ongoing - meter.partitions:
        if not ongoing:
            return None
        meter = visit.web.moves.meter = MoveMeter(ongoing | (meter.partitions if meter else frozenset()))
    progress = await meter.look(visit.admin, visit.web.clock.monotonic())
    if not progress.moving:
        visit.web.moves.meter = None
    return progress


async def preview(visit: Visit) -> Response:
    """Show a plan: what moves, and what each broker holds and leads afterwards."""
    proposal = await _proposal(visit)
    plan = proposal.plan
    rows = move_rows(plan, proposal.sizes)
    return visit.page(
        "plan.html",
        "moves",
        rows=rows[:ROWS_MAX],
        left_out=max(0, len(rows) - ROWS_MAX),
        count=len(rows),
        shares=shares(plan),
        copies=plan.copies,
        size=plan.copied_bytes(proposal.sizes),
        targets=json.dumps(as_object(plan.after), separators=(",", ":")),
        rollback=json.dumps(as_object({at: plan.before[at] for at in plan.after}), separators=(",", ":")),
        rate=_RATE_MB,
    )


async def _proposal(visit: Visit) -> Proposal:
    form = visit.form
    way = form.chosen("way", WAYS, "even")
    admin = visit.admin
    if way == "json":
        targets = parse_targets(form.get("json", ""))
        before = await checked_replicas(admin, targets, await admin.list_reassignments(), additional=False)
        return Proposal(
            Plan(before, {at: each for at, each in targets.items() if before[at] != each}),
            {at: max(visit.web.samples.sizes.get(at, {}).values(), default=0) for at in targets},
        )
    brokers = None
    if way != "even":
        brokers = [int(each) for each in form.all("broker") if each.isdigit()]
        if not brokers:
            raise FormError("Choose the brokers.")
    try:
        return await propose(
            admin,
            brokers if way == "fill" else None,
            brokers if way == "empty" else None,
            rack_aware=form.text("ignore_racks") != "1",
        )
    except PlacementError as error:
        raise FormError(f"{error}.") from None


async def begin(visit: Visit) -> Response:
    """Begin the moves of a plan, throttled."""
    targets = parse_targets(visit.form.get("targets", ""))
    rate = parse_rate(visit.form.text("rate"))
    admin = visit.admin
    before = await checked_replicas(admin, targets, await admin.list_reassignments(), additional=False)
    throttle = throttle_of(before, targets, rate) if rate >= 0 else None
    options = {
        "bootstrap_server": visit.web.settings.bootstrap_servers,
        "command_config": visit.web.settings.command_config,
        "throttle": None if throttle is None else rate,
    }
    errors, keeper = await begin_moves(admin, before, targets, throttle, options)
    if keeper is not None:
        visit.web.moves.keepers.append(keeper)
    begun = frozenset(at for at in targets if errors.get(at) is None)
    visit.web.moves.meter = MoveMeter(begun) if begun else None
    failed = {at: error for at, error in errors.items() if error is not None}
    if failed:
        at, error = next(iter(sorted(failed.items())))
        return visit.go("/moves", f"{len(failed)} of {len(targets)} moves were refused. {at}: {error}", "bad")
    return visit.go("/moves", f"{len(begun)} partitions begin to move.")


async def cancel(visit: Visit) -> Response:
    """Cancel moves: partitions go back to their old replicas."""
    ongoing = await visit.admin.list_reassignments()
    chosen = visit.form.all("at")
    wanted = [at for at in ongoing if not chosen or str(at) in chosen]
    errors = await visit.admin.alter_reassignments(dict.fromkeys(wanted)) if wanted else {}
    failed = [f"{at}: {error}" for at, error in sorted(errors.items()) if error is not None]
    if failed:
        return visit.go("/moves", f"{len(failed)} moves go on. {failed[0]}", "bad")
    return visit.go("/moves", f"Cancelled {len(wanted)} moves.")


async def elect(visit: Visit) -> Response:
    """Elect the first replica of each partition as its leader."""
    seen = await visit.web.watch.look_again()
    rows = misled(seen.topics.values(), seen.cluster)
    wanted: list[TopicPartition] = [row.at for row in rows if row.obstacle is None]
    if not wanted:
        return visit.go("/moves#leaders", "No election is needed, or none can be held.", "plain")
    errors = await visit.admin.elect_leaders(Election.PREFERRED, wanted)
    failed: Answer[str] = Answer(None)
    for at, error in sorted(errors.items()):
        if error is not None and error.error is not Error.ELECTION_NOT_NEEDED:
            failed = Answer(f"{at}: {error}")
    await visit.web.watch.look_again()
    if failed.value is not None:
        return visit.go("/moves#leaders", f"Not every leader was elected. {failed.value}", "bad")
    return visit.go("/moves#leaders", f"{len(wanted)} partitions are led by their first replicas again.")
