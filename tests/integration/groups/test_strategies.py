"""Every client's assignment strategies, and static members: groups that form, shrink and stay stable."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from uuid import uuid4

import pytest

from tests.conftest import Topics
from tests.integration.groups.members import Group

PARTITIONS = 6

STRATEGIES = {
    "confluent": ("range", "roundrobin"),
    "kafka-python": ("range", "roundrobin", "cooperative-sticky"),
    "aiokafka": ("range", "sticky"),
    "kcat": ("roundrobin", "cooperative-sticky"),
    "java": ("RangeAssignor", "RoundRobinAssignor"),
}


@pytest.fixture
def topic(make_topics: Topics) -> str:
    name = f"strategies-{uuid4().hex[:8]}"
    make_topics.create([name], PARTITIONS)
    return name


@pytest.mark.parametrize(("client", "strategies"), STRATEGIES.items())
def test_a_group_forms_and_shrinks(
    client: str, strategies: Sequence[str], topic: str, make_group: Callable[..., Group]
) -> None:
    with ExitStack() as stack:
        groups = [
            stack.enter_context(make_group(f"{client}-{strategy}", topic, client, strategy))
            for strategy in strategies
        ]
        for group in groups:
            group.start("a", "b")
        for group in groups:
            group.wait_settled(PARTITIONS)
            group.members["a"].leave()
        for group in groups:
            group.wait_settled(PARTITIONS, "b")
            group.check()


@pytest.mark.parametrize(
    ("client", "strategy"), [("confluent", "range"), ("java", "CooperativeStickyAssignor")]
)
def test_a_static_member_comes_back_to_its_partitions_and_the_other_notices_nothing(
    client: str, strategy: str, topic: str, make_group: Callable[..., Group]
) -> None:
    with make_group(f"{client}-static", topic, client, strategy) as group:
        group.session_ms = 20_000
        group.start("a", "b", static=True)
        group.wait_settled(PARTITIONS)
        before = group.owned()

        def changes_of_b() -> int:
            return sum(
                1 for each in group.history if each.member.endswith("-b") and each.what.get("partitions")
            )

        changes = changes_of_b()
        group.members["a"].kill()
        group.start("a", static=True)
        group.wait_settled(PARTITIONS)
        assert group.owned() == before
        assert changes_of_b() == changes
