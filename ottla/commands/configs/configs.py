"""``ottla configs``: kafka-configs' flags, for topics, brokers, their loggers, SCRAM users, and quotas."""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ottla.commands.configs.client_quotas import (
    ADDRESSES,
    CLIENTS,
    PARTS,
    QUOTAS,
    USERS,
    alter_quotas,
    check_pairs,
    clients_as_json,
    completed_line,
    describe_quotas,
    quota_lines,
    read_quotas,
)
from ottla.commands.configs.scram_users import (
    alter_in_zookeeper,
    alter_through_brokers,
    scram_lines,
    scram_users,
)
from ottla.commands.terminal.connecting import common_options, with_admin
from ottla.commands.terminal.failure import CommandError
from ottla.commands.terminal.kafka_style import prints_as_kafka
from ottla.commands.terminal.zookeeper import zookeeper_config_option

if TYPE_CHECKING:
    from ottla.client.admin import Admin, ConfigResource, ConfigValue
    from security.zookeeper_access import ZooKeeperAccess

_TYPES: Final = ("topics", "brokers", "broker-loggers", USERS, CLIENTS, ADDRESSES)
_SHORTCUTS: Final = {
    "topic": "topics",
    "broker": "brokers",
    "broker_logger": "broker-loggers",
    "user": USERS,
    "client": CLIENTS,
    "ip": ADDRESSES,
}
_DEFAULTS: Final = {
    "broker_defaults": "brokers",
    "user_defaults": USERS,
    "client_defaults": CLIENTS,
    "ip_defaults": ADDRESSES,
}


class _ConfigsCommand(click.Command):
    """A command whose ``--entity-default`` is a name among the names, because their order counts."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        named = [("--entity-name=" if each == "--entity-default" else each) for each in args]
        return super().parse_args(ctx, named)


@click.command("configs", cls=_ConfigsCommand)
@click.option("--bootstrap-server", metavar="HOST:PORT,...", help="Brokers to connect to.")
@click.option("--zookeeper", metavar="HOST:PORT[/CHROOT]", help="Of users, before any broker runs.")
@zookeeper_config_option()
@common_options
@click.option("--describe", is_flag=True, help="Show settings.")
@click.option("--alter", is_flag=True, help="Change settings.")
@click.option(
    "--entity-type",
    type=click.Choice(_TYPES),
    multiple=True,
    help="What has the settings; users and clients go together.",
)
@click.option("--entity-name", multiple=True, help="Which one; as often as --entity-type, in its order.")
@click.option("--entity-default", is_flag=True, help="The default of all, in the place of a name.")
@click.option("--topic", help="Short for --entity-type topics --entity-name TOPIC.")
@click.option("--broker", help="Short for --entity-type brokers --entity-name ID.")
@click.option("--user", help="Short for --entity-type users --entity-name USER.")
@click.option("--user-defaults", is_flag=True, help="Short for --entity-type users --entity-default.")
@click.option("--client", help="Short for --entity-type clients --entity-name CLIENT_ID.")
@click.option("--client-defaults", is_flag=True, help="Short for --entity-type clients --entity-default.")
@click.option("--ip", help="Short for --entity-type ips --entity-name ADDRESS.")
@click.option("--ip-defaults", is_flag=True, help="Short for --entity-type ips --entity-default.")
@click.option("--broker-defaults", is_flag=True, help="Short for --entity-type brokers --entity-default.")
@click.option("--broker-logger", help="Short for --entity-type broker-loggers --entity-name ID.")
@click.option(
    "--add-config",
    metavar="NAME=VALUE,...",
    help="Set these; a value with commas stands in brackets: a=[b,c].",
)
@click.option(
    "--add-config-file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Set what this properties file holds.",
)
@click.option("--append-config", metavar="NAME=VALUE,...", help="Add elements to lists.")
@click.option("--subtract-config", metavar="NAME=VALUE,...", help="Take elements out of lists.")
@click.option("--delete-config", metavar="NAME,...", help="Go back to the defaults of these.")
@click.option("--all", "show_all", is_flag=True, help="Show every setting, not only those that were changed.")
@click.option("--dry-run", is_flag=True, help="Have the change checked, and change nothing.")
@click.option("--force", is_flag=True, help="There is nothing to confirm; Kafka's flag.")
def command(
    bootstrap_server: str | None,
    zookeeper: str | None,
    access: "ZooKeeperAccess",
    timeout_s: float,
    command_config: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Show and change settings of topics and brokers, SCRAM credentials of users, and quotas."""
    if options["describe"] == options["alter"]:
        raise click.UsageError("exactly one of --describe and --alter is needed")
    pairs = _entity(options)
    entity_type, name = pairs[0]
    if (bootstrap_server is None) == (zookeeper is None):
        raise click.UsageError("exactly one of --bootstrap-server and --zookeeper is needed")
    if zookeeper is not None:
        if [kind for kind, _ in pairs] != [USERS] or not name or not options["alter"]:
            raise click.UsageError("--zookeeper goes with --alter --entity-type users --entity-name only")
        alter_in_zookeeper(zookeeper, access, name, *_client_changes(options))
        return
    assert bootstrap_server is not None

    async def body(admin: "Admin") -> None:
        if entity_type in PARTS and options["alter"]:
            await _alter_clients(admin, pairs, options)
        elif entity_type in PARTS:
            await _describe_clients(admin, pairs, as_json=as_json)
        elif options["alter"]:
            await _alter(admin, _resource(entity_type, name), options, as_json=as_json)
        else:
            await _describe(admin, entity_type, name, show_all=options["show_all"], as_json=as_json)

    with_admin("configs", bootstrap_server, timeout_s, command_config, body)


