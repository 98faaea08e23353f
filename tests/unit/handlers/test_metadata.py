"""Metadata, DescribeCluster and FindCoordinator, answered from the controller's UpdateMetadata."""

from dataclasses import dataclass, field

import pytest
import trio
import trio.testing

from cluster.configuration.broker_config import BrokerConfig
from cluster.handlers import describe_cluster, find_coordinator
from cluster.handlers.authorized_operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS
from cluster.handlers.call import ApiCall
from cluster.handlers.metadata import MetadataHandler
from cluster.handlers.metadata_waits import wait_all_told, wait_told
from cluster.network.response_slot import ResponseSlot
from cluster.replication.metadata_cache import MetadataCache
from tests.unit.handlers.calls import Broker, Connection
from wire.apis import ApiKey
from wire.errors import Error
from wire.frames import RequestHeader, decode_response
from wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from wire.types import NO_TOPIC_ID

ID = bytes(range(16))


def endpoint(port, listener="PLAINTEXT"):
    return UpdateMetadataEndpoint(port=port, host=f"host{port}", listener=listener, security_protocol=0)


def update(partitions, topic="t", brokers=(1, 2), topic_id=ID, second_listener=(1,)):
    return UpdateMetadataRequest(
        controller_id=2,
        live_brokers=[
            UpdateMetadataBroker(
                id=broker,
                rack=f"r{broker}",
                endpoints=[endpoint(9000 + broker)]
                + ([endpoint(8000 + broker, "OTHER")] if broker in second_listener else []),
            )
            for broker in brokers
        ],
        topic_states=[
            UpdateMetadataTopicState(
                topic_name=topic,
                topic_id=topic_id,
                partition_states=[
                    UpdateMetadataPartitionState(
                        partition_index=index,
                        leader=leader,
                        leader_epoch=5,
                        isr=[leader],
                        replicas=[1, 2, 3],
                        offline_replicas=[3],
                    )
                    for index, leader in partitions.items()
                ],
            )
        ],
    )


class Creation:
    def __init__(self):
        self.asked = []

    async def create(self, names):
        self.asked.append(list(names))
        return dict.fromkeys(names, Error.LEADER_NOT_AVAILABLE)


class TwoPartitions:
    """Stands in for the groups: only the number of partitions of the coordinator's topic matters here."""

    partition_count = 2


@dataclass(eq=False)
class Asked(Broker):
    metadata: MetadataCache
    config: BrokerConfig
    cluster_id: str = "cluster"
    auto_creation: Creation = field(default_factory=Creation)
    nursery: trio.Nursery | None = None
    groups: TwoPartitions = field(default_factory=TwoPartitions)


class SilentController:
    async def wait_heard(self):
        await trio.sleep_forever()


@dataclass(eq=False)
class Controlling(Broker):
    metadata: MetadataCache
    controller: SilentController


def cluster(*updates, auto_create=True):
    metadata = MetadataCache()
    for each in updates:
        metadata.update(each)
    config = BrokerConfig(
        {
            "zookeeper.connect": "x",
            "broker.id": "1",
            "auto.create.topics.enable": str(auto_create).lower(),
        }
    )
    return Asked(metadata, config)


def ask(broker, begin, key, request, cls, version, listener="PLAINTEXT", meanwhile=None):
    """Begin a request, run what it started, and return the decoded response."""
    connection = Connection(listener_name=listener)
    answers = connection.answers

    async def main():
        async with trio.open_nursery() as broker.nursery:
            begin(ApiCall(RequestHeader(key, version, 9, "c"), request, ResponseSlot(connection, 0), broker))
            if meanwhile is not None:
                await trio.testing.wait_all_tasks_blocked()
                assert answers == []
                meanwhile()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    (answer,) = answers
    correlation_id, response = decode_response(cls, version, bytes(answer), 4)
    assert correlation_id == 9
    return response


def metadata_of(broker, request, version=12, handler=None, **kwargs):
    begin = (handler or MetadataHandler()).begin
    return ask(broker, begin, ApiKey.METADATA, request, MetadataResponse, version, **kwargs)


def names(*topics):
    return [MetadataRequestTopic(name=name) for name in topics]


@pytest.mark.parametrize("version", range(13))
def test_all_topics(version):
    request = MetadataRequest(topics=[] if version == 0 else None)
    response = metadata_of(cluster(update({0: 1, 1: 2})), request, version)
    assert [(each.node_id, each.host, each.port) for each in response.brokers] == [
        (1, "host9001", 9001),
        (2, "host9002", 9002),
    ]
    (topic,) = response.topics
    assert topic.name == "t"
    assert topic.topic_id == (ID if version >= 10 else NO_TOPIC_ID)
    # Version 0 leaves out the replica on the dead broker 3 and says so.
    replicas = [1, 2] if version == 0 else [1, 2, 3]
    error = Error.REPLICA_NOT_AVAILABLE if version == 0 else Error.NONE
    assert [(p.partition_index, p.leader_id, p.error_code) for p in topic.partitions] == [
        (0, 1, error),
        (1, 2, error),
    ]
    assert all(list(p.replica_nodes) == replicas for p in topic.partitions)
    assert response.controller_id == (2 if version >= 1 else -1)
    assert response.cluster_id == ("cluster" if version >= 2 else None)


