"""Transactions: what coordinators know of them, what partitions know of producers, and ending one by hand (KIP-664)."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.client import runtime
from ottla.client.admin.router import Router, raise_for
from ottla.client.errors import ClientError, refusal
from wire.errors import Error
from wire.types import BrokerId, Offset, ProducerEpoch, ProducerId, TopicPartition, WallMs

if TYPE_CHECKING:
    from wire.messages.describe_producers import PartitionResponse

_TRANSACTIONS = 1
_FENCES_MAX = 20
"""How many ids are fenced at a time."""


@dataclass(frozen=True, slots=True)
class ListedTransaction:
    """A transactional id as its coordinator lists it."""

    transactional_id: str
    coordinator: BrokerId
    producer_id: ProducerId
    state: str


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """A transactional id; while markers are on their way, `partitions` are those that still lack theirs."""

    transactional_id: str
    coordinator: BrokerId
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    state: str
    timeout_ms: int
    started_at: WallMs
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class ProducerDescription:
    """A producer as a replica of a partition knows it; `transaction_start` is -1 where none is open."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    coordinator_epoch: int
    last_sequence: int
    last_timestamp: WallMs
    transaction_start: Offset


@dataclass(frozen=True, slots=True)
class FencedProducer:
    """The producer of a transactional id after a fence: earlier users have an older epoch, or another producer id."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch


class TransactionsAdmin:
    """The admin client's calls for transactions. Needs brokers of version 3.0 or later."""

    def __init__(self, router: Router) -> None:
        self._router = router

    async def list_transactions(
        self,
        states: Sequence[str] = (),
        producer_ids: Sequence[ProducerId] = (),
        *,
        longer_than_ms: int = -1,
    ) -> list[ListedTransaction]:
        """Return the transactional ids of all coordinators, sorted.

        Args:
            states: Only ids in these states; all, where none are named.
            producer_ids: Only those of these producers, likewise.
            longer_than_ms: Only transactions that began longer ago; all, where negative.

        Raises:
            ClientError: a coordinator refuses, or knows no such state.
            BrokerUnreachable: one cannot be reached: the list would not be whole.
        """
        from wire.messages import list_transactions as api

        request = api.ListTransactionsRequest(
            state_filters=states, producer_id_filters=producer_ids, duration_filter=longer_than_ms
        )
        found: list[ListedTransaction] = []
        for broker_id in sorted((await self._router.refresh()).brokers):

            async def ask(broker_id: BrokerId = broker_id) -> api.ListTransactionsResponse:
                answer: api.ListTransactionsResponse = await self._router.ask_broker(broker_id, request)
                raise_for(answer.error_code, None, f"the transactions of broker {broker_id}")
                return answer

            answer = await self._router.until_settled(ask)
            if answer.unknown_state_filters:
                names = ", ".join(answer.unknown_state_filters)
                raise refusal(Error.INVALID_REQUEST, f"broker {broker_id} knows no state {names}")
            found.extend(
                ListedTransaction(each.transactional_id, broker_id, each.producer_id, each.transaction_state)
                for each in answer.transaction_states
            )
        return sorted(found, key=lambda each: each.transactional_id)

    async def describe_transaction(self, transactional_id: str) -> TransactionDescription:
        """Describe a transactional id.

        Raises:
            ClientError: there is no such id, or its coordinator refuses.
        """
        from wire.messages import describe_transactions as api

        what = f"transactional id {transactional_id!r}"
        request = api.DescribeTransactionsRequest(transactional_ids=[transactional_id])

        async def ask() -> TransactionDescription:
            coordinator = await self._router.find_coordinator(_TRANSACTIONS, transactional_id, what)
            answer: api.DescribeTransactionsResponse = await self._router.ask_broker(coordinator, request)
            (found,) = answer.transaction_states
            raise_for(found.error_code, None, what)
            return TransactionDescription(
                transactional_id,
                coordinator,
                found.producer_id,
                found.producer_epoch,
                found.transaction_state,
                found.transaction_timeout_ms,
                found.transaction_start_time_ms,
                tuple(
                    sorted(
                        TopicPartition(topic.topic, number)
                        for topic in found.topics
                        for number in topic.partitions
                    )
                ),
            )

        return await self._router.until_settled(ask)

    async def describe_producers(
        self, partitions: Collection[TopicPartition], broker_id: BrokerId | None = None
    ) -> dict[TopicPartition, list[ProducerDescription] | ClientError]:
        """Return the producers that replicas know: of the leaders, or of one broker's replicas.

        Raises:
            BrokerUnreachable: that broker cannot be reached.
        """
        from wire.messages import describe_producers as api

        def request(some: Collection[TopicPartition]) -> api.DescribeProducersRequest:
            return api.DescribeProducersRequest(
                topics=[
                    api.TopicRequest(name=name, partition_indexes=numbers)
                    for name, numbers in _by_topic(some).items()
                ]
            )

        def results(
            answer: api.DescribeProducersResponse,
        ) -> Mapping[TopicPartition, list[ProducerDescription] | ClientError]:
            return {
                TopicPartition(topic.name, each.partition_index): _producers(each)
                for topic in answer.topics
                for each in topic.partitions
            }

        if broker_id is not None:
            return dict(results(await self._router.ask_broker(broker_id, request(partitions))))
        return await self._router.ask_leaders(partitions, request, results)

    async def fence_producers(
        self, transactional_ids: Collection[str]
    ) -> dict[str, FencedProducer | ClientError]:
        """Shut out the producers that use some transactional ids, and abort what they have open.

        Each id gets its next epoch, as by a new producer of that name: later requests of its present producer are
        refused, its records included. An id that no coordinator knows is created. If a transaction is open, the outcome
        comes once all its partitions have their markers.

        Returns:
            The outcome of each id.
        """
        outcomes: dict[str, FencedProducer | ClientError] = {}
        turns = runtime.new_limiter(_FENCES_MAX)

        async def fence(transactional_id: str) -> None:
            await turns.acquire_on_behalf_of(transactional_id)
            try:
                outcomes[transactional_id] = await self._fence(transactional_id)
            except ClientError as error:
                outcomes[transactional_id] = error
            finally:
                turns.release_on_behalf_of(transactional_id)

        wanted = dict.fromkeys(transactional_ids)
        async with runtime.open_nursery() as nursery:
            for transactional_id in wanted:
                nursery.start_soon(fence, transactional_id)
        return {transactional_id: outcomes[transactional_id] for transactional_id in wanted}

    async def _fence(self, transactional_id: str) -> FencedProducer:
        from wire.messages import init_producer_id as api

        what = f"transactional id {transactional_id!r}"
        # The timeout is for transactions of the new epoch, of which there will be none.
        request = api.InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=self._router.timeout_ms
        )

        async def ask() -> FencedProducer:
            coordinator = await self._router.find_coordinator(_TRANSACTIONS, transactional_id, what)
            answer: api.InitProducerIdResponse = await self._router.ask_broker(coordinator, request)
            raise_for(answer.error_code, None, what)
            return FencedProducer(answer.producer_id, answer.producer_epoch)

        return await self._router.until_settled(ask, passing={Error.CONCURRENT_TRANSACTIONS})

    async def abort_in_partition(
        self,
        partition: TopicPartition,
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch,
        coordinator_epoch: int,
    ) -> None:
        """Write an abort marker to a partition's leader, past the coordinator, which does not learn of it.

        Raises:
            ClientError: the leader refuses, or there is none.
            BrokerUnreachable: it cannot be reached.
        """
        from wire.messages import write_txn_markers as api

        request = api.WriteTxnMarkersRequest(
            markers=[
                api.WritableTxnMarker(
                    producer_id=producer_id,
                    producer_epoch=producer_epoch,
                    transaction_result=False,
                    topics=[
                        api.WritableTxnMarkerTopic(
                            name=partition.topic, partition_indexes=[partition.partition]
                        )
                    ],
                    # A partition that no coordinator has written to yet reports -1.
                    coordinator_epoch=max(coordinator_epoch, 0),
                )
            ]
        )

        def results(answer: api.WriteTxnMarkersResponse) -> dict[TopicPartition, Error | ClientError]:
            return {
                TopicPartition(topic.name, each.partition_index): refusal(Error.from_code(each.error_code))
                if each.error_code
                else Error.NONE
                for marker in answer.markers
                for topic in marker.topics
                for each in topic.partitions
            }

        outcome = (await self._router.ask_leaders([partition], lambda _: request, results))[partition]
        if isinstance(outcome, ClientError):
            raise outcome

    async def transactions_of(
        self, producer_ids: Sequence[ProducerId]
    ) -> dict[ProducerId, TransactionDescription | None]:
        """Return the transaction of each producer, None where no coordinator knows the producer.

        Raises:
            ClientError, BrokerUnreachable: as `list_transactions` and `describe_transaction`.
        """
        found: dict[ProducerId, TransactionDescription | None] = dict.fromkeys(producer_ids)
        for listed in await self.list_transactions(producer_ids=producer_ids):
            try:
                found[listed.producer_id] = await self.describe_transaction(listed.transactional_id)
            except ClientError as error:
                if error.error is not Error.TRANSACTIONAL_ID_NOT_FOUND:
                    raise
        return found


def _producers(found: "PartitionResponse") -> list[ProducerDescription] | ClientError:
    if found.error_code:
        error = Error.from_code(found.error_code)
        return refusal(error, found.error_message or error.text)
    return [
        ProducerDescription(
            each.producer_id,
            each.producer_epoch,
            each.coordinator_epoch,
            each.last_sequence,
            each.last_timestamp,
            each.current_txn_start_offset,
        )
        for each in found.active_producers
    ]


def _by_topic(partitions: Collection[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return topics
