"""Groups of real clients while members come and go, partitions are added, and the coordinator's broker dies.

Two groups of different clients read one topic, and each goes through the same events: the invariants are checked at the
end over all that its members reported. No partition is owned by two members of a generation, commits never go back, and
everything that was acknowledged to the producer is consumed.
"""

from collections.abc import Callable
from contextlib import ExitStack

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from ottla.testing import Cluster
from tests.conftest import Topics
from tests.integration.groups.members import CommitWatch, Group, Load

PARTITIONS = 6
MORE_PARTITIONS = 9

PAIRS = [
    (("confluent", "cooperative-sticky"), ("java", "CooperativeStickyAssignor")),
    (("kafka-python", "sticky"), ("aiokafka", "roundrobin")),
    (("kcat", "range"), ("java", "StickyAssignor")),
]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: "+".join(client for client, _ in pair))
def test_groups_keep_their_promises_under_churn(
    pair: tuple[tuple[str, str], ...],
    quick_cluster: Cluster,
    make_topics: Topics,
    make_group: Callable[..., Group],
) -> None:
    topic = "churn-" + "-".join(client for client, _ in pair)
    make_topics.create([topic], PARTITIONS)
    bootstrap = quick_cluster.bootstrap_servers
    with ExitStack() as stack:
        groups = [
            stack.enter_context(make_group(f"{topic}-{client}", topic, client, strategy))
            for client, strategy in pair
        ]
        load = stack.enter_context(Load(bootstrap, topic))
        watch = stack.enter_context(CommitWatch(bootstrap, groups, MORE_PARTITIONS))

        def each(do: Callable[[Group], None]) -> None:
            for group in groups:
                do(group)

        each(lambda group: group.start("a", "b"))
        each(lambda group: group.wait_settled(PARTITIONS))
        each(lambda group: group.start("c"))
        each(lambda group: group.wait_settled(PARTITIONS))

        each(lambda group: group.members["a"].kill())
        each(lambda group: group.wait_settled(PARTITIONS, "b", "c"))

        # After its session b owns nothing any more, and learns that only when it goes on.
        each(lambda group: group.members["b"].stop())
        each(lambda group: group.wait_settled(PARTITIONS, "c"))
        each(lambda group: group.members["b"].go_on())
        each(lambda group: group.wait_settled(PARTITIONS, "b", "c"))

        extend(bootstrap, topic, MORE_PARTITIONS)
        each(lambda group: group.wait_settled(MORE_PARTITIONS, "b", "c"))

        coordinator = coordinator_of(bootstrap, groups[0])
        quick_cluster.kill(coordinator)
        each(lambda group: group.members["c"].leave())
        each(lambda group: group.wait_settled(MORE_PARTITIONS, "b"))
        quick_cluster.start(coordinator)
        each(lambda group: group.start("d"))
        each(lambda group: group.wait_settled(MORE_PARTITIONS, "b", "d"))

        ends = load.end()
        each(lambda group: group.wait_consumed(ends))
        watch.wait_at(ends)
        each(lambda group: group.check())
        watch.check()


def coordinator_of(bootstrap: str, group: Group) -> int:
    """Return the broker that coordinates a group."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    described = admin.describe_consumer_groups([group.group_id], request_timeout=30)
    return int(described[group.group_id].result(timeout=60).coordinator.id)


def extend(bootstrap: str, topic: str, partitions: int) -> None:
    """Add partitions to a topic."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    (future,) = admin.create_partitions([NewPartitions(topic, partitions)], request_timeout=60).values()
    future.result(timeout=60)
