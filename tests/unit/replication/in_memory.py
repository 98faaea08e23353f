"""Brokers in memory: real logs on a simulated disk, real partitions, a clock and a timer that the test turns."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from random import Random
from typing import Any

import trio

from cluster.configuration.broker_config import BrokerConfig
from cluster.handlers import fetch as fetch_handler
from cluster.handlers import list_offsets as list_offsets_handler
from cluster.metrics.catalogue import BrokerMetrics
from cluster.network.endpoints import Endpoint
from cluster.network.offloads import all_by
from cluster.replication.leader.delayed_produce import ProduceResults
from cluster.replication.metadata_cache import MetadataCache
from cluster.replication.partition.partition import Partition
from cluster.replication.replicas import Replicas
from cluster.statemachines.leadership import PartitionLeadership
from simulation.disk import SimulatedDisk
from storage.compaction.cleaning_worker import worker_process
from storage.log_config import LogConfig
from storage.log_read import read_range
from storage.store import LogStore
from tests.unit.handlers.calls import KeptCall
from timing.timing_wheel import Timer, TimerEntry
from wire.errors import Error
from wire.file_range import FileRange
from wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from wire.messages.list_offsets import ListOffsetsRequest
from wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from wire.records.builder import build_batch
from wire.records.record import Record
from wire.types import MonotonicSeconds, Offset, TopicId, TopicPartition, WallMs, ZkVersion

TOPIC = "orders"
TOPIC_ID = TopicId(bytes(range(16)))
P0 = TopicPartition(TOPIC, 0)


class FakeClock:
    """A clock that the test moves; inside a test's trio run it can follow trio's clock."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.follows_trio = False

    def wall_ms(self) -> WallMs:
        return WallMs(int(self.now * 1000))

    def monotonic(self) -> MonotonicSeconds:
        return MonotonicSeconds(trio.current_time() if self.follows_trio else self.now)


