"""What the brokers of a cluster report at one moment, and waiting until they report what a test expects."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from timing.clock import SystemClock
from timing.polling import poll_until

WAIT_TIMEOUT_S: Final = 60.0
_LOOK_AGAIN_S: Final = 0.02
_REPLICAS_MAX: Final = 3

Condition = Callable[["ClusterView"], bool]


class ClusterError(AssertionError):
    """A command of the cluster failed, or the cluster did not reach a state in time."""


@dataclass(frozen=True, slots=True)
class ClusterView:
    """What the running brokers report at one moment: the descriptions from their management sockets, by broker id."""

    descriptions: Mapping[int, Mapping[str, Any]]

    @property
    def controller_id(self) -> int:
        """The controller that all running brokers agree on, -1 while they do not."""
        known = {description.get("controller_id") for description in self.descriptions.values()}
        agreed = known.pop() if len(known) == 1 else None
        return -1 if agreed is None else int(agreed)

    def partition(self, topic: str, number: int) -> Mapping[str, Any] | None:
        """Return a partition as the broker that leads it describes it; None while it has no leader."""
        for broker_id, description in self.descriptions.items():
            for partition in description.get("partitions", ()):
                if (partition["topic"], partition["partition"]) == (topic, number) and (
                    partition["leader"] == broker_id and partition.get("isr")
                ):
                    found: Mapping[str, Any] = partition
                    return found
        return None

    def leader(self, topic: str, number: int) -> int:
        """Return the broker that reports itself as a partition's leader, -1 while none does."""
        partition = self.partition(topic, number)
        return -1 if partition is None else int(partition["leader"])

    def isr(self, topic: str, number: int) -> frozenset[int]:
        """Return the in-sync replicas as the leader has them; empty while there is no leader."""
        partition = self.partition(topic, number)
        return frozenset() if partition is None else frozenset(partition["isr"])


def wait_for(
    look: Callable[[], ClusterView], condition: Callable[[ClusterView], bool], timeout_s: float
) -> ClusterView:
    """Look at a cluster until a condition holds, and return what was seen.

    Args:
        look: Asks every broker that answers.
        condition: Whether this is what was waited for.
        timeout_s: How long to go on, in seconds.

    Raises:
        ClusterError: it does not hold in time.
    """
    seen = look()

    def look_again() -> ClusterView | None:
        nonlocal seen
        seen = look()
        return seen if condition(seen) else None

    found = poll_until(look_again, SystemClock(), timeout_s=timeout_s, interval_s=_LOOK_AGAIN_S)
    if found is None:
        raise ClusterError(f"not within {timeout_s:g} s; the brokers say: {dict(seen.descriptions)}")
    return found


def replicas_of_topic(wanted: int | None, broker_ids: Sequence[int]) -> int:
    """Return how many replicas a topic gets: as many as were asked for; else three, or as many as there are brokers."""
    return min(_REPLICAS_MAX, len(broker_ids)) if wanted is None else wanted


def all_led(topic: str, partitions: int) -> Condition:
    """Return the condition that every partition of a topic has a leader."""
    return lambda seen: all(seen.leader(topic, number) != -1 for number in range(partitions))


def all_in_sync(topic: str, partitions: int, replicas: int) -> Condition:
    """Return the condition that every partition of a topic has a number of replicas in sync."""
    return lambda seen: all(len(seen.isr(topic, number)) == replicas for number in range(partitions))
