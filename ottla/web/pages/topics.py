"""Topics: the list, and one topic with its partitions and settings."""

from typing import Final

from starlette.responses import Response

from ottla.client.admin import ConfigResource, ResourceKind
from ottla.web.answers import attempt_all
from ottla.web.models.overview import topic_summary
from ottla.web.models.settings import setting_rows
from ottla.web.models.topics import SORTS, partition_rows, topic_rows
from ottla.web.paging import page_of
from ottla.web.visit import Visit
from wire.types import TopicPartition, topic_id_text

_PARTITIONS: Final = 100


async def show(visit: Visit) -> Response:
    """List topics."""
    seen = await visit.web.watch.current()
    sort = visit.query.chosen("sort", SORTS, "name")
    with_internal = visit.query.text("internal") == "1"
    search = visit.query.text("search")
    rows = topic_rows(
        seen.summaries,
        visit.web.samples.rates,
        visit.web.samples.sizes,
        search=search,
        with_internal=with_internal,
        only=visit.query.text("only"),
        sort=sort,
    )
    return visit.page(
        "topics.html",
        "topics",
        page=page_of(rows, visit.query.text("page")),
        overview=seen,
        sort=sort,
        search=search,
        with_internal=with_internal,
        only=visit.query.text("only"),
        has_sizes=visit.web.samples.has_sizes,
        internal_count=sum(each.internal for each in seen.summaries),
    )


async def show_one(visit: Visit) -> Response:
    """Show a topic."""
    name = visit.path("topic")
    topic = await visit.topic(name)
    seen = await visit.web.watch.current()
    admin = visit.admin
    chosen = page_of(topic.partitions, visit.query.text("page"), _PARTITIONS)
    # For a partition without a leader the client would retry until the time is over.
    led = [
        TopicPartition(name, each.partition) for each in chosen.rows if each.leader in seen.cluster.brokers
    ]
    resource = ConfigResource(ResourceKind.TOPIC, name)
    starts, ends, settings = await attempt_all(
        lambda: admin.list_offsets(dict.fromkeys(led, -2)),
        lambda: admin.list_offsets(dict.fromkeys(led, -1)),
        lambda: admin.describe_configs([resource], synonyms=True),
    )
    return visit.page(
        "topic.html",
        "topics",
        topic=topic,
        topic_id=topic_id_text(topic.topic_id),
        summary=topic_summary(topic),
        page=chosen,
        rows=partition_rows(name, chosen.rows, starts.or_else({}), ends.or_else({}), visit.web.samples.sizes),
        problem=starts.problem or ends.problem,
        rate=visit.web.samples.rates.get(name),
        settings=[] if settings.value is None else setting_rows(settings.value[resource]),
        settings_problem=settings.problem,
        all_settings=visit.query.text("settings") == "all",
    )
