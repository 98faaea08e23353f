"""``ottla broker``: one broker in the foreground, from a ``server.properties``."""

import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from cluster.zookeeper.guardian import GuardianLink


@click.command("broker")
@click.argument("properties", metavar="SERVER.PROPERTIES", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--override",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting that goes before the file's.",
)
@click.option("--json", "as_json", is_flag=True, help="Log in JSON, an object a line, for programs.")
def command(properties: Path, overrides: Sequence[str], as_json: bool) -> None:
    """Run one broker, with Kafka's property names, until a signal stops it."""
    # The guardian forks before anything large is imported.
    from cluster.zookeeper.guardian import run_guarded

    sys.exit(run_guarded(lambda link: run_from_file(properties, overrides, link, as_json=as_json)))


def run_from_file(
    properties: Path, overrides: Sequence[str], link: "GuardianLink | None", *, as_json: bool = False
) -> int:
    """Run a broker until a signal stops it.

    Args:
        properties: Its ``server.properties``.
        overrides: ``key=value`` texts that go before the file's.
        link: To the guardian of this process, if there is one.
        as_json: Whether each line of its log is an object.

    Returns:
        The exit code of the process. What is wrong has been logged.
    """
    from cluster.broker.exit_codes import ExitCode
    from cluster.broker.process import run
    from cluster.configuration.broker_config import BrokerConfig
    from cluster.configuration.config_providers import resolve_references
    from cluster.configuration.errors import ConfigError
    from cluster.configuration.properties import parse_overrides, read_properties

    logging.basicConfig(level=logging.INFO, format="[%(asctime)s] %(levelname)s %(message)s (%(name)s)")
    if as_json:
        from ottla.json_log import JsonLines

        for handler in logging.getLogger().handlers:
            handler.setFormatter(JsonLines())
    # The broker itself logs a lost or restored ZooKeeper connection, once and not at each attempt.
    logging.getLogger("kazoo").setLevel(logging.ERROR)
    try:
        given = read_properties(properties) | parse_overrides(overrides)
        config = BrokerConfig(resolve_references(given, os.environ))
    except ConfigError as error:
        logging.getLogger(__name__).critical("%s", error)
        return ExitCode.CONFIGURATION
    return run(config, link)
