"""``ottla up``: ZooKeeper and a cluster of brokers on this machine, from nothing."""

import signal
import socket
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from ottla.commands.local.zookeeper_process import require_zookeeper, start_zookeeper
from ottla.commands.terminal.choice import json_option, show_state
from ottla.commands.terminal.failure import CommandError, failing_on

if TYPE_CHECKING:
    from ottla.commands.local.cluster_directory import ClusterDirectory, ClusterState
    from ottla.commands.local.launcher import Launcher
    from ottla.commands.local.secure import ClusterSecurity

HOST: Final = "127.0.0.1"
_NOWHERE: Final = ("0.0.0.0", "::", "")
ZOOKEEPER_PORT: Final = 2181
FIRST_ID_MAX: Final = 1000
"""Kafka's `reserved.broker.max.id`: brokers choose the ids above it themselves."""


@click.command("up")
@click.option(
    "--brokers", "count", type=click.IntRange(1, 1000), default=3, show_default=True, help="How many."
)
@click.option(
    "--first-id",
    type=click.IntRange(0, FIRST_ID_MAX),
    help="The first broker's id; the others follow. [default: 0, or as an earlier cluster there had it]",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=9092,
    show_default=True,
    help="The first broker's port; the others follow. 0 takes free ones.",
)
@click.option(
    "--host",
    default=HOST,
    show_default=True,
    help="The name or address that clients reach this machine by; brokers then listen on all of its addresses.",
)
@click.option("--zookeeper", metavar="HOST:PORT", help="A ZooKeeper that runs already; none is started.")
@click.option(
    "--zookeeper-port",
    type=click.IntRange(0, 65535),
    help=f"ZooKeeper's port; 0 takes a free one. [default: {ZOOKEEPER_PORT}, or a free one where that is taken]",
)
@click.option(
    "--data", type=click.Path(path_type=Path, file_okay=False), default=Path("data"), show_default=True,
    help="The cluster's directory; a cluster that is there is started again.",
)  # fmt: skip
@click.option(
    *("--override", "overrides"),
    multiple=True,
    metavar="[ID:]KEY=VALUE",
    help="A setting of all brokers, or of one; {id} and {port} in it are the broker's. Repeatable.",
)
@click.option(
    "--secure",
    is_flag=True,
    help="TLS, passwords and access rules: SASL_SSL only, with the clients' files in DIR/security.",
)
@click.option(
    "--in-process",
    is_flag=True,
    help="All brokers in this one process, without Java and with nothing kept: for tests and first steps.",
)
@click.option("--detach", is_flag=True, help="Return when the cluster is healthy, and leave it running.")
@click.option(
    "--web/--no-web",
    default=None,
    help="Serve a web page of the cluster while this command runs.  [default: --web]",
)
@click.option(
    "--web-port",
    type=click.IntRange(1, 65535),
    help="Its port. [default: 9080, or a free one where that is taken]",
)
@json_option
def command(
    count: int,
    first_id: int | None,
    port: int,
    host: str,
    zookeeper: str | None,
    zookeeper_port: int | None,
    data: Path,
    overrides: Sequence[str],
    secure: bool,
    in_process: bool,
    detach: bool,
    web: bool | None,
    web_port: int | None,
    as_json: bool,
) -> None:
    """Start ZooKeeper and a cluster of brokers on this machine.

    Without --detach it shows the cluster's state until Ctrl-C, and then stops it.
    """
    if in_process:
        others = (zookeeper, zookeeper_port, first_id)
        if any(option is not None for option in others) or secure or detach or as_json or web or host != HOST:
            raise click.UsageError("--in-process goes with --brokers, --port and --override alone")
        if any("{id}" in text or "{port}" in text for text in overrides):
            raise click.UsageError(
                "--in-process gives all brokers the same settings: no {id} or {port} in --override"
            )
        from ottla.commands.local.in_process import run_in_process

        run_in_process([port + number if port else 0 for number in range(count)], parse_overrides(overrides))
        return
    if detach and web:
        raise click.UsageError(
            f"--web does not go with --detach: run `ottla web --data {data}` beside the cluster"
        )
    if as_json and not detach:
        raise click.UsageError("--json goes with --detach: what `ottla up` shows otherwise is for people")
    if host in _NOWHERE:
        raise click.UsageError(
            f"--host {host}: clients cannot connect to that; name what they reach this machine by"
        )
    if zookeeper is not None and zookeeper_port is not None:
        raise click.UsageError("--zookeeper does not go with --zookeeper-port")
    if web:
        from ottla.commands.web.web import require_packages

        require_packages()
    # First of all, so that it imports while the rest goes on.
    from ottla.commands.local.launcher import Launcher

    launcher = Launcher()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    from ottla.commands.local.cluster_directory import ClusterDirectory

    directory = ClusterDirectory(data)
    security = _security(directory, is_wanted=secure)
    try:
        with directory.locked():
            plan = _plan(directory, count, first_id, port, host, zookeeper, zookeeper_port)
            ids = [broker.id for broker in plan.brokers]
            _bring_up(directory, plan, launcher, split_overrides(overrides, ids), security)
    except KeyboardInterrupt:
        raise click.Abort from None
    finally:
        launcher.close()
    if as_json:
        show_state(directory, as_json=True)
        return
    if detach:
        click.echo(f"bootstrap servers: {directory.require().bootstrap_servers}")
        if security is not None:
            click.echo(security.summary())
        return
    if security is not None:
        click.echo(security.summary())
    from ottla.commands.local.watch import watch_until_interrupted

    with ExitStack() as stack:
        watch_until_interrupted(directory, lambda: _serve_page(stack, directory, web_port, is_wanted=web))


