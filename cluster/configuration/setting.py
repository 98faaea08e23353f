"""What is known of a setting, and the text form in which the tables declare it.

An entry of a table is a line of five fields and indented lines under it:

    name | kind | default | importance | update mode
        valid: the values allowed, where not every value of the kind is
        refused: why another value than the default is refused      (or)
        without effect                                              (or neither: the setting is served)
        What the setting does, in one or two sentences.

`valid` lists alternatives, each a value or a range `low..high` with either end open; of a list, each element
must be one of them; `release` stands for a release of Kafka. A default of `null` means that there is no
value until it is given one.
"""

import re
from collections.abc import Iterator
from enum import Enum, IntEnum
from typing import Final, NamedTuple

from cluster.configuration.errors import ConfigError

Value = bool | int | float | str | tuple[str, ...] | None

HIDDEN: Final = "[hidden]"
"""Replaces a secret wherever values are shown."""


class Kind(IntEnum):
    """The type of a setting's value; the numbers are those of DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class UpdateMode(Enum):
    """How a setting's value can change while the broker runs."""

    READ_ONLY = "read-only"  # at the next start only
    AT_START = "at-start"  # at the next start; in Kafka at run time, so that it is described as changeable
    PER_BROKER = "per-broker"  # for one broker
    CLUSTER_WIDE = "cluster-wide"  # for one broker, or as the default of all


class Service(Enum):
    """How this broker treats a setting."""

    SERVED = "served"  # it does what its text says
    WITHOUT_EFFECT = "without effect"  # any value is accepted; nothing here depends on it
    REFUSED = "refused"  # another value than the default would have to change behaviour, and cannot


class Setting(NamedTuple):
    """One setting as its table declares it; `default` is text in the form that it has in a file."""

    name: str
    kind: Kind
    default: str | None
    importance: str
    update: UpdateMode
    valid: str
    service: Service
    reason: str
    doc: str

    @property
    def is_sensitive(self) -> bool:
        """Whether the value is a secret, never shown."""
        return self.kind is Kind.PASSWORD

    @property
    def default_value(self) -> Value:
        """The default, parsed."""
        return None if self.default is None else self.parse(self.default)

    def parse(self, text: str) -> Value:
        """Read a value from its text and check it.

        Raises:
            ConfigError: the text is no value of this setting.
        """
        text = text.strip()
        value = _parse_kind(self, text)
        if self.valid and not _is_valid(self.valid, value):
            raise ConfigError(self.name, self.shown(text), self.expectation)
        return value

    @property
    def expectation(self) -> str:
        """What a valid value looks like, for messages."""
        kind = _KIND_TEXT[self.kind]
        if not self.valid:
            return kind
        if self.valid == "release":
            return "a release of Kafka such as 3.9"
        return f"{kind} of {self.valid}" if ".." in self.valid else f"one of {self.valid}"

    def shown(self, text: str | None) -> str | None:
        """Return a value's text for messages and logs: a secret is hidden."""
        return HIDDEN if self.is_sensitive and text is not None else text


_KIND_TEXT: Final = {
    Kind.BOOLEAN: "true or false",
    Kind.STRING: "a text",
    Kind.INT: "a number",
    Kind.SHORT: "a number",
    Kind.LONG: "a number",
    Kind.DOUBLE: "a number",
    Kind.LIST: "a comma-separated list",
    Kind.CLASS: "a class name",
    Kind.PASSWORD: "a text",
}
_BITS: Final = {Kind.SHORT: 16, Kind.INT: 32, Kind.LONG: 64}
_RELEASE: Final = re.compile(r"\d+\.\d+(\.\d+)*(-IV\d+)?")


def _parse_kind(setting: Setting, text: str) -> Value:
    kind = setting.kind
    try:
        if kind in _BITS:
            number = int(text)
            if not -(1 << _BITS[kind] - 1) <= number < 1 << _BITS[kind] - 1:
                raise ConfigError(setting.name, text, f"a number that fits {_BITS[kind]} bits")
            return number
        if kind is Kind.DOUBLE:
            return float(text)
    except ValueError as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(setting.name, text, setting.expectation) from None
    if kind is Kind.BOOLEAN:
        if text.lower() not in ("true", "false"):
            raise ConfigError(setting.name, text, "true or false")
        return text.lower() == "true"
    if kind is Kind.LIST:
        return tuple(element for part in text.split(",") if (element := part.strip()))
    return text


def _is_valid(valid: str, value: Value) -> bool:
    if isinstance(value, tuple):
        return all(_is_valid(valid, element) for element in value)
    if valid == "release":
        return _RELEASE.fullmatch(str(value)) is not None
    for alternative in valid.split(", "):
        low, is_range, high = alternative.partition("..")
        if is_range and isinstance(value, int | float):
            if (not low or value >= float(low)) and (not high or value <= float(high)):
                return True
        elif str(value) == alternative:
            return True
    return False


def read_table(text: str) -> Iterator[Setting]:
    """Read the settings of a table; the form is described at the head of this module."""
    kinds = {kind.name.lower(): kind for kind in Kind}
    modes = {mode.value: mode for mode in UpdateMode}
    for entry in re.split(r"\n(?! )", text.strip()):
        head, *lines = entry.split("\n")
        name, kind, default, importance, update = (field.strip() for field in head.split("|"))
        valid, service, reason = "", Service.SERVED, ""
        while lines:
            line = lines[0].strip()
            if line.startswith("valid: "):
                valid = line[7:]
            elif line.startswith("refused: "):
                service, reason = Service.REFUSED, line[9:]
            elif line == "without effect":
                service = Service.WITHOUT_EFFECT
            else:
                break
            del lines[0]
        yield Setting(
            name,
            kinds[kind],
            None if default == "null" else default,
            importance,
            modes[update],
            valid,
            service,
            reason,
            " ".join(line.strip() for line in lines),
        )
