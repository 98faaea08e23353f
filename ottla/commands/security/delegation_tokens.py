"""``ottla delegation-tokens``: kafka-delegation-tokens' flags."""

import base64
import binascii
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ottla.commands.kafka_lines.tokens import created_lines, described_lines, ended_lines
from ottla.commands.terminal.connecting import cluster_options, with_admin
from ottla.commands.terminal.failure import CommandError
from ottla.commands.terminal.kafka_style import prints_as_kafka

if TYPE_CHECKING:
    from ottla.client.admin import Admin
    from ottla.client.admin.tokens import TokenDescription


@click.command("delegation-tokens")
@cluster_options
@click.option("--create", is_flag=True, help="Make a token.")
@click.option("--renew", is_flag=True, help="Have a token hold longer.")
@click.option("--expire", is_flag=True, help="End a token.")
@click.option("--describe", is_flag=True, help="Show the tokens that you may see, with their HMACs.")
@click.option("--owner-principal", multiple=True, metavar="TYPE:NAME", help="The tokens' owner.")
@click.option(
    "--renewer-principal", multiple=True, metavar="TYPE:NAME", help="With --create: who may renew it."
)
@click.option(
    "--max-life-time-period", type=int, metavar="MS", help="With --create; -1 is the brokers' limit."
)
@click.option("--renew-time-period", type=int, metavar="MS", help="With --renew; -1 is the brokers' own.")
@click.option("--expiry-time-period", type=int, metavar="MS", help="With --expire; -1 is now.")
@click.option("--hmac", metavar="BASE64", help="The HMAC of the token to renew or expire.")
def command(
    bootstrap_server: str,
    timeout_s: float,
    command_config: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Make, renew, end and show delegation tokens, over an authenticated connection."""
    if sum((options["create"], options["renew"], options["expire"], options["describe"])) != 1:
        raise click.UsageError("exactly one of --create, --renew, --expire and --describe is needed")
    _check(options)

    async def body(admin: "Admin") -> None:
        if options["create"]:
            owners = [_principal(each) for each in options["owner_principal"]]
            token = await admin.create_token(
                [_principal(each) for each in options["renewer_principal"]],
                options["max_life_time_period"],
                owners[0] if owners else None,
            )
            if prints_as_kafka():
                lines = created_lines(token, options["renewer_principal"], options["max_life_time_period"])
                click.echo("\n".join(lines))
            else:
                _show([token], as_json=as_json)
        elif options["describe"]:
            owners = [_principal(each) for each in options["owner_principal"]]
            tokens = await admin.describe_tokens(owners or None)
            if prints_as_kafka():
                click.echo("\n".join(described_lines(tokens, options["owner_principal"])))
            else:
                _show(tokens, as_json=as_json)
        elif options["renew"]:
            ends_ms = await admin.renew_token(_hmac(options["hmac"]), options["renew_time_period"])
            _show_end("renew", options["hmac"], options["renew_time_period"], ends_ms, as_json=as_json)
        else:
            ends_ms = await admin.expire_token(_hmac(options["hmac"]), options["expiry_time_period"])
            _show_end("expire", options["hmac"], options["expiry_time_period"], ends_ms, as_json=as_json)

    with_admin("delegation-tokens", bootstrap_server, timeout_s, command_config, body)


def _check(options: dict[str, Any]) -> None:
    needed = {
        "create": ("max_life_time_period",),
        "renew": ("hmac", "renew_time_period"),
        "expire": ("hmac", "expiry_time_period"),
        "describe": (),
    }
    for action, names in needed.items():
        if options[action]:
            missing = [name for name in names if options[name] is None]
            if missing:
                raise click.UsageError(f"--{action} needs --{missing[0].replace('_', '-')}")
    if options["create"] and len(options["owner_principal"]) > 1:
        raise click.UsageError("a token has one owner")


def _principal(text: str) -> tuple[str, str]:
    kind, colon, name = text.partition(":")
    if not (colon and kind and name):
        raise CommandError(f"a principal is TYPE:NAME, not {text!r}")
    return kind, name


def _hmac(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise CommandError("the HMAC is not in base64") from None


def _show(tokens: "Sequence[TokenDescription]", *, as_json: bool) -> None:
    import json

    from ottla.commands.terminal.console import new_table, open_console

    rows = [
        {
            "token_id": token.token_id,
            "hmac": base64.b64encode(token.hmac).decode(),
            "owner": token.owner,
            "requester": token.requester,
            "renewers": ", ".join(token.renewers),
            "issued": _time(token.issued_ms),
            "expires": _time(token.expires_ms),
            "renewable_until": _time(token.max_ms),
        }
        for token in tokens
    ]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    if not rows:
        click.echo("There are no tokens that you may see.")
        return
    table = new_table(
        "Token", "HMAC", "Owner", "Requester", "Renewers", "Issued", "Expires", "Renewable until"
    )
    for row in rows:
        table.add_row(*(cell.replace("[", "\\[") for cell in row.values()))
    open_console().print(table)


def _show_end(operation: str, hmac: str, period_ms: int, ends_ms: int, *, as_json: bool) -> None:
    import json

    if prints_as_kafka():
        click.echo("\n".join(ended_lines(operation, hmac, period_ms, ends_ms)))
    elif as_json:
        click.echo(json.dumps({"expires": _time(ends_ms)}))
    else:
        click.echo(f"The token expires at {_time(ends_ms)}.")


def _time(wall_ms: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(wall_ms / 1000, UTC).isoformat(timespec="milliseconds")
