"""Whether a command was called by the name of Kafka's tool, and prints what that prints."""

from typing import Final

import click

_KEY: Final = f"{__name__}.is_kafka"


def print_as_kafka(context: click.Context) -> None:
    """Have the command of this invocation print what Kafka's tool prints."""
    context.meta[_KEY] = True


def prints_as_kafka() -> bool:
    """Return whether the command that runs is to print what Kafka's tool prints; ``--json`` comes before it."""
    context = click.get_current_context(silent=True)
    if context is None:
        return False
    return bool(context.meta.get(_KEY)) and not context.params.get("as_json")
