"""``ottla acls``: kafka-acls' flags."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ottla.commands.kafka_lines.acls import added_lines, current_lines, principal_line
from ottla.commands.terminal.connecting import cluster_options, with_admin
from ottla.commands.terminal.kafka_style import prints_as_kafka
from wire.acl_codes import (
    OPERATIONS_OF,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    from_pascal,
    pascal,
)

if TYPE_CHECKING:
    from ottla.client.admin import Admin
    from ottla.client.admin.acls import Acl, AclSelection

_CLUSTER: Final = "kafka-cluster"
_EVERYWHERE: Final = "*"
_OPTIONS: Final = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional_id": ResourceType.TRANSACTIONAL_ID,
    "delegation_token": ResourceType.DELEGATION_TOKEN,
    "user_principal": ResourceType.USER,
}
Resource = tuple[ResourceType, str]


@click.command("acls")
@cluster_options
@click.option("--add", is_flag=True, help="Create rules.")
@click.option("--remove", is_flag=True, help="Delete rules.")
@click.option("--list", "list_", is_flag=True, help="Show rules.")
@click.option("--topic", multiple=True, help="A topic; * is all.")
@click.option("--group", multiple=True, help="A consumer group; * is all.")
@click.option("--cluster", is_flag=True, help="The cluster itself.")
@click.option("--transactional-id", multiple=True, help="A transactional id; * is all.")
@click.option("--delegation-token", multiple=True, help="A delegation token's id; * is all.")
@click.option("--user-principal", multiple=True, help="A user, as User:name, whose tokens the rule is about.")
@click.option(
    "--resource-pattern-type",
    type=click.Choice(["any", "match", "literal", "prefixed"], case_sensitive=False),
    default="literal",
    show_default=True,
    help="How names are compared; any and match for --list and --remove only.",
)
@click.option("--allow-principal", multiple=True, metavar="TYPE:NAME", help="Allow this principal.")
@click.option("--deny-principal", multiple=True, metavar="TYPE:NAME", help="Deny this principal.")
@click.option("--principal", multiple=True, metavar="TYPE:NAME", help="With --list: rules of this principal.")
@click.option("--allow-host", multiple=True, help="From where --allow-principal may; everywhere by default.")
@click.option(
    "--deny-host", multiple=True, help="From where --deny-principal may not; everywhere by default."
)
@click.option("--operation", multiple=True, help="Read, Write, DescribeConfigs, ...; All by default.")
@click.option("--producer", is_flag=True, help="What a producer to --topic needs.")
@click.option("--consumer", is_flag=True, help="What a consumer of --topic in --group needs.")
@click.option("--idempotent", is_flag=True, help="With --producer: idempotence on older clusters.")
@click.option("--force", is_flag=True, help="Ask nothing.")
def command(
    bootstrap_server: str,
    timeout_s: float,
    command_config: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Create, delete and show access rules."""
    if sum((options["add"], options["remove"], options["list_"])) != 1:
        raise click.UsageError("exactly one of --add, --remove and --list is needed")
    _check(options)

    async def body(admin: "Admin") -> None:
        if options["add"]:
            added = rules_to_add(options)
            await admin.create_acls(added)
            if prints_as_kafka():
                click.echo("\n".join(added_lines(added)))
            else:
                _show(added, "created", as_json=as_json)
        elif options["remove"]:
            selections = selections_to_remove(options)
            if not options["force"]:
                click.confirm("Delete the selected rules?", abort=True, err=True)
            deleted = await admin.delete_acls(selections)
            if not prints_as_kafka():
                _show(deleted, "deleted", as_json=as_json)
        else:
            found: dict[Acl, None] = {}
            for selection in selections_to_list(options):
                found |= dict.fromkeys(await admin.list_acls(selection))
            if prints_as_kafka():
                _show_as_kafka(sorted(found), options["principal"])
            else:
                _show(sorted(found), "", as_json=as_json)

    with_admin("acls", bootstrap_server, timeout_s, command_config, body)


def _check(options: Mapping[str, Any]) -> None:
    pattern = PatternType[options["resource_pattern_type"].upper()]
    if options["add"] and pattern not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise click.UsageError("--add needs a --resource-pattern-type of literal or prefixed")
    resources = _resources(options)
    if not resources and not options["list_"]:
        raise click.UsageError("a resource is needed: --topic, --group, --cluster, --transactional-id, ...")
    if options["add"] and not (options["allow_principal"] or options["deny_principal"]):
        raise click.UsageError("--add needs --allow-principal or --deny-principal")
    for kind in ("allow", "deny"):
        if options[f"{kind}_host"] and not options[f"{kind}_principal"]:
            raise click.UsageError(f"--{kind}-host needs --{kind}-principal")
    if options["producer"] and not options["topic"]:
        raise click.UsageError("--producer needs --topic")
    if options["consumer"] and not (options["topic"] and options["group"]):
        raise click.UsageError("--consumer needs --topic and --group")
    if options["idempotent"] and not options["producer"]:
        raise click.UsageError("--idempotent needs --producer")
    if options["producer"] or options["consumer"]:
        if options["operation"] or options["deny_principal"]:
            raise click.UsageError("--producer and --consumer say which operations, and only allow")
        return
    for operation in _operations(options):
        for resource_type in dict.fromkeys(each for each, _ in resources):
            if operation is not Operation.ALL and operation not in OPERATIONS_OF[resource_type]:
                known = ", ".join(pascal(each) for each in OPERATIONS_OF[resource_type])
                raise click.UsageError(
                    f"{pascal(operation)} is no operation on a {pascal(resource_type)}: they are {known}"
                )


