"""What a consumer of a group subscribes to, and its znode.

A registration is the data of `/consumers/<group>/ids/<consumer id>`:

    {"version":1,"subscription":{"orders":2},"pattern":"static","timestamp":"1700000000000"}

With a filter the one name in it is a Java regular expression, and the pattern is ``white_list`` or ``black_list``.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from cluster.zookeeper.json_data import MalformedZnodeError, decode_json, encode_json, malformed_as
from wire.types import WallMs

_INTERNAL: Final = frozenset({"__consumer_offsets", "__transaction_state"})


class Pattern(Enum):
    """How a subscription names its topics."""

    STATIC = "static"
    WHITE_LIST = "white_list"
    BLACK_LIST = "black_list"


@dataclass(frozen=True, slots=True)
class TopicFilter:
    """Topics by a regular expression that whole names match; `white_list` and `black_list` make one.

    Attributes:
        pattern: Whether topics that match are taken, or left out.
        text: The expression, with Kafka's commas for alternatives replaced.
        expression: The same, compiled.
    """

    pattern: Pattern
    text: str
    expression: re.Pattern[str] = field(compare=False)

    def takes(self, topic: str, *, exclude_internal: bool) -> bool:
        """Return whether a topic is consumed."""
        matches = self.expression.fullmatch(topic) is not None
        wanted = matches is (self.pattern is Pattern.WHITE_LIST)
        return wanted and not (exclude_internal and topic in _INTERNAL)


def white_list(text: str) -> TopicFilter:
    """Return a filter for the topics that match ``regex,regex``; raises ValueError if that is malformed."""
    return _filter(Pattern.WHITE_LIST, text)


def black_list(text: str) -> TopicFilter:
    """Return a filter for topics that do not match ``regex,regex``; raises ValueError if that is malformed."""
    return _filter(Pattern.BLACK_LIST, text)


def _filter(pattern: Pattern, text: str) -> TopicFilter:
    regex = re.sub(r"""^["']+|["']+$""", "", text.strip().replace(",", "|").replace(" ", ""))
    try:
        return TopicFilter(pattern, regex, re.compile(regex))
    except re.error as error:
        raise ValueError(f"{text!r} is no regular expression: {error}") from None


@dataclass(frozen=True, slots=True)
class Registration:
    """What one consumer subscribes to.

    Attributes:
        streams: How many streams it has, by topic; of a filter, by its expression.
        filter: The filter, None where topics are named.
        timestamp: When it registered.
    """

    streams: Mapping[str, int]
    filter: TopicFilter | None = None
    timestamp: WallMs = field(default=WallMs(-1), compare=False)

    def topics(self, existing: Collection[str], *, exclude_internal: bool) -> dict[str, int]:
        """Return the number of streams by topic; a filter takes those that exist."""
        if self.filter is None:
            return dict(self.streams)
        (count,) = self.streams.values()
        takes = self.filter.takes
        return {each: count for each in existing if takes(each, exclude_internal=exclude_internal)}


def for_topics(streams: Mapping[str, int], timestamp: WallMs) -> Registration:
    """Return the registration of a consumer that names its topics.

    Raises:
        ValueError: It names no topic, or a topic has no stream.
    """
    if not streams:
        raise ValueError("an end needs a topic to consume")
    for topic, count in streams.items():
        if count < 1:
            raise ValueError(f"topic {topic}: {count} streams; at least one is needed")
    return Registration(dict(streams), None, timestamp)


def for_filter(topic_filter: TopicFilter, streams: int, timestamp: WallMs) -> Registration:
    """Return the registration of a consumer with a filter; raises ValueError where it has no stream."""
    if streams < 1:
        raise ValueError(f"{streams} streams; at least one is needed")
    return Registration({topic_filter.text: streams}, topic_filter, timestamp)


def encode_registration(registration: Registration) -> bytes:
    """Write a registration as Kafka does."""
    pattern = Pattern.STATIC if registration.filter is None else registration.filter.pattern
    return encode_json(
        {
            "version": 1,
            "subscription": dict(registration.streams),
            "pattern": pattern.value,
            "timestamp": str(registration.timestamp),
        }
    )


def decode_registration(consumer_id: str, data: bytes) -> Registration:
    """Read a registration.

    Raises:
        MalformedZnodeError: It is malformed.
    """
    what = f"the registration of consumer {consumer_id}"
    value = decode_json(data, what)
    with malformed_as(what, data):
        streams = {str(name): int(count) for name, count in value["subscription"].items()}
        pattern = Pattern(value["pattern"])
        timestamp = WallMs(int(value.get("timestamp", -1)))
        if pattern is Pattern.STATIC:
            return Registration(streams, None, timestamp)
        if len(streams) != 1:
            raise MalformedZnodeError(f"{what} has {len(streams)} filters", data)
        (text,) = streams
        return Registration(streams, _filter(pattern, text), timestamp)