def _serve_page(
    stack: ExitStack, directory: "ClusterDirectory", port: int | None, *, is_wanted: bool | None
) -> None:
    from ottla.commands.local.web_process import start_web

    page = None if is_wanted is False else start_web(directory, port)
    if page is not None:
        stack.callback(page.close)


def _security(directory: "ClusterDirectory", *, is_wanted: bool) -> "ClusterSecurity | None":
    """Return the security of a cluster that has or gets some.

    Raises:
        CommandError: the cluster was made with it, and is to be started without.
    """
    from ottla.commands.local.secure import ClusterSecurity

    security = ClusterSecurity(directory.security_path)
    if not is_wanted and security.exists():
        raise CommandError(
            f"the cluster in {directory.path} is a secured one: start it with --secure, "
            f"or remove {security.path} to have it open to everybody"
        )
    return security if is_wanted else None


def split_overrides(
    texts: Sequence[str], ids: Sequence[int]
) -> tuple[dict[str, str], dict[int, dict[str, str]]]:
    """Read settings given as ``key=value``, for all brokers, and as ``id:key=value``, for one.

    Returns:
        The settings of all, and those of single brokers, by id.

    Raises:
        CommandError: one is written otherwise, or there is no such broker.
    """
    for_all: list[str] = []
    for_one: dict[int, list[str]] = {}
    for text in texts:
        broker, colon, rest = text.partition(":")
        if colon and broker.isascii() and broker.isdigit():
            if int(broker) not in ids:
                known = ", ".join(map(str, ids))
                raise CommandError(f"--override {text!r}: there is no broker {broker}, only {known}")
            for_one.setdefault(int(broker), []).append(rest)
        else:
            for_all.append(text)
    return parse_overrides(for_all), {broker_id: parse_overrides(each) for broker_id, each in for_one.items()}


def parse_overrides(texts: Sequence[str]) -> dict[str, str]:
    """Read settings given as ``key=value``, of which a later one goes before an earlier one.

    Raises:
        CommandError: one is not.
    """
    settings = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise CommandError(f"--override {text!r} is not KEY=VALUE")
        settings[name.strip()] = value.strip()
    return settings


