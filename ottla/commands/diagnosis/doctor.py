"""``ottla doctor``: why can I not connect?"""

import json
from collections.abc import Sequence
from pathlib import Path

import click

from ottla.commands.terminal.connecting import client_settings, config_option, security_of, settings_of
from ottla.commands.terminal.failure import failing_on


@click.command("doctor")
@click.option("--bootstrap-server", required=True, metavar="HOST:PORT,...", help="What a client is given.")
@config_option
@click.option(
    "--topic", "topics", multiple=True, metavar="NAME", help="Also say what this user may do with it."
)
@click.option(
    "--group", "groups", multiple=True, metavar="NAME", help="Also say whether this user may use it."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
def command(
    bootstrap_server: str,
    command_config: Path | None,
    topics: tuple[str, ...],
    groups: tuple[str, ...],
    as_json: bool,
) -> None:
    """Try every address of a cluster from here, and explain what does not fit.

    Fails where something is wrong.
    """
    import trio

    from ottla.addresses import parse_addresses
    from ottla.client.single_link import SingleLink
    from ottla.client.waits import Waits
    from ottla.commands.diagnosis.connection_checks import CONNECT_TIMEOUT_S, Doctor
    from ottla.commands.diagnosis.findings import Diagnosis
    from ottla.commands.terminal.waiting import ShownWaits

    with failing_on(OSError, ValueError):
        addresses = parse_addresses(bootstrap_server)
        settings = client_settings(command_config)
        protocol = security_of(settings).protocol
        connection_settings = settings_of(settings, "ottla-doctor", CONNECT_TIMEOUT_S)
    waits = Waits()
    doctor = Doctor(lambda address: SingleLink(address, connection_settings), protocol=protocol, waits=waits)

    async def examine() -> "Diagnosis":
        found: list[Diagnosis] = []
        async with ShownWaits(waits):
            found.append(await doctor.examine(addresses, topics, groups))
        return found[0]

    diagnosis = trio.run(examine)
    if as_json:
        findings = [
            {"subject": each.subject, "well": each.is_well, "text": each.text, "advice": each.advice or None}
            for each in diagnosis.findings
        ]
        click.echo(json.dumps({"well": diagnosis.is_well, "findings": findings}, indent=2))
    else:
        from rich.markup import escape

        from ottla.commands.terminal.console import open_console

        console = open_console()
        for each in diagnosis.findings:
            mark = "[green]✓[/green]" if each.is_well else "[red]✗[/red]"
            console.print(f"{mark} [bold]{escape(each.subject)}[/bold]  {escape(each.text)}")
            if each.advice:
                console.print(f"  → {escape(each.advice)}")
        if diagnosis.is_well:
            console.print(_verdict([f"{each.host}:{each.port}" for each in diagnosis.brokers]))
    if not diagnosis.is_well:
        raise click.exceptions.Exit(1)


def _verdict(addresses: Sequence[str]) -> str:
    return f"\nNothing is wrong. A client here may use bootstrap.servers={','.join(addresses)}"
