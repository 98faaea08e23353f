"""The options and arguments that the commands on a running cluster share."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from ottla.commands.local.cluster_directory import BrokerRecord, ClusterState

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
