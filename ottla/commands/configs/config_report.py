"""What ``ottla configs --describe`` shows: each setting, its value, and where that comes from."""

import json
from collections.abc import Mapping, Sequence
from typing import Final

import click

from ottla.client.admin import ConfigResource, ConfigSource, ConfigValue, ResourceKind
from ottla.client.admin.configs import resource_text
from ottla.commands.terminal.console import new_table, open_console

_SOURCES: Final = {
    ConfigSource.DYNAMIC_TOPIC_CONFIG: "topic",
    ConfigSource.DYNAMIC_BROKER_CONFIG: "broker, at run time",
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG: "all brokers, at run time",
    ConfigSource.STATIC_BROKER_CONFIG: "broker's file",
    ConfigSource.DEFAULT_CONFIG: "default",
    ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG: "logger",
}


def report(described: Mapping[ConfigResource, Sequence[ConfigValue]], *, as_json: bool) -> None:
    """Print the settings of each resource as a table, or of all as JSON."""
    if as_json:
        click.echo(json.dumps([_as_json(*entry) for entry in described.items()], indent=2))
        return
    console = open_console()
    for index, (resource, values) in enumerate(described.items()):
        if index:
            console.print()
        title = resource_text(resource)
        if not values:
            console.print(f"[bold]{title}[/bold]  nothing is set")
            continue
        console.print(f"[bold]{title}[/bold]")
        table = new_table("Setting", "Value", "From", "Instead of")
        for value in sorted(values, key=lambda each: each.name):
            # Without escaping, a value in brackets would be taken for a style.
            table.add_row(
                value.name,
                _shown(value.value, value).replace("[", "\\["),
                _SOURCES.get(value.source, value.source.name.lower()),
                _behind(value).replace("[", "\\["),
            )
        console.print(table)


def _shown(text: str | None, value: ConfigValue) -> str:
    if value.is_sensitive:
        return "(hidden)"
    return "-" if text is None or text == "" else text


def _behind(value: ConfigValue) -> str:
    """Return the value that would hold without the present one, and where it comes from."""
    behind = value.synonyms[1:]
    if not behind:
        return ""
    source = _SOURCES.get(behind[0].source, behind[0].source.name.lower())
    name = f"{behind[0].name}=" if behind[0].name != value.name else ""
    return f"{name}{_shown(behind[0].value, value)} ({source})"


def _as_json(resource: ConfigResource, values: Sequence[ConfigValue]) -> dict[str, object]:
    default = resource.kind is ResourceKind.BROKER and resource.name == ""
    return {
        "type": resource.kind.name.lower(),
        "name": None if default else resource.name,
        "default": default,
        "configs": [
            {
                "name": value.name,
                "value": value.value,
                "source": value.source.name,
                "sensitive": value.is_sensitive,
                "read_only": value.is_read_only,
                "synonyms": [
                    {"name": each.name, "value": each.value, "source": each.source.name}
                    for each in value.synonyms
                ],
            }
            for value in values
        ],
    }