def test_no_topics_is_not_all_topics():
    assert metadata_of(cluster(update({0: 1})), MetadataRequest(topics=[])).topics == []


def test_a_leader_that_is_dead_or_lacks_the_listener():
    broker = cluster(update({0: 1, 1: 2, 2: 3}))
    response = metadata_of(broker, MetadataRequest(topics=None), listener="OTHER")
    assert [(each.node_id, each.port) for each in response.brokers] == [(1, 8001)]
    assert [(p.leader_id, p.error_code) for p in response.topics[0].partitions] == [
        (1, Error.NONE),
        (-1, Error.LISTENER_NOT_FOUND),
        (-1, Error.LEADER_NOT_AVAILABLE),
    ]
    old = metadata_of(broker, MetadataRequest(topics=None), 5, listener="OTHER")
    assert old.topics[0].partitions[1].error_code == Error.LEADER_NOT_AVAILABLE


def test_a_leader_that_seems_dead_leads_nothing_and_stays_a_broker():
    broker, handler = cluster(update({0: 1, 1: 2})), MetadataHandler()
    for is_suspect, leaders in [(False, [1, 2]), (True, [-1, 2]), (False, [1, 2])]:
        broker.metadata.suspect(1, is_suspect=is_suspect)
        response = metadata_of(broker, MetadataRequest(topics=names("t")), handler=handler)
        assert [each.leader_id for each in response.topics[0].partitions] == leaders
        assert [each.node_id for each in response.brokers] == [1, 2]


def test_a_client_that_comes_first_waits_for_the_controller_to_tell():
    broker = cluster()
    response = metadata_of(
        broker, MetadataRequest(topics=None), meanwhile=lambda: broker.metadata.update(update({0: 1}))
    )
    assert [each.node_id for each in response.brokers] == [1, 2]
    assert response.controller_id == 2


def test_a_client_does_not_wait_for_ever():
    assert metadata_of(cluster(), MetadataRequest(topics=None)).brokers == []


def test_topics_by_id():
    request = MetadataRequest(
        topics=[
            MetadataRequestTopic(name=None, topic_id=ID),
            MetadataRequestTopic(name=None, topic_id=b"x" * 16),
        ]
    )
    response = metadata_of(cluster(update({0: 1})), request)
    assert [(topic.name, topic.topic_id, topic.error_code) for topic in response.topics] == [
        ("t", ID, Error.NONE),
        (None, b"x" * 16, Error.UNKNOWN_TOPIC_ID),
    ]


def test_topics_by_id_are_refused_before_version_12():
    request = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=ID)])
    response = metadata_of(cluster(update({0: 1})), request, 11)
    assert [topic.error_code for topic in response.topics] == [Error.INVALID_REQUEST]


def test_an_unknown_topic_is_created_where_that_is_allowed():
    broker = cluster(update({0: 1}))
    response = metadata_of(broker, MetadataRequest(topics=names("t", "new", "a b")))
    assert [(topic.name, topic.error_code) for topic in response.topics] == [
        ("t", Error.NONE),
        ("new", Error.LEADER_NOT_AVAILABLE),
        ("a b", Error.INVALID_TOPIC_EXCEPTION),
    ]
    assert broker.auto_creation.asked == [["new"]]


@pytest.mark.parametrize(("auto_create", "allowed"), [(False, True), (True, False)])
def test_an_unknown_topic_is_not_created_where_that_is_not_allowed(auto_create, allowed):
    broker = cluster(auto_create=auto_create)
    request = MetadataRequest(topics=names("new"), allow_auto_topic_creation=allowed)
    response = metadata_of(broker, request)
    assert [topic.error_code for topic in response.topics] == [Error.UNKNOWN_TOPIC_OR_PARTITION]
    assert broker.auto_creation.asked == []


def test_internal_topics_are_marked():
    response = metadata_of(cluster(update({0: 1}, topic="__consumer_offsets")), MetadataRequest(topics=None))
    assert response.topics[0].is_internal


