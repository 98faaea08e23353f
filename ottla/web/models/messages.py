"""Browsing a topic: where to read next, which messages match, and in which order they are shown.

A page of messages goes through all partitions at once, forward or backward in time. Each partition has a place, and the
messages that were read from there and not shown yet. Of the partitions' next messages the newest (going backward) or
the oldest is shown next; a partition with none left is read further first. So the messages shown of each partition have
no gaps, and a page ends at places from which the next one continues.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ottla.web.models.values import Decode, Shown, member, show

BACK: Final = "back"
FORWARD: Final = "forward"
READ_MAX: Final = 5_000
"""About how many offsets a round of reading goes through, over all partitions."""
STEP_MAX: Final = 20_000
"""The most offsets that are read of a partition at a time, when few match."""

Places = Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Message:
    """A record as the page shows it."""

    partition: int
    offset: int
    timestamp: int
    key: Shown
    value: Shown
    headers: tuple[tuple[str, Shown], ...]


@dataclass(frozen=True, slots=True)
class Filter:
    """Which messages are wanted.

    Attributes:
        key: The key, as it is shown; empty for any.
        contains: A text that key, value or a header contains, ignoring case; empty for any.
        path: The path of a member of the value; empty for none.
        expected: The value of that member, as text.
    """

    key: str = ""
    contains: str = ""
    path: str = ""
    expected: str = ""

    @property
    def takes_all(self) -> bool:
        """Whether every message is wanted."""
        return not (self.key or self.contains or self.path)

    def takes(self, message: Message) -> bool:
        """Whether a message is wanted."""
        if self.key and message.key.full != self.key:
            return False
        if self.contains:
            texts = [message.key.full, message.value.full, message.value.short]
            texts += [f"{name}={value.full}" for name, value in message.headers]
            if not any(self.contains.lower() in text.lower() for text in texts):
                return False
        if self.path:
            try:
                found = member(message.value.data, self.path)
            except KeyError:
                return False
            return _plain(found) == self.expected
        return True


def parse_filter(key: str, contains: str, where: str) -> Filter:
    """Read a filter; ``where`` is ``path=value``.

    Raises:
        ValueError: It is written otherwise.
    """
    path, equals, expected = where.partition("=")
    if where and (not equals or not path.strip()):
        raise ValueError(f"{where!r} is not written as path=value, like customer.id=17")
    return Filter(key, contains, path.strip(), expected.strip())


def _plain(found: object) -> str:
    if isinstance(found, bool) or found is None:
        return str(found).lower().replace("none", "null")
    return str(found)


@dataclass(slots=True)
class _Partition:
    """Where a partition is read.

    Attributes:
        at: Where the next reading begins; going backward, what is before it.
        limit: Where there is nothing more.
        step: How many offsets the next reading goes through.
        found: Matching messages that were read and are not shown yet; the next one first.
    """

    at: int
    limit: int
    step: int
    found: deque[Message] = field(default_factory=deque)


class Browse:
    """Collects one page of messages; the caller does the reading.

    Args:
        direction: BACK or FORWARD.
        places: Where each partition begins: going backward, the offset behind the first that may be shown.
        limits: Where each ends: its first offset, or the one behind its last.
        wanted: Which messages are shown.
        count: How many.

    Attributes:
        shown: The page so far.
        scanned: How many messages were looked at.
    """

    def __init__(self, direction: str, places: Places, limits: Places, wanted: Filter, count: int) -> None:
        self.shown: list[Message] = []
        self.scanned = 0
        self._is_back = direction == BACK
        self._wanted = wanted
        self._count = count
        step = max(1, min(count, READ_MAX // max(1, len(places))))
        self._partitions = {
            number: _Partition(at, limits.get(number, at), step) for number, at in places.items()
        }

    def ranges(self) -> dict[int, tuple[int, int]]:
        """Show what can be shown, and return what has to be read for more: the offsets from and below, by partition.

        Empty, the page is finished.
        """
        while len(self.shown) < self._count:
            bare = {
                number: each
                for number, each in self._partitions.items()
                if not each.found and (each.at > each.limit if self._is_back else each.at < each.limit)
            }
            if bare:
                return {number: self._range(each) for number, each in bare.items()}
            heads = [each for each in self._partitions.values() if each.found]
            if not heads:
                break
            chosen = (max if self._is_back else min)(heads, key=lambda each: each.found[0].timestamp)
            self.shown.append(chosen.found.popleft())
        return {}

    def _range(self, partition: _Partition) -> tuple[int, int]:
        if self._is_back:
            return max(partition.limit, partition.at - partition.step), partition.at
        return partition.at, min(partition.limit, partition.at + partition.step)

    def take(self, read: Mapping[int, tuple[int, int]], messages: Iterable[Message]) -> None:
        """Take the messages of ranges that `ranges` returned; those of a partition in the order of their offsets."""
        for message in messages:
            self.scanned += 1
            if self._wanted.takes(message):
                found = self._partitions[message.partition].found
                (found.appendleft if self._is_back else found.append)(message)
        for number, (start, stop) in read.items():
            partition = self._partitions[number]
            partition.at = start if self._is_back else stop
            if not partition.found:
                partition.step = min(STEP_MAX, partition.step * 4)

    @property
    def places(self) -> dict[int, int]:
        """Where the next page begins."""
        found = {}
        for number, each in self._partitions.items():
            if each.found:
                found[number] = each.found[0].offset + (1 if self._is_back else 0)
            else:
                found[number] = each.at
        return found

    @property
    def is_at_end(self) -> bool:
        """Whether there is nothing more in this direction."""
        return all(not each.found and each.at == each.limit for each in self._partitions.values())


def message_of(
    partition: int,
    offset: int,
    timestamp: int,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[str, bytes | None]],
    wanted: str,
    avro: Decode | None,
) -> Message:
    """Return a record as it is shown."""
    return Message(
        partition,
        offset,
        timestamp,
        show(key, "auto" if wanted == "json" else wanted, avro),
        show(value, wanted, avro),
        tuple((name, show(each)) for name, each in headers),
    )


def places_text(places: Places) -> str:
    """Write places for an address: ``0.120_1.98``."""
    return "_".join(f"{number}.{offset}" for number, offset in sorted(places.items()))


def parse_places(text: str) -> dict[int, int]:
    """Read what `places_text` wrote.

    Raises:
        ValueError: It is something else.
    """
    places = {}
    for part in text.split("_"):
        number, dot, offset = part.partition(".")
        if not dot:
            raise ValueError(f"{text!r} is no place in a topic")
        places[int(number)] = int(offset)
    return places
