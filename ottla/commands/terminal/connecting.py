"""What the commands that talk to a cluster share: the options that say which one, and connecting to it."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from ottla.commands.terminal.durations import Duration
from ottla.commands.terminal.failure import failing_on

if TYPE_CHECKING:
    from ottla.client.admin import Admin
    from ottla.client.settings import ConnectionSettings
    from security.client_config import ClientSecurity

_SETUP_TIMEOUT_S: Final = 5.0
"""How long one address may take to accept a connection and to say what it serves."""

_F = TypeVar("_F", bound=Callable[..., Any])
_T = TypeVar("_T")


def cluster_options(function: _F) -> _F:
    """Add ``--bootstrap-server``, ``--command-config``, ``--timeout`` and ``--json``."""
    options = (
        click.option(
            "--bootstrap-server",
            required=True,
            metavar="HOST:PORT,...",
            help="Brokers to connect to.",
        ),
        common_options,
    )
    for option in reversed(options):
        function = option(function)
    return function


def config_option(function: _F) -> _F:
    """Add ``--command-config``, and the name that some of Kafka's tools have for it."""
    return click.option(
        *("--command-config", "--admin.config", "command_config"),
        type=click.Path(path_type=Path, exists=True, dir_okay=False),
        help="A client's settings, as a properties file.",
    )(function)


def timeout_option(function: _F) -> _F:
    """Add ``--timeout``, in milliseconds as in Kafka's tools."""
    return click.option(
        *("--timeout", "timeout_s"),
        type=Duration(),
        default=30.0,
        metavar="MS",
        help="Milliseconds to try, or 5s, 2m.  [default: 30000]",
    )(function)


def common_options(function: _F) -> _F:
    """Add ``--command-config``, ``--timeout`` and ``--json``."""
    options = (
        config_option,
        timeout_option,
        click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs."),
    )
    for option in reversed(options):
        function = option(function)
    return function


def with_admin(
    name: str,
    bootstrap_server: str,
    timeout_s: float,
    command_config: Path | None,
    body: Callable[["Admin"], Awaitable[_T]],
) -> _T:
    """Connect to a cluster, do something with it, and return its outcome.

    Args:
        name: The command's name, part of the client id.
        bootstrap_server: Where to connect to.
        timeout_s: How long each call may take, its retries included.
        command_config: A file of settings, or None.
        body: What to do.

    Raises:
        CommandError: the cluster refuses or cannot be reached, or a value was not understood.
    """
    import trio

    from ottla.client.errors import ClientError
    from ottla.client.kafka import Kafka
    from ottla.client.waits import Waits
    from ottla.commands.terminal.waiting import ShownWaits

    with failing_on(OSError, ValueError):
        settings = client_settings(command_config)
        connection_settings = settings_of(settings, settings.get("client.id") or f"ottla-{name}", timeout_s)

    async def run() -> _T:
        waits = Waits()
        outcome: list[_T] = []
        async with ShownWaits(waits), Kafka(bootstrap_server, connection_settings, waits=waits) as kafka:
            outcome.append(await body(kafka.admin))
        return outcome[0]

    with failing_on(ClientError, ValueError):
        return trio.run(run)


def settings_of(settings: Mapping[str, str], client_id: str, timeout_s: float) -> "ConnectionSettings":
    """Return how a command connects: with the security of its settings, and with one timeout for everything.

    Raises:
        ValueError: a setting cannot be used; the text names it.
    """
    from ottla.client.settings import ConnectionSettings

    security = security_of(settings)
    setup_s = min(_SETUP_TIMEOUT_S, timeout_s)
    return ConnectionSettings(
        client_id=client_id,
        request_timeout=timeout_s,
        api_timeout=timeout_s,
        connection_setup_timeout=setup_s,
        connection_setup_timeout_max=setup_s,
        tls=security.context,
        sasl=security.credentials,
    )


def client_settings(command_config: Path | None) -> dict[str, str]:
    """Return the settings of a client's properties file; none without a file.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no properties file.
    """
    from security.client_config import read_client_properties

    return {} if command_config is None else read_client_properties(command_config)


def security_of(settings: Mapping[str, str]) -> "ClientSecurity":
    """Return the TLS and SASL of a client that has these settings.

    Raises:
        ValueError: one of them cannot be used; the text names it.
    """
    from security.client_config import client_security
    from timing.clock import SystemClock

    return client_security(settings, SystemClock().wall_ms)
