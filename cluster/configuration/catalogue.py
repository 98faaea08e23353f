"""Every known setting by name, and the nearest one to an unknown name."""

from collections.abc import Iterable, Mapping
from functools import cache

from cluster.configuration.setting import Setting, read_table
from cluster.configuration.tables import (
    administration,
    coordination,
    dynamic,
    log,
    network,
    own,
    replication,
    security,
    topic,
    unserved,
)


@cache
def broker_settings() -> Mapping[str, Setting]:
    """Return every setting that a broker's file may hold, by name."""
    tables = (network, log, replication, coordination, administration, own, security, unserved)
    return {setting.name: setting for table in tables for setting in read_table(table.TABLE)}


@cache
def dynamic_settings() -> Mapping[str, Setting]:
    """Return the broker settings that exist in ZooKeeper only, by name."""
    return {setting.name: setting for setting in read_table(dynamic.TABLE)}


@cache
def topic_settings() -> Mapping[str, Setting]:
    """Return every setting of a topic, by name."""
    return {setting.name: setting for setting in read_table(topic.TABLE)}


def nearest_name(name: str, known: Iterable[str] | None = None) -> str | None:
    """Return the known setting most similar to an unknown name, or None if none is similar.

    Args:
        name: The unknown name.
        known: The names to compare with; by default those of brokers.
    """
    from difflib import get_close_matches  # imported only for a wrong name: it costs start-up time

    matches = get_close_matches(name, broker_settings() if known is None else known, n=1, cutoff=0.75)
    return matches[0] if matches else None
