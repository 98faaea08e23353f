"""Durations as operators write them: milliseconds as Kafka's tools take them, or with a unit."""

import re
from typing import Final

import click

_UNITS_S: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_WRITTEN: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)?")
_SHORT_MS: Final = 1000
"""A plain number below this was probably meant as seconds."""


class Duration(click.ParamType[float]):
    """A duration, converted to seconds; ``5000`` is five seconds, and so is ``5s``."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, int | float):
            return float(value)  # a default, which is in seconds
        match = _WRITTEN.fullmatch(str(value).strip())
        if match is None or float(match[1]) == 0:
            self.fail(f"{value!r} is no duration: 5000 (milliseconds), 5s or 2m", param, ctx)
        number, unit = float(match[1]), match[2]
        if unit is None and number < _SHORT_MS:
            click.echo(
                f"Note: {value} means milliseconds, as in Kafka's tools; {value}s means seconds.", err=True
            )
        return number * _UNITS_S[unit or "ms"]
