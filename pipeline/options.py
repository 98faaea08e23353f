"""A job's options are the fields of a frozen dataclass; its command line is derived from them.

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Config:
        topic: str = field(metadata=about("The topic to read."))
        once: bool = field(default=False, metadata=about("Stop at the end."))

declares ``--topic TOPIC`` (required) and ``--once``. `pipeline.click_options` makes click's options of them.
Nothing here needs click, so that a module with options can be imported on Spark's workers too.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_ABOUT: Final = "about"


@dataclass(frozen=True, slots=True)
class About:
    """An option's description in the help.

    Attributes:
        text: One sentence.
        choices: The values that it accepts; empty for any.
        metavar: The placeholder of its value; made from its name by default.
    """

    text: str
    choices: tuple[str, ...] = ()
    metavar: str | None = None


def about(text: str, *, choices: Sequence[str] = (), metavar: str | None = None) -> Mapping[str, About]:
    """Return the metadata of a field that is an option."""
    return {_ABOUT: About(text, tuple(choices), metavar)}


def about_of(field: "dataclasses.Field[Any]") -> About:
    """Return the description of a field that is an option."""
    return cast(About, field.metadata[_ABOUT])


def flag_of(field: "dataclasses.Field[Any]") -> str:
    """Return a field's option: ``--dead-letters`` for ``dead_letters``."""
    return "--" + field.name.replace("_", "-")


def arguments_of(config: "DataclassInstance") -> list[str]:
    """Return the command line that is equivalent to a configuration."""
    arguments: list[str] = []
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        name = flag_of(field)
        if isinstance(value, bool):
            arguments.append(name if value else "--no-" + name[2:])
        elif isinstance(value, Mapping):
            arguments += [part for key, one in value.items() for part in (name, f"{key}={one}")]
        elif isinstance(value, tuple):
            arguments += [part for one in value for part in (name, one)]
        elif value is not None:
            arguments += [name, str(value)]
    return arguments