def _entity(options: Mapping[str, Any]) -> list[tuple[str, str | None]]:
    """Return the types and names that were asked for; no name means all, and the empty one the default."""
    found: list[tuple[str, str | None]] = [
        (kind, options[short]) for short, kind in _SHORTCUTS.items() if options[short] is not None
    ]
    found += [(kind, "") for flag, kind in _DEFAULTS.items() if options[flag]]
    kinds, names = options["entity_type"], options["entity_name"]
    if found and kinds:
        raise click.UsageError("--entity-type does not go with its short forms")
    if len(names) > len(kinds):
        raise click.UsageError("there are more names of entities than types")
    found += list(itertools.zip_longest(kinds, names))
    if not found:
        raise click.UsageError(
            "an entity is needed: --entity-type with --entity-name or --entity-default, or a short form"
        )
    kind, name = found[0]
    if kind in PARTS:
        check_pairs(found)
    elif len(found) > 1:
        raise click.UsageError(f"{kind} go with no other type")
    if name == "" and kind in ("topics", "broker-loggers"):
        raise click.UsageError(f"{kind} have no default")
    if kind in ("brokers", "broker-loggers") and name and not name.isdigit():
        raise click.UsageError(f"a broker's name is its id, not {name!r}")
    _check_changes(options, found)
    return found


def _check_changes(options: Mapping[str, Any], pairs: Sequence[tuple[str, str | None]]) -> None:
    """Require changes where something is to be altered, and none where it is to be described."""
    changes = [
        options[each]
        for each in (
            "add_config",
            "add_config_file",
            "append_config",
            "subtract_config",
            "delete_config",
        )
    ]
    if options["alter"]:
        if any(name is None for _, name in pairs):
            raise click.UsageError("--alter needs --entity-name or --entity-default")
        if not any(changes):
            raise click.UsageError("--alter needs --add-config, --add-config-file or --delete-config")
        if options["add_config"] and options["add_config_file"]:
            raise click.UsageError("--add-config does not go with --add-config-file")
    elif any(changes) or options["dry_run"]:
        raise click.UsageError("settings are changed with --alter only")


async def _alter_clients(
    admin: "Admin", pairs: Sequence[tuple[str, str | None]], options: Mapping[str, Any]
) -> None:
    """Change the quotas of an entity, and the SCRAM credentials of a user."""
    added, removed = _client_changes(options)
    is_user = [kind for kind, _ in pairs] == [USERS] and bool(pairs[0][1])
    quotas = {name: value for name, value in added.items() if name in QUOTAS or not is_user}
    gone = [name for name in removed if name in QUOTAS or not is_user]
    credentials = {name: value for name, value in added.items() if name not in quotas}
    gone_credentials = [name for name in removed if name not in gone]
    read_quotas(pairs, quotas)  # before anything is changed
    if credentials or gone_credentials:
        if options["dry_run"]:
            raise CommandError("--dry-run checks quotas, not SCRAM credentials")
        await alter_through_brokers(admin, pairs[0][1] or "", credentials, gone_credentials)
    if quotas or gone:
        await alter_quotas(admin, pairs, quotas, gone, dry_run=options["dry_run"])
    click.echo("The change could be made." if options["dry_run"] else completed_line(pairs))


async def _describe_clients(
    admin: "Admin", pairs: Sequence[tuple[str, str | None]], *, as_json: bool
) -> None:
    """Show quotas, and of users alone their SCRAM credentials as well."""
    found = await describe_quotas(admin, pairs)
    shows_users = [kind for kind, _ in pairs] == [USERS] and pairs[0][1] != ""
    users = await scram_users(admin, pairs[0][1]) if shows_users else {}
    if as_json:
        click.echo(clients_as_json(found, users))
        return
    for line in (*quota_lines(found), *scram_lines(users)):
        click.echo(line)


def _client_changes(options: Mapping[str, Any]) -> tuple[dict[str, str], list[str]]:
    """Return the quotas and credentials that are to be set, and the names of those to be removed."""
    if options["append_config"] or options["subtract_config"]:
        raise click.UsageError("quotas and credentials are no lists: use --add-config and --delete-config")
    removed = [name.strip() for name in (options["delete_config"] or "").split(",") if name.strip()]
    return _added(options), removed


def _added(options: Mapping[str, Any]) -> dict[str, str]:
    """Return what is to be set, from the command line or a properties file."""
    if options["add_config_file"] is None:
        return parse_settings(options["add_config"] or "")
    import javaproperties

    with options["add_config_file"].open(encoding="utf-8") as file:
        found: dict[str, str] = javaproperties.load(file)
    return found