class FakeTimer(Timer):
    """Expires what the test chooses."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: dict[TimerEntry, float] = {}

    def __len__(self) -> int:
        return len(self.entries)

    def add(self, entry: TimerEntry, delay_ms: float) -> None:
        self.entries[entry] = delay_ms

    def cancel(self, entry: TimerEntry) -> bool:
        return self.entries.pop(entry, None) is not None

    def expire_all(self) -> None:
        for entry in tuple(self.entries):
            self.entries.pop(entry, None)
            entry.expire()


class FakeZooKeeperStore:
    """Takes ISR writes, or refuses them as the test demands."""

    def __init__(self) -> None:
        self.written: list[tuple[TopicPartition, PartitionLeadership, ZkVersion]] = []
        self.announced: list[list[TopicPartition]] = []
        self.failures: list[Exception] = []
        self.configs: dict[str, dict[str, str]] = {}
        self.directory_events = 0
        self.births: dict[TopicPartition, int] = {}

    async def write_isr(
        self, partition: TopicPartition, leadership: PartitionLeadership, expected_version: ZkVersion
    ) -> ZkVersion:
        await trio.lowlevel.checkpoint()
        if self.failures:
            raise self.failures.pop(0)
        self.written.append((partition, leadership, expected_version))
        return ZkVersion(expected_version + 1)

    async def propagate_isr_changes(self, partitions: Iterable[TopicPartition]) -> None:
        await trio.lowlevel.checkpoint()
        self.announced.append(list(partitions))

    async def propagate_log_dir_event(self, broker_id: int) -> None:
        await trio.lowlevel.checkpoint()
        self.directory_events += 1

    async def read_state_births(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        await trio.lowlevel.checkpoint()
        return {key: self.births[key] for key in partitions if key in self.births}

    async def read_configs(self, entity_type: str, names: Iterable[str]) -> dict[str, dict[str, str]]:
        await trio.lowlevel.checkpoint()
        return {name: self.configs.get(name, {}) for name in names}


async def at_once(call: Callable[[], object]) -> object:
    """Run at once what a broker would run in a thread."""
    await trio.lowlevel.checkpoint()
    return call()


class Tasks:
    """The nursery of a broker inside or outside an event loop; outside, a task has ended when `start_soon` returns."""

    def start_soon(self, work: Callable[..., Any], *arguments: Any, name: str = "") -> None:
        if trio.lowlevel.in_trio_run():
            trio.lowlevel.spawn_system_task(work, *arguments, name=name)
        else:
            trio.run(work, *arguments)


class FakeBroker:
    """One broker's replicas, and short methods for what happens to them."""

    def __init__(
        self,
        broker_id: int = 1,
        disk: SimulatedDisk | None = None,
        directories: Sequence[str] = (),
        **overrides: str,
    ) -> None:
        self.broker_id = broker_id
        self.clock = FakeClock()
        self.timer = FakeTimer()
        self.offloads = all_by(at_once)  # type: ignore[arg-type]
        self.nursery = Tasks()
        self.random = Random(1)
        self.cleaning_worker = worker_process
        self.zookeeper = FakeZooKeeperStore()
        self.metadata = MetadataCache()
        self.authorizer = self.throttling = None
        self.disk = disk or SimulatedDisk()
        self.channels: Callable[[Endpoint, str], Any] = lambda endpoint, client_id: None
        values = {
            "broker.id": str(broker_id),
            "zookeeper.connect": "localhost",
            "replica.lag.time.max.ms": "10000",
            **{name.replace("_", "."): value for name, value in overrides.items()},
        }
        self.config = BrokerConfig(values)
        self.metrics = BrokerMetrics()
        self.store = LogStore.open(
            directories or [f"/data{broker_id}"], LogConfig(min_insync_replicas=1), {}, self.clock, self.disk
        )
        self.replicas = self.make_replicas()
        self.live(1, 2, 3)
        self._epochs = 0

    def make_replicas(self, timer: Timer | None = None) -> Replicas:
        return Replicas(
            self.config,
            self,  # clock, offloads, random and cleaning_worker are its own
            self.store,
            self.metadata,
            self.zookeeper,  # type: ignore[arg-type]
            timer or self.timer,
            self.metrics,
            lambda endpoint, client_id: self.channels(endpoint, client_id),
        )

    # Requests of the controller

    def live(self, *broker_ids: int, racks: dict[int, str] | None = None) -> None:
        """Send UpdateMetadata with these live brokers and the topic."""
        request = update_metadata(broker_ids, racks or {})
        self.run(self.replicas.roles.update_metadata, request)

    def order(
        self,
        leader: int,
        isr: Sequence[int] = (1, 2, 3),
        replicas: Sequence[int] = (1, 2, 3),
        *,
        epoch: int | None = None,
        partitions: Sequence[int] = (0,),
        is_new: bool = True,
        version: int = 7,
        **rest: Any,
    ) -> list[Error]:
        """Send LeaderAndIsr for partitions of one topic; return the partitions' errors."""
        request = leader_and_isr(
            leader, isr, replicas, self.next_epoch(epoch), partitions, is_new=is_new, **rest
        )
        response = self.run(self.replicas.roles.become_leader_or_follower, request, version)
        self.last_response = response
        return [Error(one.error_code) for topic in response.topics for one in topic.partition_errors]

    def next_epoch(self, epoch: int | None = None) -> int:
        self._epochs = self._epochs + 1 if epoch is None else epoch
        return self._epochs

    def lead(self, isr: Sequence[int] = (1, 2, 3), **rest: Any) -> Partition:
        """Make this broker lead, and return the partition."""
        assert set(self.order(self.broker_id, isr, **rest)) == {Error.NONE}
        return self.partition

    def follow(self, leader: int, **rest: Any) -> Partition:
        """Make this broker follow, and return the partition."""
        assert set(self.order(leader, **rest)) == {Error.NONE}
        return self.partition

    @property
    def partition(self) -> Partition:
        return self.replicas.hosted.find(P0)

    # Requests of clients

    def produce(
        self, count: int = 1, acks: int = 1, key: TopicPartition = P0, timeout_ms: int = 1000
    ) -> list[ProduceResults]:
        """Append a batch; return a list that gets the results when they come."""
        answers: list[ProduceResults] = []
        self.replicas.append([(key, batch(count))], acks, timeout_ms, answers.append)
        return answers

    def call_fetch(self, request: FetchRequest, version: int = 17) -> KeptCall:
        """Send a Fetch; the call gets the response when it comes."""
        call = KeptCall(self, request, version)
        fetch_handler.begin(call)
        return call

    def fetch(self, offset: int, follower: int = -1, **rest: Any) -> KeptCall:
        """Fetch partition 0 without a session."""
        return self.call_fetch(fetch_request({0: offset}, follower, **rest))

    def run(self, function: Callable[..., Awaitable[Any]], *arguments: Any) -> Any:
        """Run one coroutine; if trio already runs, it must not need more than checkpoints."""
        return trio.run(function, *arguments)


def batch(count: int = 1, **options: Any) -> memoryview:
    """Return the records of one Produce request, as in the receive buffer."""
    records = [Record(Offset(i), WallMs(1_000_000), None, b"value %d" % i, ()) for i in range(count)]
    return memoryview(bytearray(build_batch(records, **options)))


def update_metadata(broker_ids: Iterable[int], racks: dict[int, str]) -> UpdateMetadataRequest:
    return UpdateMetadataRequest(
        controller_id=1,
        controller_epoch=1,
        live_brokers=[
            UpdateMetadataBroker(
                id=broker_id,
                endpoints=[
                    UpdateMetadataEndpoint(
                        port=9000 + broker_id, host=f"host{broker_id}", listener="PLAINTEXT"
                    )
                ],
                rack=racks.get(broker_id),
            )
            for broker_id in broker_ids
        ],
        topic_states=[
            UpdateMetadataTopicState(
                topic_name=TOPIC,
                topic_id=TOPIC_ID,
                partition_states=[
                    UpdateMetadataPartitionState(
                        partition_index=index, leader=1, leader_epoch=1, isr=[1, 2, 3], replicas=[1, 2, 3]
                    )
                    for index in range(8)
                ],
            )
        ],
    )


