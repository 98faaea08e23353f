"""The cluster: its brokers, recent changes, the leaders of partitions, and one broker with its disks."""

from starlette.responses import Response

from ottla.client.admin import ConfigResource, ResourceKind
from ottla.web.answers import attempt_all
from ottla.web.models.disks import disk_rows, fullest
from ottla.web.models.leadership import leadership
from ottla.web.models.settings import setting_rows
from ottla.web.paging import page_of
from ottla.web.visit import Missing, Visit
from wire.types import BrokerId

_TOPICS = 20
_HELD = 100


async def show(visit: Visit) -> Response:
    """Show the brokers, and the leaders of partitions."""
    seen = await visit.web.watch.current()
    wanted = visit.query.text("search")
    names = [name for name in seen.topics if wanted.lower() in name.lower()]
    chosen = page_of(names, visit.query.text("page"), _TOPICS)
    return visit.page(
        "cluster.html",
        "cluster",
        overview=seen,
        disks={broker: fullest(answer) for broker, answer in visit.web.samples.directories.items()},
        rate=visit.web.samples.rate,
        page=chosen,
        leaders=[leadership(seen.topics[name], seen.cluster) for name in chosen.rows],
        search=wanted,
    )


async def status(visit: Visit) -> Response:
    """Show the status line of every page: the health of the cluster."""
    await visit.web.watch.current()
    return visit.page("status.html", "")


async def show_one(visit: Visit) -> Response:
    """Show a broker: its disks, its partitions, its settings."""
    seen = await visit.web.watch.current()
    name = visit.path("broker")
    found = next((each for each in seen.brokers if str(each.broker_id) == name), None)
    if found is None:
        raise Missing(f"There is no broker {name}, and no partition has a replica on one.")
    broker_id = BrokerId(found.broker_id)
    admin = visit.admin
    resource = ConfigResource(ResourceKind.BROKER, name)

    directories, settings = await attempt_all(
        lambda: admin.describe_log_dirs(broker_id),
        lambda: admin.describe_configs([resource], synonyms=True),
    )
    held = [
        (topic.name, each)
        for topic in seen.topics.values()
        for each in topic.partitions
        if broker_id in each.replicas
    ]
    only_led = visit.query.text("show") == "led"
    chosen = [row for row in held if row[1].leader == broker_id] if only_led else held
    return visit.page(
        "broker.html",
        "cluster",
        broker=found,
        disks=disk_rows(directories.or_else([])),
        disks_problem=directories.problem,
        rows=[] if settings.value is None else setting_rows(settings.value[resource]),
        settings_problem=settings.problem,
        page=page_of(chosen, visit.query.text("page"), _HELD),
        held=len(held),
        only_led=only_led,
        all_settings=visit.query.text("settings") == "all",
        sizes=visit.web.samples.sizes,
    )