def test_authorized_operations_are_told_where_asked_for():
    request = MetadataRequest(
        topics=None, include_topic_authorized_operations=True, include_cluster_authorized_operations=True
    )
    response = metadata_of(cluster(update({0: 1})), request, 10)
    assert response.cluster_authorized_operations == CLUSTER_OPERATIONS
    assert response.topics[0].topic_authorized_operations == TOPIC_OPERATIONS
    plain = metadata_of(cluster(update({0: 1})), MetadataRequest(topics=None), 10)
    assert plain.topics[0].topic_authorized_operations == -(1 << 31)


def test_answers_are_kept_until_the_cluster_changes():
    broker, handler = cluster(update({0: 1})), MetadataHandler()
    request = MetadataRequest(topics=names("t"))
    first = metadata_of(broker, request, handler=handler)
    assert metadata_of(broker, request, handler=handler) == first
    broker.metadata.update(update({0: 2}))
    assert metadata_of(broker, request, handler=handler).topics[0].partitions[0].leader_id == 2
    broker.metadata.update(update({0: 2}, brokers=(1,)))
    changed = metadata_of(broker, request, handler=handler)
    assert changed.topics[0].partitions[0].error_code == Error.LEADER_NOT_AVAILABLE
    assert [each.node_id for each in changed.brokers] == [1]


def test_describe_cluster():
    broker = cluster(update({0: 1}))
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    key = ApiKey.DESCRIBE_CLUSTER
    response = ask(broker, describe_cluster.begin, key, request, DescribeClusterResponse, 1)
    assert (response.cluster_id, response.controller_id) == ("cluster", 2)
    assert [(each.broker_id, each.port, each.rack) for each in response.brokers] == [
        (1, 9001, "r1"),
        (2, 9002, "r2"),
    ]
    assert response.cluster_authorized_operations == CLUSTER_OPERATIONS
    controllers = DescribeClusterRequest(endpoint_type=2)
    refused = ask(broker, describe_cluster.begin, key, controllers, DescribeClusterResponse, 1)
    assert refused.error_code == Error.UNSUPPORTED_ENDPOINT_TYPE


@pytest.mark.parametrize("version", range(6))
def test_find_coordinator(version):
    broker = cluster(update({0: 1, 1: 2}, topic="__consumer_offsets"))
    request = (
        FindCoordinatorRequest(coordinator_keys=["a", "b"])
        if version >= 4
        else FindCoordinatorRequest(key="a")
    )
    response = ask(
        broker, find_coordinator.begin, ApiKey.FIND_COORDINATOR, request, FindCoordinatorResponse, version
    )
    if version >= 4:
        found = [(each.key, each.node_id, each.port, each.error_code) for each in response.coordinators]
        assert found == [("a", 2, 9002, 0), ("b", 1, 9001, 0)]
    else:
        assert (response.node_id, response.port, response.error_code) == (2, 9002, 0)


def test_a_coordinators_topic_is_created_when_it_is_asked_for():
    broker = cluster()
    request = FindCoordinatorRequest(coordinator_keys=["a"])
    key = ApiKey.FIND_COORDINATOR
    response = ask(broker, find_coordinator.begin, key, request, FindCoordinatorResponse, 4)
    assert response.coordinators[0].error_code == Error.COORDINATOR_NOT_AVAILABLE
    assert broker.auto_creation.asked == [["__consumer_offsets"]]


def test_a_coordinator_of_an_unknown_kind_is_refused():
    request = FindCoordinatorRequest(key="a", key_type=2)
    response = ask(
        cluster(), find_coordinator.begin, ApiKey.FIND_COORDINATOR, request, FindCoordinatorResponse, 3
    )
    assert response.error_code == Error.INVALID_REQUEST


def test_waiting_to_be_told():
    async def main():
        metadata = MetadataCache()
        seen = []

        async def wait():
            seen.append(await wait_told(metadata, lambda snapshot: "t" in snapshot.topics, 1000))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            metadata.update(update({0: 1}, topic="u"))
            await trio.testing.wait_all_tasks_blocked()
            assert not seen
            metadata.update(update({0: 1}))
        assert seen == [True]
        assert not await wait_told(metadata, lambda snapshot: "v" in snapshot.topics, 50)
        assert not await wait_told(metadata, lambda snapshot: "v" in snapshot.topics, 0)

    import trio.testing

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


@pytest.mark.parametrize(("timeout_ms", "waited_s"), [(30_000, 1.0), (200, 0.2), (0, 0.0)])
def test_other_brokers_are_waited_for_a_little(timeout_ms, waited_s):
    import trio.testing

    async def main():
        broker = Controlling(MetadataCache(), SilentController())
        broker.metadata.update(update({0: 1}))
        began_at = trio.current_time()
        assert await wait_all_told(broker, lambda snapshot: "t" in snapshot.topics, timeout_ms)
        assert trio.current_time() - began_at == pytest.approx(waited_s)
        assert not await wait_all_told(broker, lambda snapshot: "v" in snapshot.topics, timeout_ms)

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
