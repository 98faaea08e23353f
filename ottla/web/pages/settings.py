"""Changing one setting of a topic or a broker, with a preview."""

from starlette.responses import Response

from ottla.client.admin import ConfigChange, ConfigOperation, ConfigResource, ResourceKind
from ottla.web.forms import FormError
from ottla.web.models.settings import SettingRow, setting_rows
from ottla.web.visit import Missing, Visit

_KINDS = {"topic": ResourceKind.TOPIC, "broker": ResourceKind.BROKER}


async def show(visit: Visit) -> Response:
    """Show a setting, with a field that has its value."""
    resource, row = await _setting(visit)
    return _page(visit, resource, row, row.value or "", previews=False)


async def change(visit: Visit) -> Response:
    """Preview a change, or make it."""
    resource, row = await _setting(visit)
    if row.is_read_only:
        raise FormError(f"{row.name} cannot be changed while the broker runs: it stands in its file.")
    resets = visit.form.text("reset") == "1"
    value = visit.form.text("value")
    wanted = (
        ConfigChange(row.name, ConfigOperation.DELETE)
        if resets
        else ConfigChange(row.name, ConfigOperation.SET, value)
    )
    if visit.form.text("step") != "apply":
        await visit.admin.alter_configs({resource: [wanted]}, validate_only=True)
        return _page(visit, resource, row, value, previews=True, resets=resets)
    if visit.form.text("before") != (row.value or ""):
        raise FormError(f"{row.name} has been changed meanwhile: it is {row.value or 'empty'} now.")
    await visit.admin.alter_configs({resource: [wanted]})
    done = f"{row.name} has its default again." if resets else f"{row.name} is {value or 'empty'} now."
    return visit.go(_back(visit, resource) + "#settings", done)


def _page(
    visit: Visit,
    resource: ConfigResource,
    row: SettingRow,
    value: str,
    *,
    previews: bool,
    resets: bool = False,
) -> Response:
    kind = "topic" if resource.kind is ResourceKind.TOPIC else "broker"
    return visit.page(
        "setting.html",
        "topics" if kind == "topic" else "cluster",
        kind=kind,
        name=resource.name,
        back=_back(visit, resource),
        row=row,
        value=value,
        previews=previews,
        resets=resets,
    )


def _back(visit: Visit, resource: ConfigResource) -> str:
    return (
        visit.to_topic(resource.name) if resource.kind is ResourceKind.TOPIC else f"/brokers/{resource.name}"
    )


async def _setting(visit: Visit) -> tuple[ConfigResource, SettingRow]:
    kind = "topic" if "topic" in visit.request.path_params else "broker"
    owner, name = visit.path(kind), visit.path("setting")
    if kind == "broker" and not owner.isdigit():
        raise Missing(f"There is no broker {owner}.")
    resource = ConfigResource(_KINDS[kind], owner)
    values = (await visit.admin.describe_configs([resource], synonyms=True))[resource]
    row = next((each for each in setting_rows(values) if each.name == name), None)
    if row is None:
        raise Missing(f"There is no setting {name} of {kind} {owner}.")
    return resource, row
