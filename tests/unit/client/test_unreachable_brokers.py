"""Brokers that cannot be reached: named with what they lead, or replaced by those now at the bootstrap addresses."""

from collections.abc import Callable

import pytest
import trio

from ottla.client import DeliveryError, connect
from tests.unit.client.test_connecting import PlayedBroker, closed_port
from wire.apis import ApiKey
from wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from wire.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from wire.schema import Request, Response
from wire.types import BrokerId, LeaderEpoch, Offset


def cluster_of(leader: BrokerId, ports: Callable[[], dict[int, int]]) -> Callable[[Request], Response]:
    """Return a function that answers Metadata: these brokers, of which one leads every topic's only partition."""

    def metadata(request: Request) -> Response:
        partition = MetadataResponsePartition(
            partition_index=0, leader_id=leader, leader_epoch=LeaderEpoch(0)
        )
        return MetadataResponse(
            cluster_id="played",
            brokers=[
                MetadataResponseBroker(node_id=BrokerId(number), host="127.0.0.1", port=port)
                for number, port in ports().items()
            ],
            topics=[
                MetadataResponseTopic(name=each.name, partitions=[partition])
                for each in getattr(request, "topics", None) or ()
            ],
        )

    return metadata


def test_an_advertised_listener_that_leads_nowhere_is_named_with_the_topic() -> None:
    nowhere = closed_port()

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            ports = cluster_of(BrokerId(2), lambda: {1: broker.port, 2: nowhere})
            broker = PlayedBroker({ApiKey.METADATA: ports})
            await nursery.start(broker.serve)
            async with (
                connect(f"127.0.0.1:{broker.port}", request_timeout=0.2) as kafka,
                kafka.producer(acks=1, linger=0, delivery_timeout=0.3) as out,
            ):
                with pytest.raises(DeliveryError) as caught:
                    await out.send("orders", b"1")
            nursery.cancel_scope.cancel()
        said = str(caught.value)
        assert said.startswith("orders-0: ")
        assert f"its leader cannot be reached: broker 2, advertised at 127.0.0.1:{nowhere}: " in said
        assert "Connection refused" in said
        assert not caught.value.maybe_written

    trio.run(main)


def test_brokers_that_were_replaced_behind_the_same_addresses_are_found() -> None:
    async def main() -> None:
        wrote: list[int] = []

        def player(number: int) -> PlayedBroker:
            def produced(_: Request) -> Response:
                wrote.append(number)
                done = PartitionProduceResponse(index=0, error_code=0, base_offset=Offset(0))
                return ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=[done])])

            metadata = cluster_of(BrokerId(number), lambda: {number: played.port})
            played = PlayedBroker({ApiKey.METADATA: metadata, ApiKey.PRODUCE: produced})
            return played

        async def serve(broker: PlayedBroker, task_status: trio.TaskStatus[trio.CancelScope]) -> None:
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as inner:
                    await inner.start(broker.serve)
                    task_status.started(scope)

        with trio.fail_after(20):
            async with trio.open_nursery() as nursery:
                brokers = {number: player(number) for number in (1, 2)}
                lives = {number: await nursery.start(serve, broker) for number, broker in brokers.items()}
                addresses = ",".join(f"127.0.0.1:{broker.port}" for broker in brokers.values())
                async with (
                    connect(addresses, reconnect_backoff_max=0.05, retry_backoff_max=0.05) as kafka,
                    kafka.producer(acks=1, linger=0) as out,
                ):
                    await out.send("t", b"1")
                    (first,) = wrote
                    lives[first].cancel()
                    await out.send("t", b"2")
                nursery.cancel_scope.cancel()
        assert wrote[-1] != first

    trio.run(main)
