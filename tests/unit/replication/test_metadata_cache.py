"""The effect of UpdateMetadata on a broker's metadata cache."""

import pytest
import trio
import trio.testing

from cluster.network.endpoints import SecurityProtocol
from cluster.replication.metadata_cache import MetadataCache
from wire.errors import RemoteProtocolError
from wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from wire.types import NO_TOPIC_ID, TopicId, TopicPartition

ID = TopicId(b"0123456789abcdef")


def state(index, leader=1, **rest):
    return UpdateMetadataPartitionState(partition_index=index, leader=leader, **rest)


def update_of(*topics, brokers=(1, 2), controller_id=1):
    return UpdateMetadataRequest(
        controller_id=controller_id,
        topic_states=[
            UpdateMetadataTopicState(topic_name=name, topic_id=topic_id, partition_states=states)
            for name, topic_id, states in topics
        ],
        live_brokers=[
            UpdateMetadataBroker(
                id=one,
                rack=f"rack{one}",
                endpoints=[
                    UpdateMetadataEndpoint(port=one, host="h", listener="PLAINTEXT"),
                    UpdateMetadataEndpoint(port=one + 100, host="h", listener="TLS", security_protocol=1),
                ],
            )
            for one in brokers
        ],
    )


@pytest.fixture
def cache():
    cache = MetadataCache()
    cache.update(update_of(("a", ID, [state(0), state(1)]), ("b", NO_TOPIC_ID, [state(0)])))
    return cache


def test_partitions_are_merged_and_brokers_replaced(cache):
    cache.update(update_of(("a", ID, [state(1, leader=2)]), brokers=(2,)))
    assert cache.partition("a", 0).leader == 1
    assert cache.partition("a", 1).leader == 2
    assert cache.contains(TopicPartition("b", 0))
    assert not cache.is_alive(1)
    assert cache.is_alive(2)


def test_a_leader_of_minus_two_deletes_and_the_last_one_takes_the_topic(cache):
    assert cache.update(update_of(("a", ID, [state(0, leader=-2)]))) == [TopicPartition("a", 0)]
    assert cache.snapshot.topic_ids == {"a": ID}
    assert cache.update(update_of(("a", ID, [state(1, leader=-2)]))) == [TopicPartition("a", 1)]
    assert "a" not in cache.snapshot.topics
    assert cache.snapshot.topic_ids == {}
    assert cache.snapshot.topic_names == {}


def test_a_topic_made_again_is_found_by_its_new_id_only(cache):
    other = TopicId(bytes(range(1, 17)))
    cache.update(update_of(("a", other, [state(0)])))
    assert cache.snapshot.topic_names == {other: "a"}
    assert cache.snapshot.topic_ids == {"a": other}


def test_no_leader_is_remembered(cache):
    cache.update(update_of(("a", ID, [state(0, leader=-1)])))
    assert cache.partition("a", 0).leader == -1


def test_deleted_and_made_again_in_one_request_is_not_deleted(cache):
    assert cache.update(update_of(("a", ID, [state(0, leader=-2), state(0, leader=2)]))) == []
    assert cache.partition("a", 0).leader == 2


def test_a_topic_without_an_id_loses_the_one_it_had(cache):
    cache.update(update_of(("a", NO_TOPIC_ID, [state(0)])))
    assert cache.snapshot.topic_ids == {}


def test_a_snapshot_never_changes(cache):
    before = cache.snapshot
    cache.update(update_of(("a", ID, [state(0, leader=2)]), brokers=(3,), controller_id=-1))
    assert before.topics["a"][0].leader == 1
    assert set(before.brokers) == {1, 2}
    assert (before.controller_id, cache.snapshot.controller_id) == (1, None)
    assert cache.snapshot.epoch == before.epoch + 1


def test_identity_tells_what_changed(cache):
    before = cache.snapshot
    cache.update(update_of(("a", ID, [state(0, leader=2)])))
    assert cache.snapshot.topics["b"] is before.topics["b"]
    assert cache.snapshot.topics["a"] is not before.topics["a"]
    assert cache.snapshot.brokers is before.brokers


def test_nodes_by_listener(cache):
    node = cache.node(2, "TLS")
    assert (node.port, node.rack, node.security_protocol) == (102, "rack2", SecurityProtocol.SSL)
    assert cache.node(2, "OTHER") is None
    assert cache.node(9, "TLS") is None


def test_old_versions_have_no_listener_names():
    cache = MetadataCache()
    cache.update(
        UpdateMetadataRequest(
            live_brokers=[
                UpdateMetadataBroker(id=1, v0_host="h", v0_port=9),
                UpdateMetadataBroker(
                    id=2, endpoints=[UpdateMetadataEndpoint(port=1, host="h", security_protocol=3)]
                ),
            ],
            ungrouped_partition_states=[state(0, topic_name="x")],
        )
    )
    assert cache.node(1, "PLAINTEXT").port == 9
    assert cache.node(2, "SASL_SSL").port == 1
    assert cache.contains(TopicPartition("x", 0))


def test_an_unknown_security_protocol_is_the_peers_fault():
    request = UpdateMetadataRequest(
        live_brokers=[UpdateMetadataBroker(id=2, endpoints=[UpdateMetadataEndpoint(security_protocol=9)])]
    )
    with pytest.raises(RemoteProtocolError):
        MetadataCache().update(request)


def test_waiting_for_the_next_update(cache):
    async def main():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cache.wait_changed)
            await trio.testing.wait_all_tasks_blocked()
            cache.update(update_of())

    trio.run(main)


def test_a_suspect_is_shown_to_clients_as_dead_until_it_is_none_any_more(cache):
    whole = cache.shown
    assert whole is cache.snapshot
    cache.suspect(1, is_suspect=True)
    assert list(cache.shown.brokers) == [2]
    assert cache.shown is cache.shown  # so that answers made from it stay cached
    assert cache.is_alive(1)
    cache.update(update_of(("a", ID, [state(1, leader=2)])))
    assert list(cache.shown.brokers) == [2]
    cache.suspect(1, is_suspect=False)
    assert cache.shown is cache.snapshot
    cache.suspect(9, is_suspect=True)
    assert cache.shown is cache.snapshot
