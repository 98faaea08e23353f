"""``ottla broker-api-versions``: what each broker serves, beside what is known here."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.commands.terminal.connecting import cluster_options, with_admin
from ottla.commands.terminal.kafka_style import prints_as_kafka
from wire.apis import API_TABLE, ApiKey

if TYPE_CHECKING:
    from ottla.client.admin import Admin, Broker

Versions = Mapping[int, tuple[int, int]]


@click.command("broker-api-versions")
@cluster_options
def command(bootstrap_server: str, timeout_s: float, command_config: Path | None, as_json: bool) -> None:
    """Show the versions of each API that the brokers serve."""
    found = with_admin("broker-api-versions", bootstrap_server, timeout_s, command_config, _ask)
    if prints_as_kafka():
        _show_as_kafka(found)
    elif as_json:
        click.echo(json.dumps([_as_json(broker, versions) for broker, versions in found], indent=2))
    else:
        _show(found)
    if any(isinstance(versions, Exception) for _, versions in found):
        raise click.exceptions.Exit(1)


async def _ask(admin: "Admin") -> list[tuple["Broker", Versions | Exception]]:
    from ottla.client.errors import BrokerUnreachable

    found: list[tuple[Broker, Versions | Exception]] = []
    for broker_id, broker in sorted((await admin.refresh()).brokers.items()):
        try:
            found.append((broker, await admin.api_versions(broker_id)))
        except BrokerUnreachable as error:
            found.append((broker, error))
    return found


def api_name(key: int) -> str:
    """Return Kafka's name of an API, its number where it is unknown here."""
    try:
        return "".join(part.capitalize() for part in ApiKey(key).name.split("_"))
    except ValueError:
        return f"Unknown({key})"


def usable_version(key: int, served: tuple[int, int]) -> int | None:
    """Return the version that would be used, None where there is none in common."""
    known = API_TABLE.get(key)
    if known is None:
        return None
    version = min(known.max_version, served[1])
    return version if version >= max(known.min_version, served[0]) else None


def _as_json(broker: "Broker", versions: Versions | Exception) -> dict[str, object]:
    data: dict[str, object] = {"id": broker.broker_id, "host": broker.host, "port": broker.port}
    if isinstance(versions, Exception):
        return data | {"error": str(versions)}
    return data | {
        "apis": [
            {
                "key": key,
                "name": api_name(key),
                "min": low,
                "max": high,
                "usable": usable_version(key, (low, high)),
            }
            for key, (low, high) in sorted(versions.items())
        ]
    }


def _show_as_kafka(found: list[tuple["Broker", Versions | Exception]]) -> None:
    from ottla.commands.kafka_lines.brokers import failed_version_line, version_lines

    for broker, versions in found:
        if isinstance(versions, Exception):
            click.echo(failed_version_line(broker, versions))
            continue
        apis = {key: (api_name(key), served, usable_version(key, served)) for key, served in versions.items()}
        click.echo("\n".join(version_lines(broker, apis)))


def _show(found: list[tuple["Broker", Versions | Exception]]) -> None:
    """Print one table for all brokers that serve the same, so that a broker that differs stands out."""
    from ottla.commands.terminal.console import new_table, open_console

    console = open_console()
    groups: list[tuple[Versions, list[Broker]]] = []
    for broker, versions in found:
        if isinstance(versions, Exception):
            console.print(f"[bold]broker {broker.broker_id}[/bold]  [red]{versions}[/red]")
            continue
        for known, brokers in groups:
            if known == versions:
                brokers.append(broker)
                break
        else:
            groups.append((versions, [broker]))
    for versions, brokers in groups:
        console.print(
            "[bold]"
            + ", ".join(f"broker {each.broker_id} ({each.host}:{each.port})" for each in brokers)
            + "[/bold]"
        )
        table = new_table("Key", "API", "Served", "Usable")
        for key, (low, high) in sorted(versions.items()):
            usable = usable_version(key, (low, high))
            table.add_row(
                str(key),
                api_name(key),
                str(low) if low == high else f"{low} to {high}",
                "[yellow]none[/yellow]" if usable is None else str(usable),
            )
        console.print(table)
