"""A job's configuration is a frozen dataclass; its command line is read off the fields.

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Config:
        topic: str = field(metadata=about("The topic to read."))
        once: bool = field(default=False, metadata=about("Stop at the end."))

gives ``--topic TOPIC`` (required) and ``--once``. Types served: str, int, float, bool,
those with ``| None``, tuples of str (repeatable), and mappings of str to str (repeatable KEY=VALUE).
"""

import argparse
import dataclasses
import types
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar, Union, get_args, get_origin, get_type_hints

from pipeline.failure import JobError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Config = TypeVar("Config", bound="DataclassInstance")

_ABOUT: Final = "about"


def about(
    text: str, *, choices: Sequence[str] = (), metavar: str | None = None
) -> Mapping[str, Mapping[str, Any]]:
    """Describe an option; goes into a field's metadata."""
    return {_ABOUT: {"text": text, "choices": tuple(choices), "metavar": metavar}}


def add_options(parser: argparse._ActionsContainer, cls: type[Config]) -> None:
    """Add one option a field of a configuration to a parser, or to a group of one."""
    hints = get_type_hints(cls)
    for field in dataclasses.fields(cls):
        described = field.metadata[_ABOUT]
        default = None if field.default is dataclasses.MISSING else field.default
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        text = described["text"].replace("%", "%%")
        if default not in (None, "", False, True, ()):
            text += f" [default: {default}]"
        shape: dict[str, Any] = {"dest": field.name, "help": text, "required": required}
        kind = _plain(hints[field.name])
        if kind is bool:
            shape |= {"action": argparse.BooleanOptionalAction, "default": default}
        else:
            shape |= {"metavar": described["metavar"] or _metavar(kind, field.name), "default": default}
            if described["choices"]:
                shape |= {"choices": described["choices"], "metavar": described["metavar"]}
            shape |= {"action": "append", "default": None} if kind in (tuple, Mapping) else {"type": kind}
        parser.add_argument("--" + field.name.replace("_", "-"), **shape)


def config_from(cls: type[Config], values: argparse.Namespace) -> Config:
    """Build the configuration out of what the parser read.

    Raises:
        JobError: a KEY=VALUE is not one.
    """
    hints = get_type_hints(cls)
    found: dict[str, Any] = {}
    for field in dataclasses.fields(cls):
        value = getattr(values, field.name)
        kind = _plain(hints[field.name])
        if kind is tuple:
            value = tuple(value or ())
        elif kind is Mapping:
            value = _pairs(field.name, value or ())
        found[field.name] = value
    return cls(**found)


def arguments_of(config: "DataclassInstance") -> list[str]:
    """Return the command line that says the same as a configuration."""
    arguments: list[str] = []
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        name = "--" + field.name.replace("_", "-")
        if isinstance(value, bool):
            arguments.append(name if value else "--no-" + name[2:])
        elif isinstance(value, Mapping):
            arguments += [part for key, one in value.items() for part in (name, f"{key}={one}")]
        elif isinstance(value, tuple):
            arguments += [part for one in value for part in (name, one)]
        elif value is not None:
            arguments += [name, str(value)]
    return arguments


def _plain(hint: Any) -> Any:
    """Return ``str`` for ``str | None``, ``tuple`` for ``tuple[str, ...]``, ``Mapping`` for ``Mapping[str, str]``."""
    if get_origin(hint) in (Union, types.UnionType):
        (hint,) = [kind for kind in get_args(hint) if kind is not type(None)]
    return get_origin(hint) or hint


def _metavar(kind: Any, name: str) -> str:
    if kind is Mapping:
        return "KEY=VALUE"
    return "N" if kind in (int, float) else name.rpartition("_")[2].upper()


def _pairs(name: str, texts: Sequence[str]) -> dict[str, str]:
    pairs = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise JobError(f"--{name.replace('_', '-')} {text!r} is not KEY=VALUE")
        pairs[key.strip()] = value
    return pairs