def parse_settings(text: str) -> dict[str, str]:
    """Read ``name=value,name=[value,value]``.

    Raises:
        CommandError: it is written otherwise, or a name stands twice.
    """
    settings: dict[str, str] = {}
    for part in _split(text):
        name, equals, value = part.partition("=")
        name = name.strip()
        if not equals or not name:
            raise CommandError(f"{part!r} is not NAME=VALUE")
        if name in settings:
            raise CommandError(f"{name} is given twice")
        value = value.strip()
        settings[name] = value[1:-1] if value.startswith("[") and value.endswith("]") else value
    return settings


def _split(text: str) -> list[str]:
    """Split at the commas that do not stand in brackets."""
    parts, depth = [""], 0
    for character in text:
        if character == "," and depth == 0:
            parts.append("")
            continue
        depth += (character == "[") - (character == "]")
        parts[-1] += character
    if depth != 0:
        raise CommandError(f"the brackets of {text!r} do not match")
    return [part for part in parts if part.strip()]


def _resource(entity_type: str, name: str | None) -> "ConfigResource":
    from ottla.client.admin import ConfigResource, ResourceKind

    kinds = {
        "topics": ResourceKind.TOPIC,
        "brokers": ResourceKind.BROKER,
        "broker-loggers": ResourceKind.BROKER_LOGGER,
    }
    return ConfigResource(kinds[entity_type], name or "")


async def _alter(
    admin: "Admin", resource: "ConfigResource", options: Mapping[str, Any], *, as_json: bool
) -> None:
    import json

    from ottla.client.admin import ConfigChange, ConfigOperation

    changes = []
    added = _added(options)
    changes += [ConfigChange(name, ConfigOperation.SET, value) for name, value in added.items()]
    for option, operation in (
        ("append_config", ConfigOperation.APPEND),
        ("subtract_config", ConfigOperation.SUBTRACT),
    ):
        given = parse_settings(options[option] or "")
        changes += [ConfigChange(name, operation, value) for name, value in given.items()]
    deleted = [name.strip() for name in (options["delete_config"] or "").split(",") if name.strip()]
    if deleted:
        await _require_set(admin, resource, deleted)
    changes += [ConfigChange(name, ConfigOperation.DELETE) for name in deleted]
    await admin.alter_configs({resource: changes}, validate_only=options["dry_run"])
    if as_json:
        done = {"changed": [change.name for change in changes], "dry_run": options["dry_run"]}
        click.echo(json.dumps({"type": resource.kind.name.lower(), "name": resource.name} | done))
        return
    if prints_as_kafka():
        from ottla.commands.kafka_lines.configs import completed_line

        click.echo(completed_line(resource))
        return
    from ottla.client.admin.configs import resource_text

    title = resource_text(resource)
    done_text = "could be changed" if options["dry_run"] else "changed"
    click.echo(f"{title[:1].upper()}{title[1:]}: {', '.join(change.name for change in changes)} {done_text}.")


async def _require_set(admin: "Admin", resource: "ConfigResource", names: Sequence[str]) -> None:
    """Require that settings have values of their own, so that a misspelt name is not taken for done."""
    described = await admin.describe_configs([resource])
    own = {value.name for value in described[resource] if _is_own(resource, value)}
    missing = [name for name in names if name not in own]
    if missing:
        raise CommandError(f"there is nothing to delete, as it is not set: {', '.join(missing)}")


def _is_own(resource: "ConfigResource", value: "ConfigValue") -> bool:
    """Whether a value was set for the very resource that is described."""
    from ottla.client.admin import ConfigSource, ResourceKind

    if resource.kind is ResourceKind.TOPIC:
        return value.source is ConfigSource.DYNAMIC_TOPIC_CONFIG
    if resource.kind is ResourceKind.BROKER_LOGGER:
        return True
    wanted = (
        ConfigSource.DYNAMIC_BROKER_CONFIG if resource.name else ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    )
    # A value of the file or the default may hold where a dynamic one stands behind it, as a synonym.
    return value.source is wanted or any(each.source is wanted for each in value.synonyms)


async def _describe(
    admin: "Admin", entity_type: str, name: str | None, *, show_all: bool, as_json: bool
) -> None:
    from ottla.commands.configs.config_report import report

    if name is not None:
        names = [name]
    elif entity_type == "topics":
        names = await admin.list_topics()
    else:
        names = [str(broker_id) for broker_id in sorted((await admin.refresh()).brokers)]
        names += [""] if entity_type == "brokers" else []
    resources = [_resource(entity_type, each) for each in names]
    described = await admin.describe_configs(resources, synonyms=True) if resources else {}
    if prints_as_kafka():
        from ottla.commands.kafka_lines.configs import resource_lines

        for resource in resources:
            click.echo("\n".join(resource_lines(resource, described[resource], show_all=show_all)))
        return
    report(
        {
            resource: [value for value in described[resource] if show_all or _is_own(resource, value)]
            for resource in resources
        },
        as_json=as_json,
    )
