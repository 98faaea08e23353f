"""Thousands of transactional ids with a transaction a second each: their cost, and a broker's longest loop turn.

Each transaction is one record in one partition: AddPartitionsToTxn, Produce, EndTxn. A few processes speak the raw
protocol for all ids, so that the clients cost little, and the same for every system. An id whose last transaction took
longer than its second begins the next one at once, which shows in the rate. Of Ottla's brokers the longest turn of the
loop is shown; see `bench.longest_turn`.
"""

import multiprocessing
import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from multiprocessing.connection import Connection
from typing import Any

import trio

from bench.group_members import ANSWER_S, GroupClient
from bench.loads import Figures, topic_of
from bench.longest_turn import Turns
from bench.processes import cpu_s, pss_mb
from bench.systems import Ottla, System
from ottla.addresses import parse_addresses
from wire.errors import Error
from wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from wire.messages.end_txn import EndTxnRequest
from wire.messages.find_coordinator import FindCoordinatorRequest
from wire.messages.init_producer_id import InitProducerIdRequest
from wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from wire.records.builder import build_batch
from wire.records.record import Record
from wire.schema import Request
from wire.types import NO_TIMESTAMP, ProducerEpoch, ProducerId

PARTITIONS = 50
PROCESSES = 2
_LANES = 16
"""Connections of a process to each broker: Kafka handles one request of a connection at a time."""
_PERIOD_S = 1.0
_TIMEOUT_MS = 60_000
_ADD_PARTITIONS_MAX = 3
_AGAIN_S = 0.02
_PASSING = frozenset(
    {
        Error.CONCURRENT_TRANSACTIONS,
        Error.COORDINATOR_NOT_AVAILABLE,
        Error.COORDINATOR_LOAD_IN_PROGRESS,
        Error.NOT_COORDINATOR,
        Error.NOT_ENOUGH_REPLICAS,
        Error.UNKNOWN_TOPIC_OR_PARTITION,
    }
)


def run_ids(system: System, ids: int, seconds: float) -> Figures:
    """Run transactions of many ids; those of the first third of the time are not counted."""
    topic = topic_of(system, 3, PARTITIONS)
    context = multiprocessing.get_context("spawn")
    pipes = []
    for number in range(PROCESSES):
        ours, theirs = multiprocessing.Pipe()
        names = [f"{topic}-{each}" for each in range(number, ids, PROCESSES)]
        arguments = (system.bootstrap, topic, names, seconds, theirs)
        context.Process(target=_run_process, args=arguments, daemon=True).start()
        pipes.append(ours)
    turns = Turns(system.data) if isinstance(system, Ottla) else None
    pids = system.broker_pids()
    _wait_for("ready", pipes)
    for pipe in pipes:
        pipe.send("go")
    _wait_for("warm", pipes)
    cpu = cpu_s(pids)
    if turns is not None:
        turns.take()
    _wait_for("over", pipes)
    cpu = cpu_s(pids) - cpu
    figures: Figures = {}
    if turns is not None:
        figures["longest turn ms"], _ = turns.take()
    took = [each for pipe in pipes for each in pipe.recv()]
    cut = statistics.quantiles(took, n=100)
    return {
        "transactions/s": len(took) / (seconds * 2 / 3),
        "CPU ms per transaction": cpu * 1000 / len(took),
        "p50 ms of a transaction": cut[49] * 1000,
        "p99 ms of a transaction": cut[98] * 1000,
        "PSS MB": pss_mb(pids),
        **figures,
    }


def _wait_for(word: str, pipes: Sequence[Connection]) -> None:
    for pipe in pipes:
        heard = pipe.recv()
        assert heard == word, heard


def _run_process(bootstrap: str, topic: str, names: Sequence[str], seconds: float, pipe: Connection) -> None:
    trio.run(_run, bootstrap, topic, names, seconds, pipe)


