"""``ottla explain``: what became of one record: who took it, which ISR acknowledged it, and where it is on disk.

From files alone, so that it works for a cluster that is down: the replicas' segments and epoch caches, the checkpoints
of their log directories, and the journals of state changes.
"""

import json
import re
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from ottla.commands.inspection.state_changes import Event, JournalReader, journal_files, line_of
from ottla.commands.local.cluster_directory import ClusterDirectory
from ottla.commands.terminal.choice import data_option
from ottla.commands.terminal.failure import CommandError, failing_on
from ottla.log_dump.failure import DumpError
from ottla.log_dump.replica_record import ReplicaRecord, read_replica

_PARTITION: Final = re.compile(r"(.+)-(\d+)")
_BROKER_ID: Final = re.compile(r"^broker\.id=(\d+)\s*$", re.MULTILINE)


class Replica(NamedTuple):
    """A replica that was found; the broker is -1 where its log directory does not say whose it is."""

    broker: int
    record: ReplicaRecord


@click.command("explain")
@click.argument("topic_partition", metavar="TOPIC-PARTITION")
@click.argument("offset", type=click.IntRange(0))
@data_option
@click.option("--logs", metavar="DIR,...", help="Log directories of brokers, instead of --data.")
@click.option("--json", "as_json", is_flag=True, help="Print an object, for programs.")
def command(topic_partition: str, offset: int, data: Path, logs: str | None, as_json: bool) -> None:
    """Say who took a record, which ISR it was acknowledged by, and where it is synced.

    Brokers may run meanwhile; what they have not noted in their checkpoints yet is not known here. Exits with 1 where
    no replica has the record.
    """
    found = _PARTITION.fullmatch(topic_partition)
    if found is None:
        raise CommandError(f"{topic_partition!r} is no partition: TOPIC-PARTITION, as in orders-0")
    topic, partition = found[1], int(found[2])
    directories = (
        [Path(part) for part in logs.split(",")]
        if logs
        else [broker.path / "logs" for broker in ClusterDirectory(data).require().brokers]
    )
    with failing_on(DumpError, OSError, ValueError):
        replicas = [
            Replica(
                _broker_of(directory), read_replica(directory / topic_partition, topic, partition, offset)
            )
            for directory in directories
            if (directory / topic_partition).is_dir()
        ]
    if not replicas:
        raise CommandError(f"no replica of {topic_partition} is in {', '.join(map(str, directories))}")
    events = _events(directories, topic, partition)
    found_in = explanation(replicas, events)
    if as_json:
        click.echo(
            json.dumps({"topic": topic, "partition": partition, "offset": offset, **found_in}, indent=2)
        )
    else:
        click.echo(f"{topic_partition}, offset {offset}")
        for line in lines(events, found_in):
            click.echo(line)
    if found_in["leader_epoch"] is None:
        sys.exit(1)


def explanation(replicas: Sequence[Replica], events: Sequence[Event]) -> dict[str, Any]:
    """Return what is known, as plain values.

    Args:
        replicas: Those that were found.
        events: The partition's, by time.
    """
    batches = [each.record.batch for each in replicas if each.record.batch is not None]
    headers = [batch.header for batch in batches if batch.header is not None]
    # Where replicas differ, the newest epoch's batch is what the leader has: the others are still to be truncated.
    header = max(headers, key=lambda each: each.partition_leader_epoch, default=None)
    epoch = None if header is None else header.partition_leader_epoch
    in_epoch = [event for event in events if event.get("leader_epoch") == epoch and epoch is not None]
    at = None if header is None else header.max_timestamp
    return {
        "leader_epoch": epoch,
        "leader": _leader(in_epoch),
        "isr": None if at is None else _isr_at(in_epoch, at),
        "batch": None
        if header is None
        else {
            "base_offset": header.base_offset,
            "last_offset": header.last_offset,
            "timestamp": at,
            "crc": header.crc,
            "producer_id": header.producer_id,
            "producer_epoch": header.producer_epoch,
            "base_sequence": header.base_sequence,
        },
        "replicas": [
            {
                "broker": broker,
                "segment": None if record.segment is None else str(record.segment),
                "position": None if record.batch is None else record.batch.position,
                "same": record.batch is not None
                and header is not None
                and record.batch.header is not None
                and (record.batch.crc, record.batch.header.partition_leader_epoch) == (header.crc, epoch),
                "valid": record.batch is not None and record.batch.is_valid,
                "synced": record.is_synced,
                "epoch_start": record.epoch_start,
                "log_end": record.log_end,
                "recovery_point": record.recovery_point,
                "high_watermark": record.high_watermark,
            }
            for broker, record in replicas
        ],
    }


