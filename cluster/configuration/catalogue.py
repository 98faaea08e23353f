"""Every setting that is known, by name, and what is made of a name that is not."""

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
    """Return the broker settings that are held in ZooKeeper only, by name."""
    return {setting.name: setting for setting in read_table(dynamic.TABLE)}


@cache
def topic_settings() -> Mapping[str, Setting]:
    """Return every setting of a topic, by name."""
    return {setting.name: setting for setting in read_table(topic.TABLE)}


def nearest_name(name: str, known: Iterable[str] | None = None) -> str | None:
    """Return the known setting that an unknown name is most like, or None where nothing is near.

    Args:
        name: What is unknown.
        known: The names that there are; those of brokers by default.
    """
    from difflib import get_close_matches  # only where a name is wrong: it costs start-up time

    matches = get_close_matches(name, broker_settings() if known is None else known, n=1, cutoff=0.75)
    return matches[0] if matches else None
