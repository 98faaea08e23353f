"""What the client knows of the cluster."""

from ottla.addresses import Address
from ottla.client.metadata import BrokerNode, ClusterMetadata
from wire.errors import Error
from wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from wire.types import BrokerId, LeaderEpoch, TopicId, TopicPartition

FIRST, SECOND = TopicId(b"1" * 16), TopicId(b"2" * 16)
PLACE = TopicPartition("t", 0)


def answer(leader: int, epoch: int, topic_id: TopicId = FIRST, error: Error = Error.NONE) -> MetadataResponse:
    partition = MetadataResponsePartition(
        partition_index=0, leader_id=BrokerId(leader), leader_epoch=LeaderEpoch(epoch)
    )
    return MetadataResponse(
        cluster_id="c",
        brokers=[MetadataResponseBroker(node_id=BrokerId(n), host=f"b{n}", port=9092) for n in (1, 2)],
        topics=[
            MetadataResponseTopic(
                name="t", topic_id=topic_id, error_code=error, partitions=[] if error else [partition]
            )
        ],
    )


def known(*answers: MetadataResponse) -> ClusterMetadata:
    metadata = ClusterMetadata()
    for each in answers:
        metadata.update(each, all_topics=False)
    return metadata


def test_an_epoch_never_goes_back() -> None:
    metadata = known(answer(2, 7), answer(1, 6))
    leader = metadata.leader(PLACE)
    assert leader is not None
    assert leader.id == 2
    metadata.update(answer(1, 8), all_topics=False)
    assert metadata.leader(PLACE) == BrokerNode(BrokerId(1), Address("b1", 9092))


def test_a_topic_made_anew_begins_with_its_own_epochs() -> None:
    metadata = known(answer(2, 7), answer(1, 0, SECOND))
    partition = metadata.partition(PLACE)
    assert partition is not None
    assert (partition.leader, partition.leader_epoch) == (1, 0)
    assert metadata.names_by_id == {SECOND: "t"}


def test_a_hint_counts_where_it_is_newer() -> None:
    metadata = known(answer(1, 3))
    third = BrokerNode(BrokerId(3), Address("b3", 9092))
    assert not metadata.apply_leader_hint(PLACE, BrokerId(3), LeaderEpoch(3), [third])
    assert not metadata.apply_leader_hint(PLACE, BrokerId(4), LeaderEpoch(4), [third]), "no address is known"
    assert metadata.apply_leader_hint(PLACE, BrokerId(3), LeaderEpoch(4), [third])
    assert metadata.leader(PLACE) == third
    metadata.update(answer(1, 3), all_topics=False)
    partition = metadata.partition(PLACE)
    assert partition is not None
    assert partition.leader == 3


def test_a_topic_that_is_gone_is_forgotten() -> None:
    metadata = known(answer(1, 3), answer(1, 3, error=Error.UNKNOWN_TOPIC_OR_PARTITION))
    assert metadata.partition_count("t") == 0
    assert metadata.topic_errors == {"t": Error.UNKNOWN_TOPIC_OR_PARTITION}
    assert metadata.names_by_id == {}
    metadata.update(answer(1, 3), all_topics=False)
    assert metadata.topic_errors == {}
    metadata.update(MetadataResponse(brokers=[]), all_topics=True)
    assert metadata.topics == {}