def leader_and_isr(
    leader: int,
    isr: Sequence[int],
    replicas: Sequence[int],
    epoch: int,
    partitions: Sequence[int] = (0,),
    *,
    is_new: bool = False,
    zk_version: int | None = None,
    topic_id: TopicId = TOPIC_ID,
    controller_epoch: int = 1,
    broker_epoch: int = -1,
    **rest: Any,
) -> LeaderAndIsrRequest:
    return LeaderAndIsrRequest(
        controller_id=1,
        controller_epoch=controller_epoch,
        broker_epoch=broker_epoch,
        topic_states=[
            LeaderAndIsrTopicState(
                topic_name=TOPIC,
                topic_id=topic_id,
                partition_states=[
                    LeaderAndIsrPartitionState(
                        partition_index=index,
                        controller_epoch=controller_epoch,
                        leader=leader,
                        leader_epoch=epoch,
                        isr=list(isr),
                        partition_epoch=epoch if zk_version is None else zk_version,
                        replicas=list(replicas),
                        is_new=is_new,
                        **rest,
                    )
                    for index in partitions
                ],
            )
        ],
    )


def fetch_request(
    offsets: dict[int, int],
    follower: int = -1,
    *,
    session: int = 0,
    epoch: int = -1,
    leader_epoch: int = -1,
    last_epoch: int = -1,
    log_start: int = 0,
    max_wait_ms: int = 500,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    partition_bytes: int = 1 << 20,
    forget: Sequence[int] = (),
    committed: bool = False,
    rack: str = "",
) -> FetchRequest:
    return FetchRequest(
        replica_state=ReplicaState(replica_id=follower),
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=1 if committed else 0,
        session_id=session,
        session_epoch=epoch,
        rack_id=rack,
        topics=[
            FetchTopic(
                topic_id=TOPIC_ID,
                partitions=[
                    FetchPartition(
                        partition=index,
                        current_leader_epoch=leader_epoch,
                        fetch_offset=offset,
                        last_fetched_epoch=last_epoch,
                        log_start_offset=log_start if follower >= 0 else -1,
                        partition_max_bytes=partition_bytes,
                    )
                    for index, offset in offsets.items()
                ],
            )
        ]
        if offsets
        else [],
        forgotten_topics_data=[ForgottenTopic(topic_id=TOPIC_ID, partitions=list(forget))] if forget else [],
    )


def partitions_of(call: KeptCall) -> dict[int, PartitionData]:
    """Return the partitions of a call's one response."""
    (response,) = call.responses
    return {one.partition_index: one for topic in response.responses for one in topic.partitions}


def as_received(response: FetchResponse) -> FetchResponse:
    """Return a response as its receiver sees it: file ranges have become bytes."""
    return FetchResponse(
        error_code=response.error_code,
        session_id=response.session_id,
        responses=[
            FetchableTopicResponse(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[_received(one) for one in topic.partitions],
            )
            for topic in response.responses
        ],
    )


def _received(data: PartitionData) -> PartitionData:
    records = data.records
    if isinstance(records, FileRange):
        records = memoryview(bytearray(read_range(records)))
    return PartitionData(
        partition_index=data.partition_index,
        error_code=data.error_code,
        high_watermark=data.high_watermark,
        last_stable_offset=data.last_stable_offset,
        log_start_offset=data.log_start_offset,
        diverging_epoch=data.diverging_epoch,
        aborted_transactions=data.aborted_transactions,
        records=records,
    )


class LoopbackChannel:
    """A connection from a fetcher to a leader in the same process."""

    def __init__(self, leader: FakeBroker) -> None:
        self.leader = leader
        self.requests: list[Any] = []
        self.closed = False

    async def request(self, message: Any, version: int) -> Any:
        self.requests.append(message)
        call = KeptCall(self.leader, message, version)
        if isinstance(message, ListOffsetsRequest):
            answer = await list_offsets_handler.handle(call)
            await trio.lowlevel.checkpoint()
            return answer
        fetch_handler.begin(call)
        waited = 0
        while not call.responses:
            await trio.sleep(0.01)
            waited += 10
            if waited >= message.max_wait_ms:
                self.leader.timer.expire_all()
        await trio.lowlevel.checkpoint()
        return as_received(call.responses[0])

    def close(self) -> None:
        self.closed = True


def batch_at(timestamp: int) -> memoryview:
    """Return a batch of one record with this timestamp."""
    return memoryview(bytearray(build_batch([Record(Offset(0), WallMs(timestamp), None, b"v", ())])))
