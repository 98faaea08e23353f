"""Groups of commands that name the nearest one where a name is wrong. For options click does so itself."""

import difflib
from typing import Final

import click

_SIMILARITY: Final = 0.5
_MOST: Final = 3


class SuggestingGroup(click.Group):
    """A group whose error for an unknown command names those that may be meant."""

    def names_alike(self) -> dict[str, str]:
        """Return names that other programs have for this group's commands, with the command that each means."""
        return {}

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if (
            self.get_command(ctx, args[0]) is None
            and not args[0].startswith("-")
            and not ctx.resilient_parsing
        ):
            names = nearest(args[0], {name: name for name in self.list_commands(ctx)} | self.names_alike())
            listed = " or ".join(repr(name) for name in names)
            meant = f" Did you mean {listed}?" if names else ""
            ctx.fail(f"No such command {args[0]!r}.{meant}")
        return super().resolve_command(ctx, args)


def nearest(given: str, known: dict[str, str]) -> list[str]:
    """Return what is meant by the known names that are nearest to a given one, the nearest first.

    Args:
        given: What was typed; a prefix or suffix of Kafka's scripts counts for nothing.
        known: The names, each with what it means.
    """
    text = given.lower().removeprefix("kafka-").removesuffix(".sh")
    if text in known:
        return [known[text]]
    close = difflib.get_close_matches(text, known, _MOST, _SIMILARITY)
    if not close:
        words = set(text.split("-"))
        close = [name for name in known if words & set(name.split("-"))][:_MOST]
    return list(dict.fromkeys(known[name] for name in close))