async def _run(bootstrap: str, topic: str, names: Sequence[str], seconds: float, pipe: Connection) -> None:
    async with AsyncExitStack() as stack:
        brokers = [
            [await stack.enter_async_context(GroupClient(address)) for _ in range(_LANES)]
            for address in parse_addresses(bootstrap)
        ]
        leaders = await _leaders(brokers[0][0], topic)
        coordinators = await _coordinators(brokers[0][0], names)
        ids = [
            _Id(
                name,
                brokers[coordinators[name]][number % _LANES],
                brokers[leaders[number % PARTITIONS]][number % _LANES],
                topic,
                number % PARTITIONS,
            )
            for number, name in enumerate(names)
        ]
        async with trio.open_nursery() as nursery:
            for each in ids:
                nursery.start_soon(each.begin)
        pipe.send("ready")
        await trio.to_thread.run_sync(pipe.recv)
        started = trio.current_time()
        warm_at, over_at = started + seconds / 3, started + seconds
        took: list[float] = []
        with trio.move_on_at(over_at):
            async with trio.open_nursery() as nursery:
                for number, each in enumerate(ids):
                    nursery.start_soon(each.run, started + number / len(ids), warm_at, took)
                await trio.sleep_until(warm_at)
                pipe.send("warm")
        pipe.send("over")
        pipe.send(took)


class _Id:
    """A transactional id and its transactions."""

    def __init__(
        self, name: str, coordinator: GroupClient, leader: GroupClient, topic: str, partition: int
    ) -> None:
        self._name = name
        self._coordinator = coordinator
        self._leader = leader
        self._topic = topic
        self._partition = partition
        self._sequence = 0
        self._producer_id, self._epoch = ProducerId(-1), ProducerEpoch(-1)

    async def begin(self) -> None:
        """Get a producer id."""
        request = InitProducerIdRequest(
            transactional_id=self._name, transaction_timeout_ms=_TIMEOUT_MS, producer_id=-1, producer_epoch=-1
        )
        while True:
            answer = await self._coordinator.ask(request)
            if _has_passed(answer.error_code, "InitProducerId"):
                self._producer_id, self._epoch = answer.producer_id, answer.producer_epoch
                return
            await trio.sleep(_AGAIN_S)

    async def run(self, due: float, warm_at: float, took: list[float]) -> None:
        """Run a transaction each second until cancelled; note the times of those that began after the warm-up."""
        while True:
            await trio.sleep_until(due)
            began = trio.current_time()
            await self._transact()
            ended = trio.current_time()
            if ended >= warm_at:
                took.append(ended - began)
            due = max(due + _PERIOD_S, ended)

    async def _transact(self) -> None:
        add = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._name,
            v3_and_below_producer_id=self._producer_id,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=self._topic, partitions=[self._partition])],
        )
        await self._settle(self._coordinator, add, _added, _ADD_PARTITIONS_MAX)
        batch = build_batch(
            [Record(0, NO_TIMESTAMP, None, bytes(100))],
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=self._sequence,
            transactional=True,
        )
        part = PartitionProduceData(index=self._partition, records=batch)
        produce = ProduceRequest(
            transactional_id=self._name,
            acks=-1,
            timeout_ms=_TIMEOUT_MS,
            topic_data=[TopicProduceData(name=self._topic, partition_data=[part])],
        )
        await self._settle(self._leader, produce, _produced)
        self._sequence += 1
        end = EndTxnRequest(
            transactional_id=self._name,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            committed=True,
        )
        await self._settle(self._coordinator, end, lambda answer: answer.error_code)

    async def _settle(
        self, client: GroupClient, request: Request, code: Callable[[Any], int], at_most: int | None = None
    ) -> None:
        what = type(request).__name__
        while not _has_passed(code(await client.ask(request, at_most)), what):  # noqa: ASYNC110  # it asks again
            await trio.sleep(_AGAIN_S)


def _added(answer: Any) -> int:
    return answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code


def _produced(answer: Any) -> int:
    return answer.responses[0].partition_responses[0].error_code


def _has_passed(code: int, what: str) -> bool:
    """Whether a request was carried out; False where it is to be sent again.

    Raises:
        RuntimeError: it was refused for good.
    """
    error = Error.from_code(code)
    if error is Error.NONE:
        return True
    if error not in _PASSING:
        raise RuntimeError(f"{what}: {error.name}")
    return False


async def _leaders(client: GroupClient, topic: str) -> Mapping[int, int]:
    answer = await client.ask(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]))
    return {each.partition_index: each.leader_id for each in answer.topics[0].partitions}


async def _coordinators(client: GroupClient, names: Sequence[str]) -> Mapping[str, int]:
    found: dict[str, int] = {}
    with trio.fail_after(ANSWER_S):
        while left := [name for name in names if name not in found]:
            answer = await client.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=left))
            found |= {each.key: each.node_id for each in answer.coordinators if each.error_code == Error.NONE}
            if left[0] not in found:
                await trio.sleep(_AGAIN_S)
    return found
