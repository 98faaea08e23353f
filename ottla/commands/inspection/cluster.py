"""``ottla cluster``: what a cluster is, by its public protocol."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ottla.commands.inspection.lost_brokers import held_text, lost_brokers
from ottla.commands.terminal.connecting import cluster_options, with_admin
from ottla.commands.terminal.failure import CommandError
from ottla.commands.terminal.suggestions import SuggestingGroup
from wire.types import BrokerId, TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin import Admin, ClusterDescription, TopicDescription


@click.group("cluster", cls=SuggestingGroup)
def command() -> None:
    """Describe a cluster: its id, its brokers, its controller, and how well it is."""


@command.command("describe")
@cluster_options
def describe(bootstrap_server: str, timeout_s: float, command_config: Path | None, as_json: bool) -> None:
    """Show brokers, controller, and what is not as it should be."""

    async def ask(admin: "Admin") -> tuple["ClusterDescription", list["TopicDescription"]]:
        topics = await admin.describe_topics(None)
        return await admin.refresh(), topics

    cluster, topics = with_admin("cluster", bootstrap_server, timeout_s, command_config, ask)
    if as_json:
        click.echo(json.dumps(_as_json(cluster, topics), indent=2))
    else:
        _show(cluster, topics)


@command.command("controller")
@cluster_options
def controller(bootstrap_server: str, timeout_s: float, command_config: Path | None, as_json: bool) -> None:
    """Show which broker is the controller; fails where there is none."""
    cluster = _refreshed(bootstrap_server, timeout_s, command_config)
    broker = cluster.brokers.get(cluster.controller_id)
    if broker is None:
        raise CommandError("the cluster has no controller")
    if as_json:
        click.echo(json.dumps({"id": broker.broker_id, "host": broker.host, "port": broker.port}))
    else:
        click.echo(f"{broker.broker_id} ({broker.host}:{broker.port})")


@command.command("cluster-id")
@cluster_options
def cluster_id(bootstrap_server: str, timeout_s: float, command_config: Path | None, as_json: bool) -> None:
    """Show the cluster's id."""
    cluster = _refreshed(bootstrap_server, timeout_s, command_config)
    click.echo(
        json.dumps({"cluster_id": cluster.cluster_id}) if as_json else f"Cluster ID: {cluster.cluster_id}"
    )


@command.command("list-endpoints")
@cluster_options
def list_endpoints(
    bootstrap_server: str, timeout_s: float, command_config: Path | None, as_json: bool
) -> None:
    """Show where each broker is reached on this listener."""
    cluster = _refreshed(bootstrap_server, timeout_s, command_config)
    if as_json:
        click.echo(json.dumps(_brokers(cluster)))
        return
    from ottla.commands.terminal.console import new_table, open_console

    table = new_table("Id", "Host", "Port", "Rack")
    for broker_id, broker in sorted(cluster.brokers.items()):
        table.add_row(str(broker_id), broker.host, str(broker.port), broker.rack or "-")
    open_console().print(table)


def _refreshed(bootstrap_server: str, timeout_s: float, command_config: Path | None) -> "ClusterDescription":
    async def ask(admin: "Admin") -> "ClusterDescription":
        return await admin.refresh()

    return with_admin("cluster", bootstrap_server, timeout_s, command_config, ask)


def _brokers(cluster: "ClusterDescription") -> list[dict[str, object]]:
    return [
        {"id": broker_id, "host": broker.host, "port": broker.port, "rack": broker.rack}
        for broker_id, broker in sorted(cluster.brokers.items())
    ]


def _counts(topics: "list[TopicDescription]") -> dict[str, int]:
    partitions = [partition for topic in topics for partition in topic.partitions]
    return {
        "topics": len(topics),
        "partitions": len(partitions),
        "replicas": sum(len(partition.replicas) for partition in partitions),
        "under_replicated": sum(len(each.isr) < len(each.replicas) for each in partitions),
        "without_leader": sum(each.leader < 0 for each in partitions),
        "not_led_by_preferred": sum(
            each.leader >= 0 and each.leader != each.replicas[0] for each in partitions if each.replicas
        ),
    }


def _as_json(cluster: "ClusterDescription", topics: "list[TopicDescription]") -> dict[str, Any]:
    return {
        "cluster_id": cluster.cluster_id,
        "controller_id": cluster.controller_id,
        "brokers": _brokers(cluster),
        "lost_brokers": [
            {"id": broker_id, "replicas": len(partitions)}
            for broker_id, partitions in _lost(cluster, topics).items()
        ],
    } | _counts(topics)


def _lost(
    cluster: "ClusterDescription", topics: "list[TopicDescription]"
) -> dict[BrokerId, list[TopicPartition]]:
    replicas = [
        (TopicPartition(topic.name, each.partition), each.replicas)
        for topic in topics
        for each in topic.partitions
    ]
    return lost_brokers(cluster.brokers, replicas)


def _show(cluster: "ClusterDescription", topics: "list[TopicDescription]") -> None:
    from ottla.commands.terminal.console import new_table, open_console

    console = open_console()
    console.print(f"cluster {cluster.cluster_id}")
    table = new_table("Broker", "Address", "Rack", "Leads", "Hosts")
    partitions = [partition for topic in topics for partition in topic.partitions]
    for broker_id, broker in sorted(cluster.brokers.items()):
        mark = " ◆ controller" if broker_id == cluster.controller_id else ""
        table.add_row(
            f"{broker_id}{mark}",
            f"{broker.host}:{broker.port}",
            broker.rack or "-",
            str(sum(each.leader == broker_id for each in partitions)),
            str(sum(broker_id in each.replicas for each in partitions)),
        )
    console.print(table)
    for broker_id, held in _lost(cluster, topics).items():
        console.print(f"[red]broker {broker_id} is {held_text(held)}[/red]")
    for name, count in _counts(topics).items():
        bad = name in ("under_replicated", "without_leader") and count
        text = f"{name.replace('_', ' ')}: {count}"
        console.print(f"[red]{text}[/red]" if bad else text)
    if cluster.controller_id not in cluster.brokers:
        console.print("[red]there is no controller[/red]")
