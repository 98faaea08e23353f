"""How readers and groups read: their options, with defaults, and what is made of them."""

from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from typing import Any, Final, Required, TypedDict

from ottla.client.codecs import Topic
from ottla.client.context import ClientContext
from ottla.client.fetch_settings import READ_COMMITTED as _COMMITTED
from ottla.client.fetch_settings import READ_UNCOMMITTED as _UNCOMMITTED
from ottla.client.fetch_settings import FetchSettings
from ottla.client.positions import Endpoint, Starts, check_starts
from ottla.client.reader import Reader
from ottla.client.record_batch import Batch, OnBad


class Isolation(IntEnum):
    """Which records of transactions are seen."""

    READ_UNCOMMITTED = _UNCOMMITTED
    READ_COMMITTED = _COMMITTED


READ_UNCOMMITTED: Final = Isolation.READ_UNCOMMITTED
READ_COMMITTED: Final = Isolation.READ_COMMITTED

_FETCHING: Final = frozenset(
    {
        "isolation",
        "min_bytes",
        "max_wait",
        "max_bytes",
        "partition_bytes",
        "room",
        "check_crcs",
        "packed",
        "on_offset_lost",
    }
)


class FetchOptions(TypedDict, total=False):
    """How to fetch, for readers and groups; sizes in bytes, times in seconds.

    Attributes:
        isolation: `READ_COMMITTED` hides open and aborted transactions; default `READ_UNCOMMITTED`.
        min_bytes: A broker waits for this many (1).
        max_wait: ... for this long (0.5).
        max_bytes: The most bytes of an answer (50 MiB).
        partition_bytes: The most bytes of one partition in an answer (1 MiB).
        room: The most bytes fetched and not asked for yet (64 MiB), shared by the partitions.
        check_crcs: Whether checksums are compared (True).
        packed: Whether compressed records stay compressed until they are asked for (False); see `Batch.whole_batches`.
        on_offset_lost: EARLIEST or LATEST: read on there where records are lost; None raises `OffsetLost`.
        max_records: The most records of a batch that is handed out; None: what a fetch brought.
        on_bad: What becomes of records that cannot be decoded ("raise").
        on_batch: See each batch before it is handed out.
        topic_timeout: How long a topic may be unknown (30).
    """

    isolation: Isolation
    min_bytes: int
    max_wait: float
    max_bytes: int
    partition_bytes: int
    room: int
    check_crcs: bool
    packed: bool
    on_offset_lost: Endpoint | None
    max_records: int | None
    on_bad: OnBad
    on_batch: Sequence[Callable[[Batch[Any, Any]], None]]
    topic_timeout: float


class ReaderOptions(FetchOptions, total=False):
    """The arguments of `Kafka.reader`, besides those of `FetchOptions`.

    Attributes:
        start: Where to begin: EARLIEST, LATEST, Tail(n), an offset, a time, or a mapping by partition; partitions
            that a mapping lacks are not read.
        stop: Where to end, likewise; LATEST is the end at the time of entering. None: never.
        partitions: Which partitions; None for all.
    """

    start: Required[Starts]
    stop: Starts | None
    partitions: Iterable[int] | None


def fetch_settings(options: dict[str, Any]) -> FetchSettings:
    """Take the settings of fetches out of the options.

    Raises:
        ValueError: A size or time makes no sense.
    """
    settings = FetchSettings(**{name: options.pop(name) for name in _FETCHING & options.keys()})
    if settings.partition_bytes < 1 or settings.max_bytes < 1 or settings.room < 1 or settings.max_wait < 0:
        raise ValueError("sizes are positive and max_wait is not negative")
    return settings


def make_reader(
    context: ClientContext, topics: Sequence[Topic[Any, Any]], **options: Any
) -> Reader[Any, Any]:
    """Make a reader; raises TypeError where an option is missing or unknown."""
    settings = fetch_settings(options)
    if "start" not in options:
        raise TypeError("start= must be given: EARLIEST, LATEST, Tail(n), an offset, a time, or a mapping")
    check_starts(options["start"])
    if options.get("stop") is not None:
        check_starts(options["stop"])
    reader: Reader[Any, Any] = Reader(
        context,
        topics,
        settings,
        starts=options.pop("start"),
        stops=options.pop("stop", None),
        partitions=options.pop("partitions", None),
        max_records=options.pop("max_records", None),
        on_bad=options.pop("on_bad", "raise"),
        on_batch=options.pop("on_batch", ()),
        topic_timeout=options.pop("topic_timeout", 30.0),
    )
    if options:
        raise TypeError(f"unknown options: {', '.join(sorted(options))}")
    return reader