def lines(events: Sequence[Event], known: dict[str, Any]) -> Iterator[str]:
    """Yield an explanation for people, with the events that it rests on."""
    batch = known["batch"]
    if batch is not None:
        leader = "an unknown leader" if known["leader"] is None else f"broker {known['leader']}"
        at = datetime.fromtimestamp(max(batch["timestamp"], 0) / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[
            :-3
        ]
        yield f"Taken by {leader} in leader epoch {known['leader_epoch']}, at {at}"
        producer = (
            "no producer id"
            if batch["producer_id"] < 0
            else f"producer {batch['producer_id']}, epoch {batch['producer_epoch']}, sequence {batch['base_sequence']}"
        )
        yield f"  batch of the offsets {batch['base_offset']} to {batch['last_offset']}, {producer}"
        isr = known["isr"]
        yield f"  ISR then: {'not in the journals' if isr is None else ', '.join(map(str, isr))}"
        yield ""
    yield "Replicas"
    for each in known["replicas"]:
        yield f"  broker {each['broker']}  {_state(each)}"
    relevant = [
        e for e in events if known["leader_epoch"] is not None and _is_about(e, known["leader_epoch"])
    ]
    if relevant:
        yield ""
        yield "From the journals"
        for event in relevant:
            yield f"  {line_of(event)}"


def _state(replica: dict[str, Any]) -> str:
    if replica["segment"] is None:
        return f"does not have it: its log ends at {replica['log_end']}"
    place = f"{Path(replica['segment']).name} at byte {replica['position']}"
    if not replica["valid"]:
        return f"{place}: damaged, its checksum is wrong"
    if not replica["same"]:
        return f"{place}: another batch, which is not the leader's"
    point = replica["recovery_point"]
    synced = (
        f"synced (recovery point {point})"
        if replica["synced"]
        else f"not known to be synced (recovery point {'not noted' if point is None else point})"
    )
    return f"{place}, {synced}, high watermark noted {replica['high_watermark']}"


def _is_about(event: Event, epoch: int) -> bool:
    """Whether an event is of an epoch, or of the one that ended it."""
    return event.get("leader_epoch") in (epoch, epoch + 1)


def _leader(events: Sequence[Event]) -> int | None:
    for event in events:
        if event.get("kind") == "role" and event.get("role") == "leader":
            return int(event["broker"])
        if event.get("kind") == "partition" and event.get("leader", -1) >= 0:
            return int(event["leader"])
    return None


def _isr_at(events: Sequence[Event], at: int) -> list[int] | None:
    """Return the ISR of an epoch at a time by the producer's clock; the epoch's first where that is before it."""
    known = [event for event in events if "isr" in event]
    before = [event for event in known if event.get("at", 0) <= at]
    chosen = before[-1] if before else known[0] if known else None
    return None if chosen is None else [int(each) for each in chosen["isr"]]


def _events(directories: Sequence[Path], topic: str, partition: int) -> list[Event]:
    readers = [JournalReader(path) for path in journal_files(directories)]
    found = [
        event
        for reader in readers
        for event in reader.read()
        if (event.get("topic"), event.get("partition")) == (topic, partition)
    ]
    for reader in readers:
        if reader.damage is not None:
            click.echo(reader.damage, err=True)
    return sorted(found, key=lambda event: (event.get("at", 0), event.get("broker", -1), event.get("n", 0)))


def _broker_of(directory: Path) -> int:
    try:
        found = _BROKER_ID.search((directory / "meta.properties").read_text())
    except FileNotFoundError:
        return -1
    return -1 if found is None else int(found[1])
