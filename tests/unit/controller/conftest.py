"""A cluster without brokers: the fake ZooKeeper, controllers on it, and channels that record what they receive."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from cluster.controller.controller import Controller
from cluster.statemachines.leadership import PartitionAssignment, PartitionLeadership
from cluster.zookeeper.broker_store import BrokerStore
from cluster.zookeeper.controller_store import ControllerStore
from cluster.zookeeper.znodes import BrokerRegistration, RegisteredEndpoint, TopicAssignment
from simulation.clock import SimulatedClock
from simulation.zookeeper import FakeEnsemble, FakeZooKeeper
from wire.errors import Error
from wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from wire.messages.stop_replica import StopReplicaPartitionError, StopReplicaRequest, StopReplicaResponse
from wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from wire.types import (
    NO_BROKER_EPOCH,
    BrokerEpoch,
    BrokerId,
    TopicId,
    TopicPartition,
)


def brokers(*ids: int) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(broker_id) for broker_id in ids)


def topic_id(topic: str) -> TopicId:
    return TopicId(topic.encode().rjust(16, b"\1"))


@dataclass
class Settings:
    auto_leader_rebalance_enable: bool = False
    leader_imbalance_check_interval_seconds: int = 300
    leader_imbalance_per_broker_percentage: int = 10
    delete_topic_enable: bool = True
    unclean_leader_election_enable: bool = False
    inter_broker_listener: str = "PLAINTEXT"
    inter_broker_protocol_version: str = "3.9"
    num_partitions: int = 1
    default_replication_factor: int = 1


@dataclass
class FakeBroker:
    """The requests that one broker received, and its answers."""

    broker_id: BrokerId
    zookeeper: FakeZooKeeper
    epoch: BrokerEpoch = NO_BROKER_EPOCH
    is_deaf: bool = False
    received: list[Any] = field(default_factory=list)
    roles: dict[TopicPartition, LeaderAndIsrPartitionState] = field(default_factory=dict)
    metadata: dict[TopicPartition, Any] = field(default_factory=dict)
    live_brokers: set[int] = field(default_factory=set)
    stopped: dict[TopicPartition, tuple[bool, int]] = field(default_factory=dict)
    failed_directories: set[TopicPartition] = field(default_factory=set)
    deletion_error: Error = Error.NONE

    def hear(self, message: Any) -> Any:
        if self.is_deaf:
            raise ConnectionRefusedError("deaf on purpose")
        self.received.append(message)
        match message:
            case LeaderAndIsrRequest():
                return self._take_roles(message)
            case UpdateMetadataRequest():
                self.live_brokers = {broker.id for broker in message.live_brokers}
                for topic in message.topic_states:
                    for state in topic.partition_states:
                        self.metadata[TopicPartition(topic.topic_name, state.partition_index)] = state
                return UpdateMetadataResponse()
            case StopReplicaRequest():
                return self._stop(message)
        raise AssertionError(message)

    def _take_roles(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        answers = []
        for topic in request.topic_states:
            errors = []
            for state in topic.partition_states:
                tp = TopicPartition(topic.topic_name, state.partition_index)
                self.roles[tp] = state
                error = Error.KAFKA_STORAGE_ERROR if tp in self.failed_directories else Error.NONE
                errors.append(LeaderAndIsrPartitionError(partition_index=tp.partition, error_code=error))
            answers.append(LeaderAndIsrTopicError(topic_id=topic.topic_id, partition_errors=errors))
        return LeaderAndIsrResponse(topics=answers)

    def _stop(self, request: StopReplicaRequest) -> StopReplicaResponse:
        errors = []
        for topic in request.topic_states:
            for state in topic.partition_states:
                tp = TopicPartition(topic.topic_name, state.partition_index)
                error = self.deletion_error if state.delete_partition else Error.NONE
                if error is Error.NONE:
                    self.stopped[tp] = (state.delete_partition, state.leader_epoch)
                    self.roles.pop(tp, None)
                errors.append(
                    StopReplicaPartitionError(
                        topic_name=tp.topic, partition_index=tp.partition, error_code=error
                    )
                )
        return StopReplicaResponse(partition_errors=errors)

    def heard_kinds(self) -> list[str]:
        return [type(message).__name__ for message in self.received]

    def of_kind(self, kind: type) -> list[Any]:
        return [message for message in self.received if isinstance(message, kind)]


class FakeChannel:
    def __init__(self, broker: FakeBroker) -> None:
        self.broker = broker
        self.is_closed = False

    async def request(self, message: Any, version: int) -> Any:
        await trio.lowlevel.checkpoint()
        return self.broker.hear(message)

    def close(self) -> None:
        self.is_closed = True


class Cluster:
    """Brokers that only receive requests, and the controllers of those that stand for election."""

    def __init__(self, nursery: trio.Nursery, clock: MockClock) -> None:
        self.nursery = nursery
        self.clock = clock
        self.ensemble = FakeEnsemble()
        self.settings = Settings()
        self.brokers: dict[int, FakeBroker] = {}
        self.controllers: dict[int, Controller] = {}
        self.scopes: dict[int, trio.CancelScope] = {}
        self.operator = self._session()
        self.store = BrokerStore(self.operator)

    def _session(self) -> FakeZooKeeper:
        zookeeper = FakeZooKeeper(self.ensemble, monotonic=SimulatedClock().monotonic)
        zookeeper.connect()
        return zookeeper

    async def start_broker(self, broker_id: int, *, rack: str | None = None, port: int = 9092) -> FakeBroker:
        broker = FakeBroker(BrokerId(broker_id), self._session())
        self.brokers[broker_id] = broker
        await self.register(broker, rack=rack, port=port)
        return broker

    async def register(self, broker: FakeBroker, *, rack: str | None = None, port: int = 9092) -> None:
        endpoint = RegisteredEndpoint("PLAINTEXT", f"b{broker.broker_id}", port, "PLAINTEXT")
        broker.epoch = await BrokerStore(broker.zookeeper).register(
            BrokerRegistration(broker.broker_id, (endpoint,), rack)
        )

    async def kill_broker(self, broker_id: int) -> None:
        """Kill a broker's process, and end its session."""
        scope = self.scopes.pop(broker_id, None)
        if scope is not None:
            scope.cancel()
            del self.controllers[broker_id]
        broker = self.brokers.pop(broker_id)
        broker.zookeeper.abandon()
        self.ensemble.expire(broker.zookeeper.session_id)
        await self.settle()

    async def stand(self, broker_id: int, **observers: Any) -> Controller:
        """Make a broker stand for election."""
        zookeeper = self.brokers[broker_id].zookeeper
        controller = Controller(
            BrokerId(broker_id),
            zookeeper,
            ControllerStore(zookeeper, BrokerId(broker_id)),
            lambda registration: FakeChannel(self.brokers[registration.broker_id]),
            self.settings,
            SimulatedClock(),
            **observers,
        )
        self.controllers[broker_id] = controller
        scope = self.scopes[broker_id] = trio.CancelScope()

        async def run() -> None:
            with scope:
                await controller.run()

        self.nursery.start_soon(run)
        await self.settle()
        return controller

    async def settle(self) -> None:
        await wait_all_tasks_blocked()

    async def pass_time(self, seconds: float) -> None:
        """Let time pass in steps, everything settling after each."""
        step = 0.05
        for _ in range(round(seconds / step)):
            self.clock.jump(step)
            await wait_all_tasks_blocked()

    async def create_topic(self, topic: str, assignments: Sequence[Iterable[int]]) -> None:
        partitions = {
            partition: PartitionAssignment(brokers(*replicas))
            for partition, replicas in enumerate(assignments)
        }
        await self.store.create_topic(topic, TopicAssignment(topic_id(topic), partitions), {})
        await self.settle()

    async def state(self, topic: str, partition: int = 0) -> PartitionLeadership:
        leadership = await self.store.read_partition_state(TopicPartition(topic, partition))
        assert leadership is not None
        return leadership

    async def lead(self, topic: str, partition: int = 0) -> tuple[int, list[int], int]:
        """Return leader, ISR and leader epoch from ZooKeeper."""
        leadership = await self.state(topic, partition)
        return leadership.leader, list(leadership.isr), leadership.leader_epoch

    async def set_isr(self, topic: str, isr: Iterable[int], partition: int = 0) -> None:
        """Write an ISR as the leader does, and notify the controller."""
        tp = TopicPartition(topic, partition)
        leadership = await self.state(topic, partition)
        await self.store.write_isr(tp, leadership.with_isr(brokers(*isr)), leadership.zk_version)
        await self.store.propagate_isr_changes([tp])
        await self.settle()

    def forget(self) -> None:
        """Clear the brokers' recorded requests, but not their state."""
        for broker in self.brokers.values():
            broker.received.clear()


Story = Callable[[Cluster], Awaitable[None]]


@pytest.fixture
def tell() -> Callable[[Story, int], None]:
    """Run a story on a cluster of some brokers, of which broker 0 is the controller."""

    def tell(story: Story, count: int = 3) -> None:
        clock = MockClock()

        async def main() -> None:
            async with trio.open_nursery() as nursery:
                cluster = Cluster(nursery, clock)
                await cluster.store.create_persistent_paths()
                for broker_id in range(count):
                    await cluster.start_broker(broker_id)
                if count:
                    await cluster.stand(0)
                await story(cluster)
                nursery.cancel_scope.cancel()

        trio.run(main, clock=clock)

    return tell
