"""``ottla broker``: one broker in the foreground, from a ``server.properties``, or from variables as in containers."""

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
@click.argument(
    "properties",
    metavar="[SERVER.PROPERTIES]",
    required=False,
    type=click.Path(path_type=Path, dir_okay=False),
)
@click.option(
    "--environment",
    "from_environment",
    is_flag=True,
    help="Take settings from variables as well, as Kafka's images do: KAFKA_BROKER_ID=1; they go before the file's.",
)
@click.option(
    "--override",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting that goes before all others.",
)
@click.option("--json", "as_json", is_flag=True, help="Log in JSON, an object a line, for programs.")
def command(properties: Path | None, from_environment: bool, overrides: Sequence[str], as_json: bool) -> None:
    """Run one broker, with Kafka's property names, until a signal stops it."""
    if properties is None and not from_environment:
        raise click.UsageError("name a SERVER.PROPERTIES file, or take the settings from the --environment")
    # The guardian forks before anything large is imported.
    from cluster.zookeeper.guardian import run_guarded

    sys.exit(
        run_guarded(
            lambda link: run_from_file(
                properties, overrides, link, from_environment=from_environment, as_json=as_json
            )
        )
    )


def run_from_file(
    properties: Path | None,
    overrides: Sequence[str],
    link: "GuardianLink | None",
    *,
    from_environment: bool = False,
    as_json: bool = False,
) -> int:
    """Run a broker until a signal stops it.

    Args:
        properties: Its ``server.properties``; None where it has no file.
        overrides: ``key=value`` texts that go before everything else.
        link: To the guardian of this process, if there is one.
        from_environment: Whether variables such as ``KAFKA_BROKER_ID`` are settings, which go before the file's.
        as_json: Whether each line of its log is an object.

    Returns:
        The exit code of the process. What is wrong has been logged.
    """
    from cluster.broker.exit_codes import ExitCode
    from cluster.broker.process import run
    from cluster.configuration.broker_config import BrokerConfig
    from cluster.configuration.config_providers import resolve_references
    from cluster.configuration.container_environment import properties_in
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
        given = {} if properties is None else read_properties(properties)
        if from_environment:
            given |= properties_in(os.environ)
        given |= parse_overrides(overrides)
        config = BrokerConfig(resolve_references(given, os.environ))
    except ConfigError as error:
        logging.getLogger(__name__).critical("%s", error)
        return ExitCode.CONFIGURATION
    return run(config, link)
