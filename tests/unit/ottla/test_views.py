"""What the tables and the choices of partitions show for a cluster in trouble."""

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from ottla.client.admin import PartitionDescription, Reassignment
from ottla.commands.local.cluster_directory import BrokerRecord, ClusterState
from ottla.commands.local.cluster_tables import render
from ottla.commands.local.cluster_view import ClusterView, PartitionView
from ottla.commands.local.health import BrokerStatus
from ottla.commands.topics.reported_partition import ReportedPartition

RUNNING = {"state": "running", "controller_id": 1, "live_brokers": [0, 1]}


def a_view(partitions: list[PartitionView]) -> ClusterView:
    brokers = tuple(BrokerRecord(i, None, None, "127.0.0.1", 9092 + i, f"/d/broker-{i}") for i in range(3))
    statuses = tuple(BrokerStatus(broker, None if broker.id == 2 else RUNNING) for broker in brokers)
    return ClusterView(ClusterState("127.0.0.1:2181", None, True, brokers), statuses, tuple(partitions))


def shown(view: ClusterView, partitions_max: int | None) -> str:
    console = Console(file=StringIO(), width=100)
    console.print(render(view, partitions_max=partitions_max))
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_brokers_and_their_controller() -> None:
    view = a_view([])
    assert view.controller_id == 1
    text = shown(view, None)
    assert "1 ◆ controller" in text
    assert "stopped" in text
    assert "bootstrap servers 127.0.0.1:9092,127.0.0.1:9093,127.0.0.1:9094" in text


def test_what_is_in_trouble_is_shown_where_room_is_short() -> None:
    partitions = [PartitionView("well", i, 0, 0, (0, 1), (0, 1)) for i in range(10)]
    partitions += [
        PartitionView("behind", 0, 0, 3, (0, 2), (0,)),
        PartitionView("lost", 0, -1, 4, (2,), (2,)),
        PartitionView("__consumer_offsets", 0, 1, 0, (1, 2), (1,)),
        PartitionView("__consumer_offsets", 1, -1, 0, (2,), (2,)),
    ]
    text = shown(a_view(partitions), 3)
    for expected in ("behind", "lost", "none", "__consumer_offsets  1", "... and 11 partitions more"):
        assert expected in text
    assert "well" not in text
    everything = shown(a_view(partitions), None)
    assert everything.count("well") == 10
    assert "... and 1 partitions more" in everything


def test_json_names_everything() -> None:
    data = a_view([PartitionView("t", 0, 0, 0, (0,), (0,))]).as_json()
    assert data["controller_id"] == 1
    brokers = data["brokers"]
    assert isinstance(brokers, list)
    assert [broker["state"] for broker in brokers] == ["running", "running", "stopped"]
    assert data["partitions"] == [
        {"topic": "t", "partition": 0, "leader": 0, "leader_epoch": 0, "replicas": (0,), "isr": (0,)}
    ]


@pytest.mark.parametrize(
    ("leader", "isr", "matches"),
    [
        (0, (0, 1, 2), set()),
        (0, (0, 1), {"under_replicated_partitions", "at_min_isr_partitions"}),
        (0, (0,), {"under_replicated_partitions", "under_min_isr_partitions"}),
        (-1, (0, 1, 2), {"unavailable_partitions", "under_min_isr_partitions"}),
        (9, (0, 1, 2), {"unavailable_partitions"}),
    ],
)
def test_choices_of_partitions(leader: int, isr: tuple[int, ...], matches: set[str]) -> None:
    described = PartitionDescription(0, leader, 0, (0, 1, 2), isr, ())
    partition = ReportedPartition("t", described, None, 2, frozenset({0, 1, 2}))
    names = [
        f"{name}_partitions" for name in ("under_replicated", "unavailable", "under_min_isr", "at_min_isr")
    ]
    assert {name for name in names if partition.matches(name)} == matches


def test_a_partition_that_moves_is_not_under_replicated_by_that() -> None:
    described = PartitionDescription(0, 0, 0, (0, 1, 2, 3), (0, 1, 2), ())
    moving = Reassignment((0, 1, 2, 3), (3,), (0,))
    partition = ReportedPartition("t", described, moving, 1, frozenset({0, 1, 2}))
    assert partition.replication_factor == 3
    assert not partition.matches("under_replicated_partitions")
    assert partition.as_json()["adding_replicas"] == [3]


def test_paths_of_a_broker() -> None:
    broker = a_view([]).state.broker(1)
    assert broker.management_socket == Path("/d/broker-1/management.sock")
    assert broker.properties == Path("/d/broker-1/server.properties")
