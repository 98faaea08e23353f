"""Which consumer of a group reads what: each computes the same from the same view of the group, and takes its part.

- The unit is the *thread*: one stream of one consumer, named `<consumer id>-<number>`. Threads are ordered as Java
  orders strings ("c-10" before "c-2"), partitions as numbers.
- Only the topics that the computing consumer subscribes to are assigned.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Final

from ottla.old_consumer.subscription import Registration
from wire.types import TopicPartition

RANGE: Final = "range"
ROUND_ROBIN: Final = "roundrobin"
_WORD: Final = 1 << 32


class AssignmentError(Exception):
    """The group's subscriptions do not fit the strategy."""


@dataclass(frozen=True, slots=True)
class ThreadId:
    """One stream of a consumer; its text is the content of an ownership znode."""

    consumer: str
    number: int

    def __str__(self) -> str:
        return f"{self.consumer}-{self.number}"


def owning_consumer(text: str) -> str:
    """Return the consumer id in an ownership znode's text."""
    return text.rpartition("-")[0]


@dataclass(frozen=True, slots=True)
class GroupView:
    """What a consumer has read of its group and its topics.

    Attributes:
        registrations: What each consumer subscribes to, by consumer id.
        partitions: The partitions of the existing topics that this consumer reads, sorted.
        topics: The names of all topics, which filters choose from.
        has_brokers: Whether a broker is registered.
    """

    registrations: Mapping[str, Registration]
    partitions: Mapping[str, tuple[int, ...]]
    topics: frozenset[str]
    has_brokers: bool

    def decides_like(self, other: "GroupView | None", *, exclude_internal: bool) -> bool:
        """Return whether both views lead to the same assignment."""
        return (
            other is not None
            and self.has_brokers == other.has_brokers
            and self.partitions == other.partitions
            and self.threads(exclude_internal=exclude_internal)
            == other.threads(exclude_internal=exclude_internal)
        )

    def threads(self, *, exclude_internal: bool) -> dict[str, list[ThreadId]]:
        """Return the threads of each topic that the group consumes, in their order."""
        found: dict[str, list[ThreadId]] = {}
        for consumer, registration in self.registrations.items():
            for topic, count in registration.topics(self.topics, exclude_internal=exclude_internal).items():
                found.setdefault(topic, []).extend(ThreadId(consumer, number) for number in range(count))
        return {topic: sorted(threads, key=_java_order) for topic, threads in found.items()}


Assignment = dict[str, dict[TopicPartition, ThreadId]]
"""What each consumer of the group reads, and by which thread."""
Assignor = Callable[[GroupView, Mapping[str, Sequence[ThreadId]], frozenset[str]], Assignment]


def assign_range(
    view: GroupView, threads: Mapping[str, Sequence[ThreadId]], own_topics: frozenset[str]
) -> Assignment:
    """Assign consecutive partitions to each thread of a topic; the first threads take one more each if some remain."""
    found: Assignment = {consumer: {} for consumer in view.registrations}
    for topic in sorted(own_topics):
        partitions = view.partitions.get(topic, ())
        takers = threads[topic]
        each, remainder = divmod(len(partitions), len(takers))
        for place, thread in enumerate(takers):
            begin = each * place + min(place, remainder)
            for number in partitions[begin : begin + each + (place < remainder)]:
                found[thread.consumer][TopicPartition(topic, number)] = thread
    return found


def assign_round_robin(
    view: GroupView, threads: Mapping[str, Sequence[ThreadId]], own_topics: frozenset[str]
) -> Assignment:
    """Deal the partitions of all topics to the threads in turn, in the order of Java's hash of ``topic-partition``.

    Raises:
        AssignmentError: The consumers differ in their topics, or one has different numbers of streams for its topics.
    """
    found: Assignment = {consumer: {} for consumer in view.registrations}
    takers: Sequence[ThreadId] = next(iter(threads.values()), ())
    for topic, others in threads.items():
        if list(others) != list(takers):
            raise AssignmentError(
                f"round-robin needs the same topics and streams in the whole group: the threads of {topic} "
                f"are {', '.join(map(str, others))}, those of another topic {', '.join(map(str, takers))}"
            )
    places = [TopicPartition(topic, each) for topic in own_topics for each in view.partitions.get(topic, ())]
    places.sort(key=lambda place: (java_hash(f"{place.topic}-{place.partition}"), place))
    for place, thread in zip(places, cycle(takers), strict=False):
        found[thread.consumer][place] = thread
    return found


ASSIGNORS: Final[Mapping[str, Assignor]] = {RANGE: assign_range, ROUND_ROBIN: assign_round_robin}


def assign(view: GroupView, consumer_id: str, strategy: str, *, exclude_internal: bool) -> Assignment:
    """Return what each consumer reads of the topics that one of them subscribes to.

    Args:
        view: The group.
        consumer_id: That one, registered in the view.
        strategy: `RANGE` or `ROUND_ROBIN`.
        exclude_internal: Whether filters pass over Kafka's own topics.

    Raises:
        AssignmentError: The subscriptions do not fit the strategy.
    """
    own = view.registrations[consumer_id].topics(view.topics, exclude_internal=exclude_internal)
    threads = view.threads(exclude_internal=exclude_internal)
    return ASSIGNORS[strategy](view, threads, frozenset(own))


def java_hash(text: str) -> int:
    """Return Java's `String.hashCode`, signed."""
    code = 0
    units = text.encode("utf-16-be")
    for at in range(0, len(units), 2):
        code = (31 * code + int.from_bytes(units[at : at + 2], "big")) % _WORD
    return code - _WORD if code >= _WORD // 2 else code


def _java_order(thread: ThreadId) -> bytes:
    """Order texts by their UTF-16 units, as Java does."""
    return str(thread).encode("utf-16-be")
