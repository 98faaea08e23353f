"""The result of a call to the cluster: a value, or the sentence that stands in its place."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import trio

from ottla.client.errors import ClientError
from ottla.commands.terminal.failure import CommandError

T = TypeVar("T")

CALL_TIMEOUT_S: Final = 8.0
"""How many seconds a page waits for one call; a sentence takes the place of a later answer."""
_ACCESS: Final = re.compile(r"_AUTHORIZATION_FAILED$")


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """A value, or why there is none.

    Attributes:
        value: What was asked for; None where it failed.
        problem: A sentence for people; None where it worked.
    """

    value: T | None
    problem: str | None = None

    def or_else(self, other: T) -> T:
        """Return the value, or another one if there is none."""
        return other if self.value is None else self.value


async def attempt(ask: Callable[[], Awaitable[T]], timeout_s: float = CALL_TIMEOUT_S) -> Answer[T]:
    """Ask the cluster, within a time; a cancellation cancels the call."""
    with trio.move_on_after(timeout_s):
        try:
            return Answer(await ask())
        except (ClientError, CommandError) as error:
            return Answer(None, sentence(error))
    return Answer(None, f"The cluster did not answer within {timeout_s:g} s.")


async def attempt_all(*asks: Callable[[], Awaitable[Any]]) -> list[Answer[Any]]:
    """Ask several things at once; the answers stand in the order of the questions."""
    answers: list[Answer[Any]] = [Answer(None)] * len(asks)

    async def one(place: int, ask: Callable[[], Awaitable[Any]]) -> None:
        answers[place] = await attempt(ask)

    async with trio.open_nursery() as nursery:
        for place, ask in enumerate(asks):
            nursery.start_soon(one, place, ask)
    return answers


def sentence(error: Exception) -> str:
    """Write an error as a sentence."""
    text = error.message if isinstance(error, CommandError) else str(error)
    code = getattr(error, "error", None)
    if code is not None and _ACCESS.search(code.name):
        text = f"The page's user may not do this: {text}"
    text = " ".join(text.split())
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?")) else f"{text}."
