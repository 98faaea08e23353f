"""The ``ottla`` command. Each subcommand is a module, imported when it is called.

A command that Kafka has, too, may be called by Kafka's name (``ottla kafka-topics``, as the scripts in ``bin/`` and
``scripts/`` do): it then prints what Kafka's tool prints, line by line, for programs that read that.
"""

import importlib
from typing import Final

import click
from click.shell_completion import CompletionItem

from ottla.commands.terminal.kafka_style import print_as_kafka
from ottla.commands.terminal.suggestions import SuggestingGroup

_COMMANDS: Final = {
    "up": ("ottla.commands.local.up", "Start ZooKeeper and a cluster of brokers on this machine."),
    "stop": ("ottla.commands.local.stop", "Stop brokers by a controlled shutdown, or the whole cluster."),
    "kill": ("ottla.commands.local.kill", "Kill brokers, as a crash would; or their hosts."),
    "start": ("ottla.commands.local.start", "Start stopped or killed brokers again."),
    "status": ("ottla.commands.local.status", "Show brokers, controller, partitions, leaders and ISR."),
    "broker": ("ottla.commands.local.broker", "Run one broker in the foreground."),
    "web": ("ottla.commands.web.web", "Serve a web page of a cluster."),
    "topics": ("ottla.commands.topics.topics", "Create, list, describe, alter and delete topics."),
    "groups": ("ottla.commands.groups.groups", "List, describe and delete groups; reset their offsets."),
    "transactions": (
        "ottla.commands.transactions.transactions",
        "List and describe transactions; find and abort hanging ones.",
    ),
    "configs": ("ottla.commands.configs.configs", "Show and change settings of topics and brokers."),
    "acls": ("ottla.commands.security.acls", "Create, delete and show access rules."),
    "delegation-tokens": (
        "ottla.commands.security.delegation_tokens",
        "Make, renew, end and show delegation tokens.",
    ),
    "reassign-partitions": (
        "ottla.commands.reassignment.reassign_partitions",
        "Move partitions to other brokers, and plan it.",
    ),
    "elect-leaders": (
        "ottla.commands.leaders.elect_leaders",
        "Elect preferred or unclean leaders of partitions.",
    ),
    "preferred-leader-election": (
        "ottla.commands.leaders.preferred_leader_election",
        "Give partitions back to their preferred leaders.",
    ),
    "get-offsets": ("ottla.commands.topics.get_offsets", "Look up the offsets of partitions."),
    "delete-records": ("ottla.commands.topics.delete_records", "Delete the first records of partitions."),
    "log-dirs": ("ottla.commands.inspection.log_dirs", "Show what replicas take on the brokers' disks."),
    "dump-log": ("ottla.commands.inspection.dump_log", "Print what is in the files of a log."),
    "verify-replicas": (
        "ottla.commands.diagnosis.verify_replicas",
        "Compare the replicas of partitions, byte by byte.",
    ),
    "broker-api-versions": ("ottla.commands.inspection.broker_api_versions", "Show what each broker serves."),
    "cluster": (
        "ottla.commands.inspection.cluster",
        "Describe a cluster and its controller, by its public protocol.",
    ),
    "console-producer": (
        "ottla.commands.console.console_producer",
        "Send lines of the standard input as records.",
    ),
    "console-consumer": (
        "ottla.commands.console.console_consumer",
        "Write records to the standard output.",
    ),
    "consumer-offset-checker": (
        "ottla.commands.groups.consumer_offset_checker",
        "Show where a group of old consumers is, and who owns what.",
    ),
    "mirror-maker": (
        "ottla.commands.mirroring.mirror_maker",
        "Copy topics to another cluster, with their settings and groups.",
    ),
    "producer-perf-test": (
        "ottla.commands.performance.producer_perf_test",
        "Measure how fast records are produced.",
    ),
    "consumer-perf-test": (
        "ottla.commands.performance.consumer_perf_test",
        "Measure how fast records are consumed.",
    ),
    "end-to-end-latency": (
        "ottla.commands.performance.end_to_end_latency",
        "Measure the time from sending a record to having read it.",
    ),
    "probe": (
        "ottla.commands.diagnosis.probe",
        "Send records through a cluster, time each step, count losses.",
    ),
    "doctor": ("ottla.commands.diagnosis.doctor", "Find out why a cluster cannot be reached."),
    "state-changes": (
        "ottla.commands.inspection.state_changes",
        "Show the brokers' state-change journals, merged.",
    ),
    "explain": (
        "ottla.commands.inspection.explain",
        "Say who took a record, which ISR it was acknowledged by, where it is synced.",
    ),
    "simulate": (
        "ottla.commands.simulation.simulate",
        "Run simulated clusters under random faults, by the thousand.",
    ),
    "zookeeper-shell": ("ottla.commands.inspection.zookeeper_shell", "Look at the znodes of a cluster."),
    "zookeeper-security-migration": (
        "ottla.commands.security.zookeeper_security_migration",
        "Protect the znodes of a cluster by access control lists, or open them.",
    ),
    "completion": ("ottla.commands.shell.completion", "Print the script that completes commands in a shell."),
    "pipeline": ("ottla.commands.pipeline", "Spark jobs: topics to tables and back, and checks of topics."),
}


_KAFKA_NAMES: Final = {
    "kafka-acls": "acls",
    "kafka-broker-api-versions": "broker-api-versions",
    "kafka-cluster": "cluster",
    "kafka-configs": "configs",
    "kafka-console-consumer": "console-consumer",
    "kafka-console-producer": "console-producer",
    "kafka-consumer-groups": "groups",
    "kafka-consumer-offset-checker": "consumer-offset-checker",
    "kafka-consumer-perf-test": "consumer-perf-test",
    "kafka-delegation-tokens": "delegation-tokens",
    "kafka-delete-records": "delete-records",
    "kafka-dump-log": "dump-log",
    "kafka-get-offsets": "get-offsets",
    "kafka-leader-election": "elect-leaders",
    "kafka-log-dirs": "log-dirs",
    "kafka-mirror-maker": "mirror-maker",
    "kafka-preferred-replica-election": "preferred-leader-election",
    "kafka-producer-perf-test": "producer-perf-test",
    "kafka-reassign-partitions": "reassign-partitions",
    "kafka-replica-verification": "verify-replicas",
    "kafka-topics": "topics",
    "kafka-transactions": "transactions",
}
"""Kafka's tools, and the commands that are called so."""


class _LazyGroup(SuggestingGroup):
    """A group that knows the names and one line of each subcommand, and imports the one that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(_COMMANDS)

    def names_alike(self) -> dict[str, str]:
        # A tool's name without its prefix is what people type who know Kafka.
        return {name.removeprefix("kafka-"): called for name, called in _KAFKA_NAMES.items()}

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _KAFKA_NAMES:
            print_as_kafka(ctx)
        entry = _COMMANDS.get(_KAFKA_NAMES.get(cmd_name, cmd_name))
        if entry is None:
            return None
        command = importlib.import_module(entry[0]).command
        assert isinstance(command, click.Command)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        # As click does it, but without an import of every command for its line.
        named = [
            CompletionItem(name, help=line)
            for name, (_, line) in _COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return [*named, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in _COMMANDS.items()])


@click.command(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="ottla")
def main() -> None:
    """Ottla: a Kafka cluster in Python."""
