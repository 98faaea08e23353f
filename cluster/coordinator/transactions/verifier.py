"""Asks transaction coordinators whether partitions belong to a transaction (KIP-890, part 1).

One request at a time goes to each coordinator, with all questions that have come meanwhile; those about the same
producer in the same epoch are merged, and none replaces another. A coordinator on this broker is asked without the
network. Every doubt is a refusal, except for a peer that does not know this request: a Kafka older than 3.6.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from cluster.coordinator.transactions.peer_channel import PeerChannel
from cluster.network.broker_client import ConnectionFailedError
from cluster.replication.leader.verified_appends import OnVerified, Question
from wire.apis import ApiKey
from wire.errors import ApiError, Error, RemoteProtocolError
from wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from wire.types import BrokerId, ProducerEpoch, ProducerId, TopicPartition

if TYPE_CHECKING:
    import trio

    from cluster.metrics.catalogue import BrokerMetrics
    from timing.clock import Clock

logger = logging.getLogger(__name__)

_VERIFY_SINCE: Final = 4
_VERIFY_MAX: Final = 5


class Verifier:
    """Asks coordinators.

    Args:
        broker_id: This broker.
        find_coordinator: Returns the broker that coordinates a transactional id; None if none is known.
        verify_here: Answers a question about a transaction that this broker coordinates.
        channel_to: Makes a channel to another broker.
        nursery: Where requests run.
        clock: Times answers.
        metrics: Counts questions that failed.
    """

    def __init__(
        self,
        broker_id: BrokerId,
        find_coordinator: Callable[[str], BrokerId | None],
        verify_here: Callable[[Question], Mapping[TopicPartition, Error]],
        channel_to: Callable[[BrokerId], PeerChannel],
        nursery: "trio.Nursery",
        clock: "Clock",
        metrics: "BrokerMetrics",
    ) -> None:
        self._broker_id = broker_id
        self._find_coordinator = find_coordinator
        self._verify_here = verify_here
        self._channel_to = channel_to
        self._nursery = nursery
        self._clock = clock
        self._metrics = metrics
        self._coordinators: dict[BrokerId, _Coordinator] = {}

    @property
    def waiting(self) -> int:
        """How many questions have no answer yet."""
        return sum(coordinator.waiting for coordinator in self._coordinators.values())

    def ask(self, question: Question, on_verified: OnVerified) -> None:
        """Ask a transaction's coordinator; ``on_verified`` is called with an answer for every partition."""
        began = self._clock.monotonic()

        def answered(answers: Mapping[TopicPartition, Error]) -> None:
            self._metrics.verification_time_ms.only.observe((self._clock.monotonic() - began) * 1000)
            failed = sum(1 for error in answers.values() if error is not Error.NONE)
            if failed:
                self._metrics.verification_failures.only.value += failed
            on_verified(answers)

        broker_id = self._find_coordinator(question.transactional_id)
        if broker_id is None:
            answered(dict.fromkeys(question.partitions, Error.COORDINATOR_NOT_AVAILABLE))
        elif broker_id == self._broker_id:
            answered(self._verify_here(question))
        else:
            coordinator = self._coordinators.get(broker_id)
            if coordinator is None:
                coordinator = self._coordinators[broker_id] = _Coordinator(
                    broker_id, self._channel_to(broker_id), self._nursery
                )
            coordinator.ask(question, answered)


_Key = tuple[str, ProducerId, ProducerEpoch]


class _Asked:
    """The questions about one producer in one epoch, and their askers."""

    __slots__ = ("askers", "partitions")

    def __init__(self) -> None:
        self.partitions: dict[TopicPartition, None] = {}
        self.askers: list[tuple[Question, OnVerified]] = []

    def answer(self, answers: Mapping[TopicPartition, Error]) -> None:
        """Pass each asker the answers about its partitions."""
        for question, on_verified in self.askers:
            # A coordinator that leaves a partition out has confirmed nothing.
            on_verified({at: answers.get(at, Error.INVALID_TXN_STATE) for at in question.partitions})

    def answer_all(self, error: Error) -> None:
        """Pass every asker the same answer."""
        self.answer(dict.fromkeys(self.partitions, error))


