"""The Spark jobs of a pipeline: how far each is by its checkpoint, and how far behind its topics."""

from dataclasses import dataclass

import trio
from starlette.responses import Response

from ottla.client.admin import FoundOffset
from ottla.web.answers import Answer, attempt
from ottla.web.models.checkpoints import Checkpoint, find_checkpoints
from ottla.web.visit import Visit
from wire.types import Offset, TopicPartition


@dataclass(frozen=True, slots=True)
class JobRow:
    """A query with its lag, by topic: records that are in the topic, and not in a planned batch."""

    checkpoint: Checkpoint
    topics: dict[str, int | None]

    @property
    def lag(self) -> int | None:
        """The sum; None where it is not known."""
        known = [each for each in self.topics.values() if each is not None]
        return sum(known) if known else None


async def show(visit: Visit) -> Response:
    """Show the jobs of the checkpoints' directories."""
    roots = list(visit.web.settings.checkpoints)
    found = await trio.to_thread.run_sync(find_checkpoints, roots, abandon_on_cancel=True)
    seen = (await visit.web.watch.current()).topics
    wanted = {
        at
        for each in found
        for at in each.offsets
        if at.topic in seen and at.partition < len(seen[at.topic].partitions)
    }
    ends: Answer[dict[TopicPartition, Offset]] = Answer({})
    if wanted:

        async def ask() -> dict[TopicPartition, Offset]:
            answer = await visit.admin.list_offsets(dict.fromkeys(wanted, -1))
            return {at: each.offset for at, each in answer.items() if isinstance(each, FoundOffset)}

        ends = await attempt(ask)
    known = ends.or_else({})
    return visit.page(
        "jobs.html",
        "jobs",
        is_known=bool(roots),
        jobs=[JobRow(each, lag_of(each.offsets, known)) for each in found],
        problem=ends.problem,
        now=visit.web.clock.wall_ms(),
    )


def lag_of(
    offsets: dict[TopicPartition, Offset], ends: dict[TopicPartition, Offset]
) -> dict[str, int | None]:
    """Return how far topics' ends are ahead of offsets; None where an end is not known."""
    lags: dict[str, int | None] = {}
    for at, offset in sorted(offsets.items()):
        end = ends.get(at)
        sofar = lags.get(at.topic, 0)
        lags[at.topic] = None if end is None or sofar is None else sofar + max(0, end - offset)
    return lags
