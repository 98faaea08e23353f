"""``ottla reassign-partitions``: kafka-reassign-partitions' flags, and plans of its own.

Beyond Kafka's tool: ``--plan`` proposes the fewest moves; ``--execute`` follows the moves to their end unless
``--no-wait`` is given; a throttle is set unless ``--throttle -1`` is given, and a process of its own takes it away
when the moves are over (see `reassignment_keeper`). ``--verify`` exits with 2 while something still moves. "log_dirs"
in the file moves replicas between the directories of their brokers; their throttle is taken away when they are followed
to their end, and by ``--verify``. By Kafka's name, it does as Kafka's tool: no throttle unless one is given, no
waiting, and nothing in the exit code of ``--verify``.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from ottla.commands.inspection.log_dirs import parse_broker_ids
from ottla.commands.reassignment import actions
from ottla.commands.reassignment.throttle import DEFAULT_RATE
from ottla.commands.terminal.connecting import cluster_options, with_admin
from ottla.commands.terminal.kafka_style import prints_as_kafka

_ACTIONS: Final = ("plan", "generate", "execute", "verify", "cancel", "list")
_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)

# Which actions each option goes with; the others go with any. A plan may be executed at once.
_GOES_WITH: Final[Mapping[str, tuple[str, ...]]] = {
    "topics_to_move_json_file": ("generate",),
    "broker_list": ("generate",),
    "disable_rack_aware": ("generate", "plan"),
    "reassignment_json_file": ("execute", "verify", "cancel"),
    "throttle": ("execute",),
    "replica_alter_log_dirs_throttle": ("execute",),
    "additional": ("execute",),
    "no_wait": ("execute",),
    "dry_run": ("execute", "plan"),
    "preserve_throttles": ("verify", "cancel"),
    "add_brokers": ("plan",),
    "remove_brokers": ("plan",),
    "rebalance": ("plan",),
    "output_json_file": ("plan", "generate"),
}
_NEEDS: Final[Mapping[str, tuple[str, ...]]] = {
    "generate": ("topics_to_move_json_file", "broker_list"),
    "execute": ("reassignment_json_file",),
    "verify": ("reassignment_json_file",),
    "cancel": ("reassignment_json_file",),
}


@click.command("reassign-partitions")
@cluster_options
@click.option("--plan", is_flag=True, help="Propose the fewest moves; with --execute, carry them out.")
@click.option("--generate", is_flag=True, help="Propose a new placement of topics, as Kafka's tool does.")
@click.option("--execute", is_flag=True, help="Move partitions.")
@click.option("--verify", is_flag=True, help="Show whether moves are over, and take throttles away if so.")
@click.option("--cancel", is_flag=True, help="Move partitions back where they were.")
@click.option("--list", "list_", is_flag=True, help="List what is being moved.")
@click.option("--add-brokers", metavar="ID,...", help="With --plan: give these brokers their share.")
@click.option("--remove-brokers", metavar="ID,...", help="With --plan: empty these brokers.")
@click.option("--rebalance", is_flag=True, help="With --plan: even out all brokers.")
@click.option("--topics-to-move-json-file", type=_FILE, help='{"topics": [{"topic": "a"}], "version": 1}')
@click.option("--broker-list", metavar="ID,...", help="With --generate: the brokers to place topics on.")
@click.option(
    "--reassignment-json-file",
    type=_FILE,
    help='{"version": 1, "partitions": [{"topic": "a", "partition": 0, "replicas": [1, 2]}]}',
)
@click.option(
    "--output-json-file", type=click.Path(path_type=Path, dir_okay=False), help="Write the proposal."
)
@click.option("--disable-rack-aware", is_flag=True, help="Let replicas share a rack.")
@click.option(
    "--throttle",
    type=click.IntRange(min=-1),
    help=f"Bytes a second of each broker; -1 for no throttle.  [default: {DEFAULT_RATE}]",
)
@click.option(
    "--replica-alter-log-dirs-throttle",
    type=click.IntRange(min=-1),
    help="Bytes a second that each broker copies between its directories; -1 for no throttle.  [default: -1]",
)
@click.option("--additional", is_flag=True, help="Move although other moves go on, or change their throttle.")
@click.option("--preserve-throttles", is_flag=True, help="Leave throttles in place.")
@click.option("--no-wait", is_flag=True, help="Begin the moves, and do not follow them.")
@click.option("--dry-run", is_flag=True, help="Show what would be moved, and move nothing.")
def command(
    bootstrap_server: str,
    timeout_s: float,
    command_config: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Move partitions to other brokers, and plan it."""
    options["list"] = options.pop("list_")
    action = _action(options)
    options |= {"as_json": as_json, "bootstrap_server": bootstrap_server, "timeout_s": timeout_s}
    options["command_config"] = command_config
    if prints_as_kafka() and not options["plan"]:
        options["no_wait"] = True
        options["throttle"] = -1 if options["throttle"] is None else options["throttle"]
    for name in ("add_brokers", "remove_brokers", "broker_list"):
        options[name] = parse_broker_ids(options[name])
    run = actions.RUN[action]
    try:
        code = with_admin(
            "reassign-partitions",
            bootstrap_server,
            timeout_s,
            command_config,
            lambda admin: run(admin, options),
        )
    except KeyboardInterrupt:
        if options["execute"]:
            click.echo("\nWhat has begun goes on, and its throttle goes with it: see --list.", err=True)
        raise
    if code:
        raise click.exceptions.Exit(code)


def _action(options: Mapping[str, Any]) -> str:
    given = [action for action in _ACTIONS if options[action]]
    if len(given) != 1 and given != ["plan", "execute"]:
        raise click.UsageError(
            "exactly one of --plan, --generate, --execute, --verify, --cancel and --list is needed, "
            "or --plan with --execute"
        )
    for option, goes_with in _GOES_WITH.items():
        if options[option] not in (None, False) and not set(given) & set(goes_with):
            raise click.UsageError(f"--{option.replace('_', '-')} does not go with --{given[0]}")
    if given[0] == "plan":
        goals = [options["add_brokers"], options["remove_brokers"], options["rebalance"] or None]
        if sum(goal is not None for goal in goals) != 1:
            raise click.UsageError(
                "--plan needs exactly one of --add-brokers, --remove-brokers and --rebalance"
            )
        if options["reassignment_json_file"] is not None:
            raise click.UsageError("--reassignment-json-file does not go with --plan")
        return "plan"
    for option in _NEEDS.get(given[0], ()):
        if options[option] is None:
            raise click.UsageError(f"--{given[0]} needs --{option.replace('_', '-')}")
    return given[0]
