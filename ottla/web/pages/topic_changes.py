"""Changing topics: create, add partitions, delete records, delete."""

from starlette.responses import Response

from ottla.client.admin import NewTopic, TopicDescription
from ottla.client.errors import ClientError
from ottla.web.forms import FormError
from ottla.web.models.topics import parse_settings
from ottla.web.visit import Missing, Visit
from wire.errors import Error
from wire.types import Offset, TopicPartition

_PARTITIONS_MAX = 100_000


async def new(visit: Visit) -> Response:
    """Show the form of a new topic."""
    return visit.page("new_topic.html", "topics")


async def create(visit: Visit) -> Response:
    """Create a topic."""
    form = visit.form
    name = form.required("name", "The name")
    settings = parse_settings(form.text("settings"))
    made = NewTopic(
        name,
        form.number(
            "partitions", "The number of partitions", at_least=1, at_most=_PARTITIONS_MAX, default=-1
        ),
        form.number("replicas", "The number of replicas", at_least=1, at_most=32767, default=-1),
        configs=settings,
    )
    outcome = (await visit.admin.create_topics([made]))[name]
    if outcome is Error.TOPIC_ALREADY_EXISTS:
        raise FormError(f"There is a topic {name} already.")
    await visit.web.watch.look_again()
    return visit.go(visit.to_topic(name), f"Created {name}.")


async def show(visit: Visit) -> Response:
    """Show the changes that can be made to a topic."""
    topic = await _topic(visit)
    return visit.page("topic_change.html", "topics", topic=topic)


async def add_partitions(visit: Visit) -> Response:
    """Add partitions to a topic."""
    topic = await _topic(visit)
    count = visit.form.number(
        "count", "The number of partitions", at_least=len(topic.partitions) + 1, at_most=_PARTITIONS_MAX
    )
    await visit.admin.create_partitions({topic.name: count})
    await visit.web.watch.look_again()
    return visit.go(visit.to_topic(topic.name), f"{topic.name} has {count} partitions now.")


async def purge(visit: Visit) -> Response:
    """Delete the first records of a topic's partitions, up to an offset, or all of them."""
    topic = await _topic(visit)
    _require_name(visit, topic.name)
    numbers = [each.partition for each in topic.partitions]
    number = visit.form.optional_number("partition", "The partition")
    if number is not None and number not in numbers:
        raise FormError(f"There is no partition {number}: there are 0 to {len(numbers) - 1}.")
    before = visit.form.optional_number("before", "The offset")
    if before is not None and number is None:
        raise FormError("An offset goes with a partition: each has offsets of its own.")
    chosen = numbers if number is None else [number]
    wanted = {TopicPartition(topic.name, each): Offset(-1 if before is None else before) for each in chosen}
    failed = [
        f"{at}: {outcome}"
        for at, outcome in (await visit.admin.delete_records(wanted)).items()
        if isinstance(outcome, ClientError)
    ]
    if failed:
        more = f", and {len(failed) - 3} more" if len(failed) > 3 else ""
        raise FormError(f"Not everything was deleted. {'; '.join(failed[:3])}{more}.")
    where = topic.name if number is None else f"{topic.name}-{number}"
    what = "all records" if before is None else f"the records before offset {before}"
    return visit.go(visit.to_topic(topic.name), f"Deleted {what} of {where}.")


async def delete(visit: Visit) -> Response:
    """Delete a topic."""
    topic = await _topic(visit)
    _require_name(visit, topic.name)
    await visit.admin.delete_topics([topic.name])
    await visit.web.watch.look_again()
    return visit.go("/topics", f"Deleted {topic.name}.")


async def _topic(visit: Visit) -> TopicDescription:
    name = visit.path("topic")
    found = (await visit.web.watch.look_again()).topics.get(name)
    if found is None:
        raise Missing(f"There is no topic {name}.")
    return found


def _require_name(visit: Visit, name: str) -> None:
    if visit.form.text("name") != name:
        raise FormError(f"Nothing was deleted: to confirm, the topic's name is typed, {name}.")
