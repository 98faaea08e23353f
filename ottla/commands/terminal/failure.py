"""How a command fails: one clear message on stderr, and a non-zero exit code."""

from collections.abc import Iterator
from contextlib import contextmanager

import click


class CommandError(click.ClickException):
    """A command could not do what it was asked; the text is all the operator needs to see."""


@contextmanager
def failing_on(*errors: type[BaseException]) -> Iterator[None]:
    """Turn errors that an operator can do something about into a message, without a traceback."""
    try:
        yield
    except errors as error:
        raise CommandError(str(error)) from error
