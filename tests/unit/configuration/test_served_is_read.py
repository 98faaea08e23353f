"""Every setting that the tables mark as served is read somewhere: none is accepted and then ignored."""

import re
import typing
from functools import cache
from pathlib import Path

import pytest

from cluster.configuration.served_values import ServedValues
from cluster.configuration.synonyms import BROKER_SYNONYMS, TOPIC_DEFAULTS

ROOT = Path(__file__).parents[3]
DECLARATIONS = ("tables", "served_values.py", "synonyms.py")
EXCEPTIONS = {}
"""Settings that are accepted without being read, and why that misleads no user."""

SERVED = sorted(name.replace("_", ".") for name in typing.get_type_hints(ServedValues))


@cache
def read() -> frozenset[str]:
    """Return the attributes of configurations that the source reads, and the names that it looks up as strings."""
    found: set[str] = set()
    for folder in ("cluster", "security", "storage"):
        for path in (ROOT / folder).rglob("*.py"):
            if not any(part in DECLARATIONS for part in path.parts):
                text = path.read_text()
                found.update(re.findall(r"(?:config|settings|values)\.([a-z0-9_]+)", text))
                found.update(re.findall(r"self\.([a-z0-9_]+)", text))
                found.update(re.findall(r'"([a-z0-9]+(?:\.[a-z0-9]+)+)"', text))
    return frozenset(found)


def is_read(name: str) -> bool:
    """Whether a setting is read: itself, as the default of topics, or as what another falls back to."""
    if name in read() or name.replace(".", "_") in read():
        return True
    topics = (topic for topic, default in TOPIC_DEFAULTS.items() if default == name)
    users = (
        user for user, sources in BROKER_SYNONYMS.items() if any(source.name == name for source in sources)
    )
    return any(topic.replace(".", "_") in read() for topic in topics) or any(map(is_read, users))


@pytest.mark.parametrize("name", SERVED)
def test_a_served_setting_is_read(name: str) -> None:
    assert is_read(name) or name in EXCEPTIONS


def test_exceptions_are_served_settings() -> None:
    assert EXCEPTIONS.keys() <= set(SERVED)
