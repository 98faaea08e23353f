"""`server.properties`: Java's properties format, with overrides from the command line over it."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from cluster.configuration.errors import ConfigError

_SEPARATOR: Final = re.compile(r"[ \t\f]*[=:][ \t\f]*|[ \t\f]+")


def read_properties(path: Path) -> dict[str, str]:
    """Read a properties file.

    Raises:
        ConfigError: it cannot be read, or is not in the properties format.
    """
    try:
        text = path.read_bytes().decode("latin-1")
    except OSError as error:
        raise ConfigError(str(path), None, f"a readable properties file, not: {error.strerror}") from None
    return _read_escaped(path, text) if "\\" in text else _read_plain(text)


def _read_plain(text: str) -> dict[str, str]:
    """Read properties without escapes or continued lines: nearly every broker's file has neither.

    The library that reads the whole format takes longer to import than a broker takes to read its settings.
    """
    properties = {}
    for line in text.splitlines():
        line = line.lstrip()
        if line and line[0] not in "#!":
            name, value = (*_SEPARATOR.split(line, maxsplit=1), "")[:2]
            properties[name] = value.rstrip()
    return properties


def _read_escaped(path: Path, text: str) -> dict[str, str]:
    import javaproperties

    try:
        properties: Mapping[str, str] = javaproperties.loads(text)
    except javaproperties.InvalidUEscapeError as error:
        raise ConfigError(str(path), None, f"Java's properties format, not: {error}") from None
    return {name: value.rstrip() for name, value in properties.items()}


def parse_overrides(overrides: Iterable[str]) -> dict[str, str]:
    """Read `key=value` texts; the last one for a key wins.

    Raises:
        ConfigError: one has no `=`.
    """
    properties = {}
    for override in overrides:
        name, equals, value = override.partition("=")
        if not equals or not name.strip():
            raise ConfigError(override, None, "key=value")
        properties[name.strip()] = value.strip()
    return properties
