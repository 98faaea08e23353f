"""``ottla web``: the web page of a cluster."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from ottla.commands.terminal.connecting import client_settings, config_option, settings_of
from ottla.commands.terminal.failure import CommandError, failing_on

if TYPE_CHECKING:
    import trio

    from ottla.client.settings import ConnectionSettings
    from ottla.web.settings import WebSettings

HOST: Final = "127.0.0.1"
PORT: Final = 9080
REMEDY: Final = "the web page needs more packages: pip install 'ottla[web]'"
_CALL_TIMEOUT_S: Final = 5.0


@click.command("web")
@click.option("--bootstrap-server", metavar="HOST:PORT,...", help="Brokers to connect to; or --data.")
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help="The directory of a cluster on this machine: its brokers, its security, and its journals.",
)
@config_option
@click.option("--host", default=HOST, show_default=True, help="The address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="The port; 0: a free one."
)
@click.option(
    "--allow-host",
    "names",
    multiple=True,
    metavar="NAME",
    help="A name that browsers reach the page by, besides localhost and addresses. Repeatable.",
)
@click.option(
    "--allow-changes", is_flag=True, help="Let who logs in change things; without, everything is read-only."
)
@click.option(
    "--password-file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A file with the password of logins. [default: a new one each time, printed]",
)
@click.option(
    "--certificate",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Serve https, with this certificate (PEM).",
)
@click.option(
    "--key", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="Its private key (PEM)."
)
@click.option("--schema-registry", metavar="URL", help="Where the schemas of Avro values are.")
@click.option(
    "--journals",
    metavar="PATH,...",
    help="State-change journals of Ottla's brokers, or directories with them.",
)
@click.option(
    "--checkpoints",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="A directory with the checkpoints of Spark jobs. Repeatable.",
)
@click.option("--end-with-input", is_flag=True, hidden=True, help="End when the standard input ends.")
def command(
    bootstrap_server: str | None,
    data: Path | None,
    command_config: Path | None,
    host: str,
    port: int,
    names: Sequence[str],
    allow_changes: bool,
    password_file: Path | None,
    certificate: Path | None,
    key: Path | None,
    schema_registry: str | None,
    journals: str | None,
    checkpoints: Sequence[Path],
    end_with_input: bool,
) -> None:  # fmt: skip
    """Serve a web page of a cluster: topics, messages, groups, brokers.

    Read-only, and on this machine alone, unless told otherwise. A login is needed for changes, on other addresses than
    this machine's own, and where the page has credentials of its own for the cluster.
    """
    from ottla.client.schema_registry import SchemaRegistry
    from ottla.commands.web.credentials import needs_password, read_password

    if key is not None and certificate is None:
        raise click.UsageError("--key goes with --certificate")
    bootstrap, config = _cluster(bootstrap_server, data, command_config)
    require_packages()
    from ottla.web.settings import WebSettings

    with failing_on(OSError, ValueError):
        properties = client_settings(config)
        client = settings_of(properties, properties.get("client.id") or "ottla-web", _CALL_TIMEOUT_S)
        needed = needs_password(host, client, allow_changes=allow_changes)
        password = read_password(password_file) if needed or password_file is not None else None
        settings = WebSettings(
            bootstrap_servers=bootstrap,
            command_config=config,
            host=host,
            port=port,
            names=names,
            allow_changes=allow_changes,
            password=password,
            data=data,
            journals=[Path(part) for part in (journals or "").split(",") if part],
            checkpoints=checkpoints,
            registry=None if schema_registry is None else SchemaRegistry(schema_registry),
            certificate=certificate,
            key=key,
        )
    _serve(settings, client, shows_password=password_file is None, end_with_input=end_with_input)


def _cluster(bootstrap_server: str | None, data: Path | None, config: Path | None) -> tuple[str, Path | None]:
    if bootstrap_server is None and data is None:
        raise click.UsageError("one of --bootstrap-server and --data is needed")
    if data is None:
        return bootstrap_server or "", config
    from ottla.commands.local.cluster_directory import ClusterDirectory
    from ottla.commands.local.secure import ClusterSecurity

    directory = ClusterDirectory(data)
    state = directory.require()
    security = ClusterSecurity(directory.security_path)
    if config is None and security.exists():
        config = security.admin_properties
    return bootstrap_server or state.bootstrap_servers, config


def require_packages() -> None:
    """See that what the page is made of is installed.

    Raises:
        CommandError: It is not; the text says what to install.
    """
    from importlib.util import find_spec

    missing = [name for name in ("starlette", "hypercorn", "jinja2") if find_spec(name) is None]
    if missing:
        raise CommandError(f"{REMEDY} (missing: {', '.join(missing)})")


def _serve(
    settings: "WebSettings", client: "ConnectionSettings", *, shows_password: bool, end_with_input: bool
) -> None:
    import signal

    import trio

    from ottla.commands.terminal.interruption import STOPS, on_interrupt
    from ottla.web.server import make_web, run
    from timing.clock import SystemClock

    def on_serving(address: str) -> None:
        click.echo(f"web page: {address}/")
        if settings.password is not None and shows_password:
            click.echo(f"password: {settings.password}")
        if end_with_input:
            click.echo()  # that is all: who started the page reads no further

    if end_with_input:
        # Who started the page may hold signals back, and a process inherits that.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)

    async def until_interrupted() -> None:
        stopped = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(on_interrupt, stopped.set)
            if end_with_input:
                nursery.start_soon(_wait_for_end_of_input, stopped)
            await stopped.wait()
            nursery.cancel_scope.cancel()

    with failing_on(OSError):
        trio.run(run, make_web(settings, client, SystemClock()), on_serving, until_interrupted)


async def _wait_for_end_of_input(stopped: "trio.Event") -> None:
    import os
    import sys

    import trio

    # Duplicated: closing the stream must not close what Python thinks of as its own.
    async with trio.lowlevel.FdStream(os.dup(sys.stdin.fileno())) as stream:
        while await stream.receive_some(1024):
            pass
    stopped.set()
