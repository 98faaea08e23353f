"""What the commands that talk to a cluster share: the options that say which one, and connecting to it."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from ottla.commands.terminal.failure import CommandError, failing_on

if TYPE_CHECKING:
    from ottla.admin import Admin

_F = TypeVar("_F", bound=Callable[..., Any])
_T = TypeVar("_T")

_PLAIN: Final = {"security.protocol": "PLAINTEXT"}
"""Settings of a client's configuration that are understood in one value only."""
_REFUSED: Final = ("ssl.", "sasl.")


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


def common_options(function: _F) -> _F:
    """Add ``--command-config``, ``--timeout`` and ``--json``."""
    options = (
        click.option(
            "--command-config",
            type=click.Path(path_type=Path, exists=True, dir_okay=False),
            help="A client's settings, as a properties file.",
        ),
        click.option(
            "--timeout", "timeout_s", type=click.FloatRange(min=0.1), default=30.0, help="Seconds to try."
        ),
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
        timeout_s: How long each request may take.
        command_config: A file of settings, or None.
        body: What to do.

    Raises:
        CommandError: the cluster refuses or cannot be reached, or a value was not understood.
    """
    import trio

    from ottla.admin import ApiError, ConnectError, NoCommonVersionError, open_admin

    client_id = _client_id(command_config) or f"ottla-{name}"

    async def run() -> _T:
        async with open_admin(bootstrap_server, client_id=client_id, timeout_s=timeout_s) as admin:
            return await body(admin)

    with failing_on(ApiError, ConnectError, NoCommonVersionError, ValueError):
        return trio.run(run)


def _client_id(command_config: Path | None) -> str | None:
    """Read what we follow of a client's settings, and refuse what would change how we connect.

    Raises:
        CommandError: the file asks for a protocol that these commands do not speak.
    """
    if command_config is None:
        return None
    import javaproperties

    with command_config.open(encoding="utf-8") as file:
        settings: dict[str, str] = javaproperties.load(file)
    for name, value in settings.items():
        if name.startswith(_REFUSED) or value.upper() != _PLAIN.get(name, value.upper()):
            raise CommandError(f"{command_config}: {name} is not supported: these commands speak PLAINTEXT")
    return settings.get("client.id")
