"""``ssl.principal.mapping.rules``: from the subject of a certificate to the name of a principal.

    RULE:pattern/replacement/[L|U], ..., DEFAULT

The first rule whose pattern matches the whole subject determines the name, in lower case with L or upper case with U;
DEFAULT is the subject itself. In patterns and replacements ``\\/`` and ``\\,`` stand for the bare character.
"""

import re
from typing import Final, NamedTuple

DEFAULT: Final = "DEFAULT"
_RULE: Final = re.compile(r"RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)", re.DOTALL)
_NEXT: Final = re.compile(r"\s*(?:,\s*|$)")
_REFERENCE: Final = re.compile(r"\$(\d)")


class MappingRuleError(ValueError):
    """A rule is not written as Kafka has it, or its pattern does not compile."""


class NoMappingError(ValueError):
    """No rule matches the subject of a certificate: its owner has no name, and is refused."""


class _Rule(NamedTuple):
    pattern: re.Pattern[str] | None  # None for DEFAULT
    replacement: str
    case: str


class PrincipalMapping:
    """The rules of one listener.

    Args:
        text: The value of ``ssl.principal.mapping.rules``.

    Raises:
        MappingRuleError: it is not written as Kafka has it.
    """

    __slots__ = ("_rules",)

    def __init__(self, text: str) -> None:
        self._rules = tuple(_parse(text.strip() or DEFAULT))

    def name_of(self, subject: str) -> str:
        """Return the name of the certificate's owner.

        Raises:
            NoMappingError: no rule matches.
        """
        for rule in self._rules:
            if rule.pattern is None:
                return subject
            match = rule.pattern.fullmatch(subject)
            if match is not None:
                name = _REFERENCE.sub(lambda found, match=match: _group(match, found), rule.replacement)  # type: ignore[misc]
                return {"L": name.lower(), "U": name.upper()}.get(rule.case, name)
        raise NoMappingError(f"no rule of ssl.principal.mapping.rules matches {subject[:256]!r}")


def _group(match: re.Match[str], reference: re.Match[str]) -> str:
    number = int(reference[1])
    return reference[0] if number > (match.re.groups or 0) else match[number] or ""


def _parse(text: str) -> "list[_Rule]":
    rules, position = [], 0
    while position < len(text):
        if text.startswith(DEFAULT, position):
            rules.append(_Rule(None, "", ""))
            end = position + len(DEFAULT)
        else:
            match = _RULE.match(text, position)
            if match is None:
                raise MappingRuleError(
                    f"expected RULE:pattern/replacement/[L|U] or DEFAULT at {text[position:]!r}"
                )
            pattern, replacement, case = match.groups()
            try:
                compiled = re.compile(_bare(pattern))
            except re.error as error:
                raise MappingRuleError(f"the pattern {pattern!r} cannot be compiled: {error}") from None
            rules.append(_Rule(compiled, _bare(replacement), case))
            end = match.end()
        separator = _NEXT.match(text, end)
        if separator is None:
            raise MappingRuleError(f"expected a comma at {text[end:]!r}")
        position = separator.end()
    return rules


def _bare(text: str) -> str:
    return text.replace("\\/", "/").replace("\\,", ",")