class _Coordinator:
    """Another broker, as a coordinator of transactions."""

    def __init__(self, broker_id: BrokerId, channel: PeerChannel, nursery: "trio.Nursery") -> None:
        self._broker_id = broker_id
        self._channel = channel
        self._nursery = nursery
        self._unsent: dict[_Key, _Asked] = {}
        self._is_asking = False
        self._has_warned = False
        self._sent = 0

    @property
    def waiting(self) -> int:
        """How many questions have no answer yet."""
        return self._sent + sum(len(asked.askers) for asked in self._unsent.values())

    def ask(self, question: Question, on_verified: OnVerified) -> None:
        """Add a question to the next request."""
        key = (question.transactional_id, question.producer_id, question.producer_epoch)
        asked = self._unsent.get(key)
        if asked is None:
            asked = self._unsent[key] = _Asked()
        asked.partitions.update(dict.fromkeys(question.partitions))
        asked.askers.append((question, on_verified))
        if not self._is_asking:
            self._is_asking = True
            self._nursery.start_soon(self._run, name=f"verification at broker {self._broker_id}")

    async def _run(self) -> None:
        try:
            while self._unsent:
                batch = self._take()
                self._sent = sum(len(asked.askers) for asked in batch.values())
                answers = await self._ask_once(batch)
                self._sent = 0
                for key, asked in batch.items():
                    found = (
                        answers
                        if isinstance(answers, Error)
                        else answers.get(key[0], Error.INVALID_TXN_STATE)
                    )
                    if isinstance(found, Error):
                        asked.answer_all(found)
                    else:
                        asked.answer(found)
        finally:
            self._is_asking = False

    def _take(self) -> dict[_Key, _Asked]:
        """Take the questions for one request: one per transactional id, because the response names only these."""
        batch: dict[_Key, _Asked] = {}
        ids = set()
        for key in tuple(self._unsent):
            if key[0] not in ids:
                ids.add(key[0])
                batch[key] = self._unsent.pop(key)
        return batch

    async def _ask_once(
        self, batch: Mapping[_Key, _Asked]
    ) -> Error | dict[str, Mapping[TopicPartition, Error]]:
        """Ask, a second time if the connection had gone stale; return one answer for all, or answers by id."""
        again = self._channel.is_used
        while True:
            try:
                version = min(await self._channel.highest_version(ApiKey.ADD_PARTITIONS_TO_TXN), _VERIFY_MAX)
                if version < _VERIFY_SINCE:
                    self._warn()
                    return Error.NONE
                return _read(await self._channel.request(_request(batch), version))
            except ConnectionFailedError as failure:
                if not again:
                    logger.info("transactions are not verified at broker %d: %s", self._broker_id, failure)
                    return Error.NETWORK_EXCEPTION
                again = False
            except ApiError:
                return Error.COORDINATOR_NOT_AVAILABLE
            except RemoteProtocolError as failure:
                logger.error("broker %d verifies transactions wrongly: %s", self._broker_id, failure)
                return Error.NETWORK_EXCEPTION

    def _warn(self) -> None:
        if not self._has_warned:
            self._has_warned = True
            logger.warning(
                "broker %d cannot verify transactions (AddPartitionsToTxn 4, Kafka 3.6): those it coordinates "
                "are appended unverified",
                self._broker_id,
            )


def _request(batch: Mapping[_Key, _Asked]) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnTransaction(
                transactional_id=transactional_id,
                producer_id=producer_id,
                producer_epoch=epoch,
                verify_only=True,
                topics=[
                    AddPartitionsToTxnTopic(name=name, partitions=partitions)
                    for name, partitions in _by_topic(tuple(asked.partitions)).items()
                ],
            )
            for (transactional_id, producer_id, epoch), asked in batch.items()
        ]
    )


def _by_topic(partitions: Sequence[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append(number)
    return topics


def _read(response: AddPartitionsToTxnResponse) -> Error | dict[str, Mapping[TopicPartition, Error]]:
    if response.error_code:
        error = Error.from_code(response.error_code)
        logger.error("verifying transactions is refused: %s", error.name)
        return Error.INVALID_TXN_STATE
    return {
        result.transactional_id: {
            TopicPartition(topic.name, each.partition_index): Error.from_code(each.partition_error_code)
            for topic in result.topic_results
            for each in topic.results_by_partition
        }
        for result in response.results_by_transaction
    }
