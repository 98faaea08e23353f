"""``sasl.jaas.config``: one login module and its options, as Kafka's clients and brokers write it.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="secret";

Values are in double quotes, with a backslash before a quote or a backslash inside; a value of letters and digits needs
no quotes, as in Java's own reader.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from security.errors import SecurityConfigError

_TOKEN: Final = re.compile(
    r"""\s*(?:"((?:\\.|[^"\\])*)"|'((?:\\.|[^'\\])*)'|([^\s=;"']+)|([=;]))""", re.DOTALL
)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_FLAGS: Final = frozenset({"required", "requisite", "sufficient", "optional"})


@dataclass(frozen=True, slots=True)
class JaasEntry:
    """A login module and its options.

    Attributes:
        module: The class name of the login module.
        flag: ``required`` and the like, lower case.
        options: The options; never shown, because passwords are among them.
    """

    module: str
    flag: str
    options: Mapping[str, str] = field(repr=False)


def parse_jaas(text: str, key: str = "sasl.jaas.config") -> JaasEntry:
    """Read the value of ``sasl.jaas.config``.

    Args:
        text: The value.
        key: The setting that it came from, for the error.

    Raises:
        SecurityConfigError: it is not one login module with options and a semicolon. The text says where,
            and quotes nothing of the value.
    """
    tokens = list(_tokens(text, key))
    if len(tokens) < 3 or tokens[-1] != (";", True):
        raise SecurityConfigError(
            key, 'expected `module required option="value" ...;` with a semicolon at the end'
        )
    (module, mark), (flag, flag_mark) = tokens[0], tokens[1]
    if mark or flag_mark or flag.lower() not in _FLAGS:
        raise SecurityConfigError(key, "expected a login module and a control flag such as `required`")
    options: dict[str, str] = {}
    rest = tokens[2:-1]
    if len(rest) % 3:
        raise SecurityConfigError(key, 'expected options as name="value"; a value may lack its quotes')
    for index in range(0, len(rest), 3):
        (name, name_mark), equals, (value, value_mark) = rest[index : index + 3]
        if name_mark or equals != ("=", True) or value_mark:
            raise SecurityConfigError(
                key, f'option {index // 3 + 1} is not name="value"; one login module is allowed'
            )
        options[name] = value
    return JaasEntry(module, flag.lower(), options)


def quote_jaas(value: str) -> str:
    """Return a value in quotes, as `parse_jaas` reads it back."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _tokens(text: str, key: str) -> Iterator[tuple[str, bool]]:
    """Return each token, and whether it is one of the marks ``=`` and ``;``."""
    position, end = 0, len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            raise SecurityConfigError(
                key, f"unexpected character at position {position}; is a quote missing?"
            )
        position = match.end()
        double, single, bare, mark = match.groups()
        if mark is not None:
            yield mark, True
        elif bare is not None:
            yield bare, False
        else:
            yield re.sub(r"\\(.)", _unescape, double if single is None else single, flags=re.DOTALL), False


def _unescape(match: re.Match[str]) -> str:
    return _ESCAPES.get(match[1], match[1])
