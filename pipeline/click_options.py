"""click's options for the fields of a configuration, and the configuration built from click's parsed values.

Types served: str, int, float, bool (``--once/--no-once``), those with ``| None``, tuples of str (repeatable), and
mappings of str to str (repeatable ``KEY=VALUE``).
"""

import dataclasses
import types
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar, Union, get_args, get_origin, get_type_hints

import click

from pipeline.options import about_of, flag_of

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Config = TypeVar("Config", bound="DataclassInstance")


def _pair(value: str | tuple[str, str]) -> tuple[str, str]:
    """Parse ``KEY=VALUE``.

    Raises:
        click.BadParameter: it is not such a pair; click adds the option's name.
    """
    if isinstance(value, tuple):
        return value  # click converts a default, too
    key, equals, rest = value.partition("=")
    if not equals or not key.strip():
        raise click.BadParameter(f"{value!r} is not KEY=VALUE")
    return key.strip(), rest


_TYPES: Final[Mapping[Any, Any]] = {str: str, int: int, float: float, tuple: str, Mapping: _pair}


def options_of(cls: "type[DataclassInstance]") -> list[click.Option]:
    """Return one option for each field of a configuration."""
    hints = get_type_hints(cls)
    return [_option(field, _plain(hints[field.name])) for field in dataclasses.fields(cls)]


def config_from(cls: type[Config], values: Mapping[str, Any]) -> Config:
    """Build the configuration from click's parsed values; values of other options are left alone."""
    hints = get_type_hints(cls)
    found: dict[str, Any] = {}
    for field in dataclasses.fields(cls):
        value = values[field.name]
        found[field.name] = dict(value) if _plain(hints[field.name]) is Mapping else value
    return cls(**found)


class SectionedCommand(click.Command):
    """A command whose help shows its options in sections.

    Args:
        name: The command's name.
        sections: Configurations by the title of their section.
        extra: Options after the last section.
        settings: Further arguments of `click.Command`.
    """

    def __init__(
        self,
        name: str,
        sections: "Mapping[str, type[DataclassInstance]]",
        extra: Sequence[click.Option] = (),
        **settings: Any,
    ) -> None:
        self._sections = {title: options_of(cls) for title, cls in sections.items()}
        options: list[click.Parameter] = [option for found in self._sections.values() for option in found]
        super().__init__(name, params=[*options, *extra], **settings)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each section, then the other options."""
        shown: set[str | None] = set()
        for title, options in self._sections.items():
            with formatter.section(title):
                formatter.write_dl([record for each in options if (record := each.get_help_record(ctx))])
            shown |= {option.name for option in options}
        rest = [each for each in self.get_params(ctx) if each.name not in shown]
        with formatter.section("Options"):
            formatter.write_dl([record for each in rest if (record := each.get_help_record(ctx))])


def _option(field: "dataclasses.Field[Any]", kind: Any) -> click.Option:
    described = about_of(field)
    flag = flag_of(field)
    default = None if field.default is dataclasses.MISSING else field.default
    shape: dict[str, Any] = {"help": described.text, "default": default}
    if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
        shape = {"help": described.text, "required": True}
    if default not in (None, "", False, True, ()):
        shape["help"] += f" [default: {default}]"
    if kind is bool:
        return click.Option([field.name, f"{flag}/--no-{flag[2:]}"], **shape)
    if kind in (tuple, Mapping):
        shape = {**shape, "multiple": True} | ({"default": ()} if "default" in shape else {})
    return click.Option(
        [field.name, flag],
        type=click.Choice(described.choices) if described.choices else _TYPES[kind],
        metavar=described.metavar or (None if described.choices else _metavar(kind, field.name)),
        **shape,
    )


def _plain(hint: Any) -> Any:
    """Return ``str`` for ``str | None``, ``tuple`` for ``tuple[str, ...]``, ``Mapping`` for ``Mapping[str, str]``."""
    if get_origin(hint) in (Union, types.UnionType):
        (hint,) = [kind for kind in get_args(hint) if kind is not type(None)]
    return get_origin(hint) or hint


def _metavar(kind: Any, name: str) -> str:
    if kind is Mapping:
        return "KEY=VALUE"
    return "N" if kind in (int, float) else name.rpartition("_")[2].upper()
