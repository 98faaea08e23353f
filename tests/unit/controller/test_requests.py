"""The versions of requests for each protocol version, and that every message can be encoded in them."""

from typing import Any

import pytest
import trio

from cluster.controller import request_batch
from cluster.controller.context import ControllerContext
from cluster.controller.request_batch import RequestBatch
from cluster.controller.settings import RequestVersions
from cluster.statemachines.leadership import PartitionAssignment, PartitionLeadership
from cluster.zookeeper.znodes import BrokerRegistration, RegisteredEndpoint
from wire.codec import decode, encode
from wire.types import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    TopicId,
    TopicPartition,
    ZkVersion,
)

T0 = TopicPartition("t", 0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3.9", (7, 8, 4)),
        ("3.9-IV0", (7, 8, 4)),
        ("4.0-IV1", (7, 8, 4)),
        ("3.4", (7, 8, 4)),
        ("3.3-IV3", (6, 7, 3)),
        ("3.2", (6, 7, 3)),
        ("3.0.1", (5, 7, 3)),
    ],
)
def test_versions(text: str, expected: tuple[int, int, int]) -> None:
    assert RequestVersions.for_protocol(text) == RequestVersions(*expected)


@pytest.mark.parametrize("text", ["2.8", "4.0", "", "latest", "3.10"])
def test_versions_that_are_not_served(text: str) -> None:
    with pytest.raises(ValueError, match=r"inter\.broker\.protocol\.version"):
        RequestVersions.for_protocol(text)


def make(protocol: str) -> tuple[ControllerContext, RequestBatch, list[tuple[int, Any]]]:
    context = ControllerContext(ControllerEpoch(3))
    for broker_id in (0, 1):
        endpoint = RegisteredEndpoint("PLAINTEXT", f"b{broker_id}", 9092, "PLAINTEXT")
        context.brokers[BrokerId(broker_id)] = BrokerRegistration(
            BrokerId(broker_id), (endpoint,), "rack", epoch=BrokerEpoch(100 + broker_id)
        )
    put: list[tuple[int, Any]] = []
    batch = RequestBatch(
        context,
        BrokerId(0),
        RequestVersions.for_protocol(protocol),
        "PLAINTEXT",
        lambda broker_id, request: put.append((broker_id, request)),
    )
    return context, batch, put


def leadership(recovering: bool = False) -> PartitionLeadership:
    return PartitionLeadership(
        BrokerId(0),
        LeaderEpoch(2),
        (BrokerId(0), BrokerId(1)),
        ControllerEpoch(3),
        ZkVersion(5),
        recovering,
    )


@pytest.mark.parametrize("protocol", ["3.0", "3.2", "3.4", "3.9"])
def test_everything_can_be_encoded(protocol: str) -> None:
    context, batch, put = make(protocol)
    assignment = PartitionAssignment((BrokerId(0), BrokerId(1)), adding=(BrokerId(1),))
    context.add_topic("t", TopicId(b"t" * 16), {0: assignment})
    context.leaderships[T0] = leadership(recovering=True)
    batch.tell_role(assignment.replicas, T0, context.leaderships[T0], assignment, is_new=True)
    batch.stop_replica(BrokerId(1), T0, delete=True)
    batch.stop_replica(BrokerId(1), T0, delete=False)
    batch.stop_replica(BrokerId(7), T0, delete=False)
    trio.run(batch.flush)
    assert [(broker_id, type(r.message).__name__) for broker_id, r in put] == [
        (0, "LeaderAndIsrRequest"),
        (1, "LeaderAndIsrRequest"),
        (0, "UpdateMetadataRequest"),
        (1, "UpdateMetadataRequest"),
        (1, "StopReplicaRequest"),
    ]
    for broker_id, request in put:
        body = encode(request.message, request.version)
        decoded = decode(type(request.message), request.version, body)
        assert (decoded.controller_epoch, decoded.broker_epoch) == (3, 100 + broker_id)
    stop = put[-1][1].message.topic_states[0].partition_states[0]
    assert (stop.delete_partition, stop.leader_epoch) == (True, 2)
    put.clear()
    trio.run(batch.flush)
    assert put == []


def test_large_requests_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_batch, "MAX_PARTITIONS_PER_REQUEST", 4)
    context, batch, put = make("3.9")
    assignment = PartitionAssignment((BrokerId(0),))
    context.add_topic("t", None, dict.fromkeys(range(10), assignment))
    for partition in range(10):
        tp = TopicPartition("t", partition)
        context.leaderships[tp] = leadership()
        batch.tell_role(assignment.replicas, tp, leadership(), assignment, is_new=False)
    trio.run(batch.flush)
    sizes = [
        (type(r.message).__name__, sum(len(t.partition_states) for t in r.message.topic_states))
        for broker_id, r in put
        if broker_id == 0
    ]
    assert sizes == [("LeaderAndIsrRequest", n) for n in (4, 4, 2)] + [
        ("UpdateMetadataRequest", n) for n in (4, 4, 2)
    ]
