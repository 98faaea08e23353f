"""Settings of topics and brokers: their values, their defaults, and which were changed."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ottla.client.admin import ConfigSource, ConfigValue

SOURCES: Final = {
    ConfigSource.DYNAMIC_TOPIC_CONFIG: "this topic",
    ConfigSource.DYNAMIC_BROKER_CONFIG: "this broker, at run time",
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG: "all brokers, at run time",
    ConfigSource.STATIC_BROKER_CONFIG: "the broker's file",
    ConfigSource.DEFAULT_CONFIG: "default",
    ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG: "the broker's logger",
}
_OWN: Final = frozenset({ConfigSource.DYNAMIC_TOPIC_CONFIG, ConfigSource.DYNAMIC_BROKER_CONFIG})


@dataclass(frozen=True, slots=True)
class SettingRow:
    """A setting.

    Attributes:
        name: Its name.
        value: Its value; None if it has none, or is secret.
        is_secret: Whether its value is not shown.
        is_read_only: Whether it cannot be changed at run time.
        source: Where the value comes from, in words.
        is_own: Whether it was set on this very topic or broker.
        is_changed: Whether it differs from the default.
        fallback: The value that it would have if it were not set here; None if that is not known.
    """

    name: str
    value: str | None
    is_secret: bool
    is_read_only: bool
    source: str
    is_own: bool
    is_changed: bool
    fallback: str | None


def setting_rows(values: Iterable[ConfigValue]) -> list[SettingRow]:
    """Return settings: first those that were set here, then those changed elsewhere, then the rest by name."""
    rows = []
    for each in values:
        is_own = each.source in _OWN
        below = next((one.value for one in each.synonyms if one.source not in _OWN), None)
        default = next(
            (one.value for one in each.synonyms if one.source is ConfigSource.DEFAULT_CONFIG), None
        )
        is_changed = each.source is not ConfigSource.DEFAULT_CONFIG and (
            is_own or default is None or each.value != default
        )
        rows.append(
            SettingRow(
                each.name,
                None if each.is_sensitive else each.value,
                each.is_sensitive,
                each.is_read_only,
                SOURCES.get(each.source, "elsewhere"),
                is_own,
                is_changed,
                None if each.is_sensitive else below,
            )
        )
    return sorted(rows, key=lambda row: (not row.is_own, not row.is_changed, row.name))
