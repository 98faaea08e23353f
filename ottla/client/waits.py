"""What a client waits for at the moment, in words: a command shows it, so that nothing waits in silence."""

from collections.abc import Iterator
from contextlib import contextmanager

from ottla.client import runtime


class Wait:
    """Something that is waited for.

    Attributes:
        text: What, for people; it may change as more becomes known, and is empty where inner waits say it all.
        since: When it began, on the event loop's clock.
    """

    __slots__ = ("since", "text")

    def __init__(self, text: str, since: float) -> None:
        self.text = text
        self.since = since


class Waits:
    """The waits that are going on."""

    def __init__(self) -> None:
        self._going_on: dict[Wait, None] = {}

    @contextmanager
    def on(self, text: str) -> Iterator[Wait]:
        """Note a wait for as long as the block takes."""
        wait = Wait(text, runtime.current_time())
        self._going_on[wait] = None
        try:
            yield wait
        finally:
            del self._going_on[wait]

    def longer_than(self, seconds: float) -> list[str]:
        """Return what has been waited for that long, the oldest first, each once."""
        before = runtime.current_time() - seconds
        return list(dict.fromkeys(each.text for each in self._going_on if each.text and each.since <= before))
