"""Settings that supply others' values: the same setting in another unit, or the broker's default of a topic setting."""

from collections.abc import Mapping
from typing import Final, NamedTuple


class Source(NamedTuple):
    """A broker setting that gives another setting its value.

    Attributes:
        name: The broker setting.
        factor: What its value is multiplied by.
    """

    name: str
    factor: int = 1


_MINUTE_MS: Final = 60 * 1000
_HOUR_MS: Final = 60 * _MINUTE_MS

BROKER_SYNONYMS: Final[Mapping[str, tuple[Source, ...]]] = {
    "log.roll.ms": (Source("log.roll.hours", _HOUR_MS),),
    "log.roll.jitter.ms": (Source("log.roll.jitter.hours", _HOUR_MS),),
    "log.retention.ms": (
        Source("log.retention.minutes", _MINUTE_MS),
        Source("log.retention.hours", _HOUR_MS),
    ),
    "log.flush.interval.ms": (Source("log.flush.scheduler.interval.ms"),),
    "log.dirs": (Source("log.dir"),),
    "broker.id": (Source("node.id"),),
    "zookeeper.connection.timeout.ms": (Source("zookeeper.session.timeout.ms"),),
    "advertised.listeners": (Source("listeners"),),
}
"""The settings that a broker setting without a value falls back to, the nearest first."""

TOPIC_DEFAULTS: Final[Mapping[str, str]] = {
    "cleanup.policy": "log.cleanup.policy",
    "compression.gzip.level": "compression.gzip.level",
    "compression.lz4.level": "compression.lz4.level",
    "compression.type": "compression.type",
    "compression.zstd.level": "compression.zstd.level",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "file.delete.delay.ms": "log.segment.delete.delay.ms",
    "flush.messages": "log.flush.interval.messages",
    "flush.ms": "log.flush.interval.ms",
    "index.interval.bytes": "log.index.interval.bytes",
    "local.retention.bytes": "log.local.retention.bytes",
    "local.retention.ms": "log.local.retention.ms",
    "max.compaction.lag.ms": "log.cleaner.max.compaction.lag.ms",
    "max.message.bytes": "message.max.bytes",
    "message.downconversion.enable": "log.message.downconversion.enable",
    "message.format.version": "log.message.format.version",
    "message.timestamp.after.max.ms": "log.message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms": "log.message.timestamp.before.max.ms",
    "message.timestamp.difference.max.ms": "log.message.timestamp.difference.max.ms",
    "message.timestamp.type": "log.message.timestamp.type",
    "min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
    "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
    "min.insync.replicas": "min.insync.replicas",
    "preallocate": "log.preallocate",
    "retention.bytes": "log.retention.bytes",
    "retention.ms": "log.retention.ms",
    "segment.bytes": "log.segment.bytes",
    "segment.index.bytes": "log.index.size.max.bytes",
    "segment.jitter.ms": "log.roll.jitter.ms",
    "segment.ms": "log.roll.ms",
    "unclean.leader.election.enable": "unclean.leader.election.enable",
}
"""The broker setting that gives a topic setting its default."""


def synonyms_of(broker_setting: str) -> tuple[str, ...]:
    """Return the names that can supply a broker setting's value, its own among them, strongest first."""
    for name, sources in BROKER_SYNONYMS.items():
        names = (name, *(source.name for source in sources))
        if broker_setting in names and name.startswith("log.") and name != "log.dirs":
            return names
    return (broker_setting,)
