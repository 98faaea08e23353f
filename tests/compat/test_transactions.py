"""Transactional clients against the cluster: what they commit is read once, what they abort is not read at all."""

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.compat import matrix
from tests.patience import until

PARTITIONS = matrix.PARTITIONS


@pytest.fixture
def topic(request, make_topics):
    name = f"{matrix.RUN}-{request.node.name.split('[')[0]}"
    make_topics.create([name])
    return name


def producer(cluster, transactional_id: str, **settings) -> Producer:
    made = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "transactional.id": f"{matrix.RUN}-{transactional_id}",
            "transaction.timeout.ms": 30_000,
            **settings,
        }
    )
    made.init_transactions(60)
    return made


def write(client: Producer, topic: str, *values: str) -> None:
    """Send each value to every partition."""
    failures: list = []
    for value in values:
        for partition in range(PARTITIONS):
            client.produce(
                topic,
                value.encode(),
                partition=partition,
                on_delivery=lambda error, _message: failures.append(error) if error else None,
            )
    assert client.flush(60) == 0
    assert failures == []


def read(cluster, topic: str, *, committed: bool = True) -> list[list[str]]:
    """Read each partition to its end: for readers of committed data, its last stable offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "none",
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    found: list[list[str]] = [[] for _ in range(PARTITIONS)]
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
        ended: set[int] = set()
        while len(ended) < PARTITIONS:
            message = consumer.poll(60)
            assert message is not None
            if message.error():
                assert message.error().name() == "_PARTITION_EOF"
                ended.add(message.partition())
            else:
                found[message.partition()].append(message.value().decode())
    finally:
        consumer.close()
    return found


def wait_read(cluster, topic: str, wanted: list[list[str]]) -> None:
    """Wait until committed data is just this: a commit is answered before its markers are written."""
    until(lambda: sum(map(len, read(cluster, topic))) == sum(map(len, wanted)))
    assert read(cluster, topic) == wanted


def everywhere(*values: str) -> list[list[str]]:
    return [list(values) for _ in range(PARTITIONS)]


def test_confluent_commits_and_aborts(cluster, topic) -> None:
    client = producer(cluster, "both")
    for number in range(5):
        client.begin_transaction()
        write(client, topic, f"committed {number}")
        client.commit_transaction(60)
        client.begin_transaction()
        write(client, topic, f"aborted {number}")
        client.abort_transaction(60)
    wanted = [f"committed {number}" for number in range(5)]
    assert read(cluster, topic) == everywhere(*wanted)
    both = [f"{what} {number}" for number in range(5) for what in ("committed", "aborted")]
    assert read(cluster, topic, committed=False) == everywhere(*both)


def test_an_open_transaction_is_not_read(cluster, topic) -> None:
    client = producer(cluster, "open")
    client.begin_transaction()
    write(client, topic, "first")
    client.commit_transaction(60)
    client.begin_transaction()
    write(client, topic, "second")
    assert read(cluster, topic) == everywhere("first")
    client.commit_transaction(60)
    wait_read(cluster, topic, everywhere("first", "second"))


def test_a_second_producer_of_an_id_fences_the_first(cluster, topic) -> None:
    first = producer(cluster, "twin")
    first.begin_transaction()
    write(first, topic, "of the first")
    second = producer(cluster, "twin")
    second.begin_transaction()
    write(second, topic, "of the second")
    second.commit_transaction(60)
    with pytest.raises(KafkaException) as caught:
        first.commit_transaction(60)
    assert caught.value.args[0].fatal()
    wait_read(cluster, topic, everywhere("of the second"))


def test_a_transaction_moves_a_group_and_writes_or_does_neither(cluster, topic, make_topics) -> None:
    incoming = f"{topic}-in"
    make_topics.create([incoming])
    source = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in range(20):
        source.produce(incoming, f"{number}".encode(), partition=0)
    assert source.flush(60) == 0
    group = f"{matrix.RUN}-transform"
    settings = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": group,
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    client = producer(cluster, "transform")
    consumer = Consumer(settings)
    consumer.subscribe([incoming])
    taken: list[int] = []
    while len(taken) < 10:
        message = consumer.poll(60)
        assert message is not None
        assert not message.error()
        client.begin_transaction()
        client.produce(topic, f"seen {message.value().decode()}".encode(), partition=1)
        client.send_offsets_to_transaction(
            consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), 60
        )
        if len(taken) % 2:
            client.abort_transaction(60)
            # Where a consumer stands after an abort is for the program to say.
            consumer.seek(TopicPartition(incoming, 0, message.offset()))
            again = consumer.poll(60)
            assert again is not None
            assert again.offset() == message.offset()
            client.begin_transaction()
            client.produce(topic, f"seen {again.value().decode()}".encode(), partition=1)
            client.send_offsets_to_transaction(
                consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), 60
            )
        client.commit_transaction(60)
        taken.append(message.offset())
    assert taken == list(range(10))
    committed = consumer.committed([TopicPartition(incoming, 0)], 60)
    assert committed[0].offset == 10
    consumer.close()
    wait_read(cluster, topic, [[], [f"seen {number}" for number in range(10)], []])
