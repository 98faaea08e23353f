"""What the commands that move records share: their properties, their client, Ctrl-C, and what failed."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from ottla.commands.terminal.connecting import client_settings
from ottla.commands.terminal.failure import CommandError, failing_on
from ottla.commands.terminal.interruption import on_interrupt
from timing.clock import SystemClock

if TYPE_CHECKING:
    from ottla.client import Kafka
    from ottla.client_properties import ClientArguments

_T = TypeVar("_T")

INTERRUPTED: Final = 130
"""The exit code after Ctrl-C, as shells have it."""


def key_values(option: str, texts: Sequence[str]) -> dict[str, str]:
    """Read ``name=value`` arguments as Kafka's tools do: without ``=`` the value is empty.

    Raises:
        CommandError: a name is empty.
    """
    found = {}
    for text in texts:
        name, _, value = text.partition("=")
        if not name:
            raise CommandError(f"{option} {text!r} is not NAME=VALUE")
        found[name] = value
    return found


def merged_properties(config: Path | None, option: str, given: Sequence[str]) -> dict[str, str]:
    """Return a properties file's settings with those of the command line over them.

    Raises:
        CommandError: the file is none of properties, or an argument is not ``name=value``.
    """
    with failing_on(OSError, ValueError):
        return client_settings(config) | key_values(option, given)


def read_arguments(
    properties: Mapping[str, str],
    read: "Callable[[Mapping[str, str], Callable[[], int]], ClientArguments]",
) -> "ClientArguments":
    """Return what properties ask for, and warn of unknown ones on stderr.

    Raises:
        CommandError: one of them cannot be used.
    """
    with failing_on(OSError, ValueError):
        arguments = read(properties, SystemClock().wall_ms)
    for name in arguments.unknown:
        click.echo(f"warning: the property {name} is not known and has no effect", err=True)
    return arguments


def run_client(
    bootstrap_servers: str,
    connection: Mapping[str, Any],
    body: "Callable[[Kafka], Awaitable[_T]]",
    on_first_interrupt: Callable[[], object] | None = None,
) -> tuple[_T | None, bool]:
    """Connect, and run a command's body until it returns, or until Ctrl-C or SIGTERM cancel it.

    Args:
        bootstrap_servers: Where to connect to.
        connection: The other arguments of `connect`.
        body: What to do.
        on_first_interrupt: Called at the first Ctrl-C in place of the cancellation, so that the body may finish.

    Returns:
        What the body returned, None where it was cancelled; and whether it was interrupted.

    Raises:
        CommandError: the client failed, or a value does not fit.
    """
    import trio

    from ottla.client import ClientError, connect

    result: _T | None = None
    interrupted = False

    async def run() -> None:
        nonlocal result
        async with trio.open_nursery() as nursery:

            def stop() -> None:
                nonlocal interrupted
                if interrupted or on_first_interrupt is None:
                    nursery.cancel_scope.cancel()
                else:
                    on_first_interrupt()
                interrupted = True

            nursery.start_soon(on_interrupt, stop)
            async with connect(bootstrap_servers, **connection) as kafka:
                result = await body(kafka)
            nursery.cancel_scope.cancel()

    try:
        trio.run(run)
    except BaseExceptionGroup as group:
        unexpected = group.split((ClientError, ValueError, OSError, CommandError))[1]
        if unexpected is not None:
            raise
        raise CommandError("; ".join(dict.fromkeys(map(_text, _leaves(group))))) from None
    return result, interrupted


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for each in error.exceptions for leaf in _leaves(each)]
    return [error]


def _text(error: BaseException) -> str:
    return error.message if isinstance(error, CommandError) else str(error)
