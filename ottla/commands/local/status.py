"""``ottla status``: the state of a cluster on this machine."""

import json
from pathlib import Path

import click

from ottla.commands.local.cluster_directory import ClusterDirectory
from ottla.commands.terminal.choice import data_option


@click.command("status")
@data_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
def command(data: Path, as_json: bool) -> None:
    """Show brokers, controller, partitions, leaders and ISR."""
    from ottla.commands.local.cluster_view import observe

    view = observe(ClusterDirectory(data).require())
    if as_json:
        click.echo(json.dumps(view.as_json(), indent=2, default=repr))
        return
    from ottla.commands.local.cluster_tables import render
    from ottla.commands.terminal.console import open_console

    open_console().print(render(view, partitions_max=None))