def _resources(options: Mapping[str, Any]) -> list[Resource]:
    found = [(kind, name) for option, kind in _OPTIONS.items() for name in options[option]]
    if options["cluster"] or (options["idempotent"] and not options["list_"]):
        found.append((ResourceType.CLUSTER, _CLUSTER))
    return found


def _operations(options: Mapping[str, Any]) -> list[Operation]:
    operations = []
    for text in options["operation"]:
        operation = from_pascal(Operation, text)
        if operation is None:
            raise click.UsageError(
                f"{text!r} is no operation: {', '.join(pascal(each) for each in Operation)}"
            )
        operations.append(operation)
    return operations or [Operation.ALL]


def _needed(options: Mapping[str, Any]) -> dict[Resource, set[Operation]]:
    """Return the operations on each resource that the options speak of."""
    needed: dict[Resource, set[Operation]] = {}
    if not (options["producer"] or options["consumer"]):
        return {resource: set(_operations(options)) for resource in _resources(options)}
    write, read, describe = Operation.WRITE, Operation.READ, Operation.DESCRIBE
    for name in options["topic"]:
        operations = needed.setdefault((ResourceType.TOPIC, name), {describe})
        if options["producer"]:
            operations |= {write, Operation.CREATE}
        if options["consumer"]:
            operations.add(read)
    if options["producer"]:
        for name in options["transactional_id"]:
            needed[ResourceType.TRANSACTIONAL_ID, name] = {write, describe}
        if options["idempotent"]:
            needed[ResourceType.CLUSTER, _CLUSTER] = {Operation.IDEMPOTENT_WRITE}
    if options["consumer"]:
        for name in options["group"]:
            needed[ResourceType.GROUP, name] = {read}
    return needed


def _principals(options: Mapping[str, Any]) -> list[tuple[str, str, Permission]]:
    found = []
    for kind, permission in (("allow", Permission.ALLOW), ("deny", Permission.DENY)):
        for principal in options[f"{kind}_principal"]:
            if ":" not in principal.strip(":"):
                raise click.UsageError(f"a principal is TYPE:NAME, not {principal!r}")
            hosts = options[f"{kind}_host"] or (_EVERYWHERE,)
            found += [(principal, host, permission) for host in hosts]
    return found


def rules_to_add(options: Mapping[str, Any]) -> "list[Acl]":
    """Return the rules that the options ask to create."""
    from ottla.client.admin.acls import Acl

    pattern = PatternType[options["resource_pattern_type"].upper()]
    return sorted(
        Acl(
            kind,
            name,
            PatternType.LITERAL if kind is ResourceType.CLUSTER else pattern,
            principal,
            host,
            operation,
            permission,
        )
        for (kind, name), operations in _needed(options).items()
        for operation in operations
        for principal, host, permission in _principals(options)
    )


def selections_to_remove(options: Mapping[str, Any]) -> "list[AclSelection]":
    """Return what the options ask to delete: all rules of the resources, where no principal is named."""
    from ottla.client.admin.acls import AclSelection

    pattern = PatternType[options["resource_pattern_type"].upper()]
    principals = _principals(options)
    if not principals and not (options["producer"] or options["consumer"]):
        return [AclSelection(kind, name, _pattern_of(kind, pattern)) for kind, name in _needed(options)]
    named: list[tuple[str | None, str | None, Permission | None]] = [*principals] or [(None, None, None)]
    return [
        AclSelection(kind, name, _pattern_of(kind, pattern), principal, host, operation, permission)
        for (kind, name), operations in _needed(options).items()
        for operation in sorted(operations)
        for principal, host, permission in named
    ]


def selections_to_list(options: Mapping[str, Any]) -> "list[AclSelection]":
    """Return what the options ask to show: every rule, where no resource is named."""
    from ottla.client.admin.acls import AclSelection

    pattern = PatternType[options["resource_pattern_type"].upper()]
    principals = options["principal"] or (None,)
    resources = _resources(options)
    if not resources:
        return [AclSelection(principal=principal) for principal in principals]
    return [
        AclSelection(kind, name, _pattern_of(kind, pattern), principal)
        for kind, name in resources
        for principal in principals
    ]


def _pattern_of(kind: ResourceType, pattern: PatternType) -> PatternType:
    return PatternType.LITERAL if kind is ResourceType.CLUSTER else pattern


def _show_as_kafka(acls: "Sequence[Acl]", principals: Sequence[str]) -> None:
    if not principals:
        click.echo("\n".join(current_lines(acls)))
    for principal in principals:
        click.echo(principal_line(principal))
        click.echo("\n".join(current_lines([acl for acl in acls if acl.principal == principal])))


def _show(acls: "Sequence[Acl]", done: str, *, as_json: bool) -> None:
    import json

    from ottla.commands.terminal.console import new_table, open_console

    rows = [
        {
            "resource_type": pascal(acl.resource_type),
            "name": acl.name,
            "pattern_type": acl.pattern_type.name.lower(),
            "principal": acl.principal,
            "host": acl.host,
            "operation": pascal(acl.operation),
            "permission": pascal(acl.permission),
        }
        for acl in acls
    ]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    if not rows:
        click.echo(f"No rules {done}." if done else "There are no such rules.")
        return
    table = new_table("Resource", "Name", "Pattern", "Principal", "Host", "Operation", "Permission")
    for row in rows:
        table.add_row(*(text.replace("[", "\\[") for text in row.values()))
    open_console().print(table)
    if done:
        click.echo(f"{len(rows)} {'rule' if len(rows) == 1 else 'rules'} {done}.")
