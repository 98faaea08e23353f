"""What a transactional producer asks its coordinators, again and again until there is a final answer."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from ottla.client import runtime
from ottla.client.batch_encoding import NO_IDENTITY, ProducerIdentity
from ottla.client.context import ClientContext
from ottla.client.coordinator_link import GROUP, TRANSACTION, CoordinatorLink
from ottla.client.errors import BrokerUnreachable, error_for
from ottla.client.membership import Membership
from ottla.client.offset_commits import CommittedOffset
from ottla.client.transactions import TransactionMachine, Verdict, fatal_error, verdict_on
from wire.errors import Error
from wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from wire.messages.end_txn import EndTxnRequest
from wire.messages.init_producer_id import InitProducerIdRequest
from wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from wire.schema import Request
from wire.types import Offset, TopicPartition

_ADD_PARTITIONS_MAX: Final = 3
"""Later versions are for brokers."""
_FIRST_RETRY_S: Final = 0.02
"""The wait after a first CONCURRENT_TRANSACTIONS: markers of the transaction before are being written."""


class TransactionRequests:
    """Asks on behalf of one transactional producer.

    Args:
        context: The client's connections.
        machine: The producer's transactions.
        transaction_timeout: Seconds after which the coordinator aborts an open transaction.
    """

    def __init__(
        self, context: ClientContext, machine: TransactionMachine, transaction_timeout: float
    ) -> None:
        self._context = context
        self._machine = machine
        self._timeout_ms = int(transaction_timeout * 1000)
        self._coordinator = CoordinatorLink(context, TRANSACTION, machine.transactional_id)
        self._groups: dict[str, CoordinatorLink] = {}

    def close(self) -> None:
        """Close the connections."""
        self._coordinator.close()
        for each in self._groups.values():
            each.close()

    async def init(self, current: ProducerIdentity) -> ProducerIdentity:
        """Get a producer id and epoch: fences earlier users of the id; with a current one, raises its epoch.

        Raises:
            ProducerFenced: Another producer has the id.
            ClientError: The coordinator refuses it.
        """
        identity = current if current.producer_id >= 0 else NO_IDENTITY
        request = InitProducerIdRequest(
            transactional_id=self._machine.transactional_id,
            transaction_timeout_ms=self._timeout_ms,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
        )
        answer = await self._ask(self._coordinator, request, _code)
        return ProducerIdentity(answer.producer_id, answer.producer_epoch)

    async def add_partitions(self, identity: ProducerIdentity, partitions: Iterable[TopicPartition]) -> None:
        """Make partitions part of the transaction; raises as `end`."""
        topics: dict[str, list[int]] = {}
        for partition in partitions:
            topics.setdefault(partition.topic, []).append(partition.partition)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._machine.transactional_id,
            v3_and_below_producer_id=identity.producer_id,
            v3_and_below_producer_epoch=identity.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=n, partitions=some) for n, some in topics.items()
            ],
        )
        await self._ask(self._coordinator, request, _partition_codes, at_most=_ADD_PARTITIONS_MAX)

    async def add_offsets(
        self,
        identity: ProducerIdentity,
        member: Membership,
        offsets: Mapping[TopicPartition, CommittedOffset],
    ) -> None:
        """Make a group's offsets part of the transaction, fenced by its member and generation (KIP-447).

        Raises:
            TransactionAborted: The group has a new generation without this member.
            ClientError: As `end`.
        """
        transactional_id = self._machine.transactional_id
        await self._ask(
            self._coordinator,
            AddOffsetsToTxnRequest(
                transactional_id=transactional_id,
                producer_id=identity.producer_id,
                producer_epoch=identity.epoch,
                group_id=member.group_id,
            ),
            _code,
        )
        self._machine.has_offsets = True
        topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for partition, committed in offsets.items():
            topics.setdefault(partition.topic, []).append(
                TxnOffsetCommitRequestPartition(
                    partition_index=partition.partition,
                    committed_offset=Offset(committed.offset),
                    committed_leader_epoch=committed.leader_epoch,
                    committed_metadata=committed.metadata,
                )
            )
        request = TxnOffsetCommitRequest(
            transactional_id=transactional_id,
            group_id=member.group_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            generation_id=member.generation,
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            topics=[TxnOffsetCommitRequestTopic(name=name, partitions=some) for name, some in topics.items()],
        )
        group = self._groups.get(member.group_id)
        if group is None:
            group = self._groups[member.group_id] = CoordinatorLink(self._context, GROUP, member.group_id)
        await self._ask(group, request, _offset_codes)

    async def end(self, identity: ProducerIdentity, *, committed: bool) -> None:
        """Commit or abort; may be asked again after a lost answer.

        Raises:
            TransactionAborted: The coordinator says that it can only be aborted.
            ProducerFenced: Another producer has the id.
            ClientError: The coordinator refuses it for good.
        """
        request = EndTxnRequest(
            transactional_id=self._machine.transactional_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            committed=committed,
        )
        await self._ask(self._coordinator, request, _code)

    async def _ask(
        self,
        coordinator: CoordinatorLink,
        request: Request,
        codes: Callable[[Any], Iterable[int]],
        *,
        at_most: int | None = None,
    ) -> Any:
        failures = 0
        while True:
            try:
                answer = await coordinator.ask(request, at_most=at_most)
            except BrokerUnreachable:
                answer = None
            if answer is not None:
                error = next((Error.from_code(code) for code in codes(answer) if code), Error.NONE)
                match verdict_on(error):
                    case Verdict.DONE:
                        return answer
                    case Verdict.FIND:
                        coordinator.forget()
                    case Verdict.FATAL:
                        fatal = fatal_error(error, self._machine.transactional_id)
                        self._machine.fail(fatal)
                        raise fatal
                    case Verdict.ABORT:
                        what = f"transactional id {self._machine.transactional_id!r}"
                        self._machine.doubt(error_for(error, what))
                        raise self._machine.aborted_error()
                    case Verdict.RETRY:
                        pass
            backoff = self._context.retry_backoff
            await runtime.sleep(backoff.delay_s(failures - 1) if failures else _FIRST_RETRY_S)
            failures += 1


def _code(answer: Any) -> Iterable[int]:
    return (answer.error_code,)


def _partition_codes(answer: Any) -> Iterable[int]:
    found = [
        each.partition_error_code
        for topic in answer.results_by_topic_v3_and_below
        for each in topic.results_by_partition
    ]
    # OPERATION_NOT_ATTEMPTED only says that another partition has an error: that error counts.
    return [code for code in found if code != Error.OPERATION_NOT_ATTEMPTED] or found


def _offset_codes(answer: Any) -> Iterable[int]:
    return [each.error_code for topic in answer.topics for each in topic.partitions]
