"""The options and arguments that the commands on a running cluster share."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from ottla.commands.local.cluster_directory import BrokerRecord, ClusterDirectory, ClusterState

_F = TypeVar("_F", bound=Callable[..., Any])


def data_option(function: _F) -> _F:
    """Add ``--data DIR``."""
    return click.option(
        "--data",
        type=click.Path(path_type=Path, file_okay=False),
        default=Path("data"),
        show_default=True,
        help="The cluster's directory.",
    )(function)


def json_option(function: _F) -> _F:
    """Add ``--json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")(function)


def show_state(directory: ClusterDirectory, *, as_json: bool) -> None:
    """Print for programs what ``cluster.json`` says now; people are shown it by ``ottla status``."""
    if as_json:
        click.echo(json.dumps(directory.require().as_json()))


def broker_arguments(function: _F) -> _F:
    """Add ``[BROKER_ID ...]``."""
    return click.argument("broker_ids", metavar="[BROKER_ID]...", nargs=-1, type=int)(function)


def chosen(state: ClusterState, broker_ids: Sequence[int]) -> list[BrokerRecord]:
    """Return the named brokers, or all.

    Raises:
        CommandError: one does not exist.
    """
    if not broker_ids:
        return list(state.brokers)
    return [state.broker(broker_id) for broker_id in dict.fromkeys(broker_ids)]