def _plan(
    directory: "ClusterDirectory",
    count: int,
    first_id: int | None,
    port: int,
    host: str,
    zookeeper: str | None,
    zookeeper_port: int | None,
) -> "ClusterState":
    """Decide who will listen where; nothing is started or written.

    Raises:
        CommandError: a cluster runs here already, or a port is taken.
    """
    from ottla.commands.local.broker_files import bind_host
    from ottla.commands.local.cluster_directory import BrokerRecord, ClusterState
    from ottla.zookeeper_server import ZooKeeperStartError, require_free_port

    before = directory.read()
    if before is not None and (before.zookeeper_is_running or any(b.is_running for b in before.brokers)):
        raise CommandError(
            f"a cluster runs in {directory.path} already: "
            f"`ottla status --data {directory.path}` shows it, `ottla stop --data {directory.path}` ends it"
        )
    if first_id is None:
        first_id = 0 if before is None else before.brokers[0].id
    with failing_on(ZooKeeperStartError):
        ports = _free_ports(count) if port == 0 else list(range(port, port + count))
        for broker_id, broker_port in enumerate(ports, first_id):
            if broker_port > 65535:
                raise CommandError(
                    f"broker {broker_id} would get the port {broker_port}; 65535 is the last one"
                )
            require_free_port(bind_host(host), broker_port, f"broker {broker_id}")
        address = zookeeper or f"{HOST}:{_zookeeper_port(zookeeper_port, ports)}"
    brokers = tuple(
        BrokerRecord(broker_id, None, None, host, broker_port, str(directory.broker_path(broker_id)))
        for broker_id, broker_port in enumerate(ports, first_id)
    )
    return ClusterState(address, None, zookeeper is None, brokers)


def _free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on, all different: each is held until the last one is found."""
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind((HOST, 0))
        return [probe.getsockname()[1] for probe in probes]


def _zookeeper_port(wanted: int | None, taken: Sequence[int]) -> int:
    from ottla.zookeeper_server import ZooKeeperStartError, free_port, require_free_port

    if wanted:
        require_free_port(HOST, wanted, "ZooKeeper")
        return wanted
    try:
        if wanted is None and ZOOKEEPER_PORT not in taken:
            require_free_port(HOST, ZOOKEEPER_PORT, "ZooKeeper")
            return ZOOKEEPER_PORT
    except ZooKeeperStartError:
        pass  # the usual port is taken, and any other is as good
    return free_port(HOST)


def _bring_up(
    directory: "ClusterDirectory",
    plan: "ClusterState",
    launcher: "Launcher",
    overrides: tuple[dict[str, str], dict[int, dict[str, str]]],
    security: "ClusterSecurity | None",
) -> None:
    """Start what was planned, and wait until it is healthy. What was started is stopped again if it is not."""
    from ottla.commands.local.broker_files import broker_properties, write_properties
    from ottla.commands.local.health import wait_healthy
    from ottla.commands.local.launcher import LaunchError
    from ottla.commands.local.process_ending import stop_or_kill
    from ottla.commands.terminal.interruption import held_back
    from ottla.zookeeper_server import ZooKeeperStartError
    from timing.clock import SystemClock

    with failing_on(ZooKeeperStartError, LaunchError, OSError):
        try:
            server = None
            if plan.zookeeper_is_ours:
                server = start_zookeeper(directory, plan.zookeeper)
                plan = replace(plan, zookeeper_pid=server.pid)
                directory.write(plan)
            if security is not None:
                security.prepare(plan, SystemClock())
            for broker in plan.brokers:
                own = {} if security is None else security.broker_settings(broker)
                own |= overrides[0] | overrides[1].get(broker.id, {})
                properties = broker_properties(broker, len(plan.brokers), plan.zookeeper, own)
                write_properties(broker, properties)
            if server is None:
                require_zookeeper(plan.zookeeper)
            else:
                server.wait_serving()
                server.detach()
            if security is not None:
                security.write_users(plan.zookeeper)
            with held_back():  # between a broker's start and the note of its pid, nobody could stop it
                plan = plan.with_brokers(launcher.launch(plan.brokers))
                directory.write(plan)
            wait_healthy(plan.brokers, SystemClock())
        except BaseException:
            with held_back():
                directory.write(stop_or_kill(plan)[0])
            raise
