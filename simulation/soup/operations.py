"""The operators' actions in a run, by name, while faults last; each retries while nobody answers."""

from collections.abc import Awaitable, Callable, Mapping
from random import Random
from typing import Any, Final

import trio

from simulation.soup.plan import ORDERS_PARTITIONS, Happening
from simulation.soup.world import ORDERS, World
from wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from wire.messages.delete_topics import DeleteTopicsRequest
from wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from wire.types import BrokerId

Operation = Callable[[World, Happening], Awaitable[None]]

CHURN: Final = "churn-{}"
CHURN_TOPICS: Final = 3
"""Topics that are created and deleted; the only check is that they leave nothing behind."""
_TIMEOUT_MS: Final = 2_000
_SET: Final = 0
_TOPIC_CONFIGS: Final = 2


def _churn(happening: Happening) -> str:
    return CHURN.format(happening.amount % CHURN_TOPICS)


async def create(world: World, happening: Happening) -> None:
    """A topic is created; it may be there already."""
    world.note(f"topic {_churn(happening)} is created")
    topic = CreatableTopic(name=_churn(happening), num_partitions=2, replication_factor=3)
    await world.ask_controller(CreateTopicsRequest(topics=[topic], timeout_ms=_TIMEOUT_MS), 5)


async def delete(world: World, happening: Happening) -> None:
    """A topic is deleted; it may not be there."""
    world.note(f"topic {_churn(happening)} is deleted")
    await world.ask_controller(
        DeleteTopicsRequest(topic_names=[_churn(happening)], timeout_ms=_TIMEOUT_MS), 4
    )


async def add_partitions(world: World, happening: Happening) -> None:
    """A topic gets more partitions."""
    count = 3 + happening.other
    world.note(f"topic {_churn(happening)} gets {count} partitions")
    topic = CreatePartitionsTopic(name=_churn(happening), count=count, assignments=None)
    await world.ask_controller(CreatePartitionsRequest(topics=[topic], timeout_ms=_TIMEOUT_MS), 3)


async def reassign(world: World, happening: Happening) -> None:
    """A partition moves to other brokers, in an order that makes another one its preferred leader."""
    chance = Random(f"{world.plan.seed} {happening.amount}")
    replicas = [BrokerId(each) for each in chance.sample(world.broker_ids, 3)]
    world.note(f"{ORDERS}-{happening.other} moves to {replicas}")
    partition = ReassignablePartition(partition_index=happening.other, replicas=replicas)
    topic = ReassignableTopic(name=ORDERS, partitions=[partition])
    await world.ask_controller(AlterPartitionReassignmentsRequest(topics=[topic], timeout_ms=_TIMEOUT_MS), 0)


async def cancel(world: World, happening: Happening) -> None:
    """A partition's move is cancelled, if there is one."""
    world.note(f"the move of {ORDERS}-{happening.other} is cancelled")
    partition = ReassignablePartition(partition_index=happening.other, replicas=None)
    topic = ReassignableTopic(name=ORDERS, partitions=[partition])
    await world.ask_controller(AlterPartitionReassignmentsRequest(topics=[topic], timeout_ms=_TIMEOUT_MS), 0)


async def elect(world: World, happening: Happening) -> None:  # noqa: ARG001 - it has no parameters
    """Preferred leaders are elected."""
    world.note("preferred leaders are elected")
    partitions = [TopicPartitions(topic=ORDERS, partitions=list(range(ORDERS_PARTITIONS)))]
    request = ElectLeadersRequest(election_type=0, topic_partitions=partitions, timeout_ms=_TIMEOUT_MS)
    await world.ask_controller(request, 2)


async def configure(world: World, happening: Happening) -> None:
    """Segments become small, or large again."""
    size = "4096" if happening.amount % 2 else "1048576"
    world.note(f"segment.bytes of {ORDERS} becomes {size}")
    config = AlterableConfig(name="segment.bytes", config_operation=_SET, value=size)
    resource = AlterConfigsResource(resource_type=_TOPIC_CONFIGS, resource_name=ORDERS, configs=[config])
    await world.ask_controller(IncrementalAlterConfigsRequest(resources=[resource]), 1)


async def move_directory(world: World, happening: Happening) -> None:
    """A broker's replica moves to its other directory."""
    path = "/more" if happening.amount % 2 else "/logs"
    world.note(f"{ORDERS}-{happening.other} moves to {path} on broker {happening.broker}")
    topic = AlterReplicaLogDirTopic(name=ORDERS, partitions=[happening.other])
    request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=[topic])])
    for _ in range(5):
        if await world.ask(happening.broker, request, 2) is not None:
            return
        await trio.sleep(0.2)


def _partition(chance: Random, brokers: int) -> Mapping[str, Any]:
    return {"broker": chance.randrange(brokers), "other": chance.randrange(ORDERS_PARTITIONS)}


def _nothing(chance: Random, brokers: int) -> Mapping[str, Any]:  # noqa: ARG001
    return {}


OPERATIONS: Final[Mapping[str, tuple[Operation, Callable[[Random, int], Mapping[str, Any]]]]] = {
    "create": (create, _nothing),
    "delete": (delete, _nothing),
    "add-partitions": (add_partitions, _partition),
    "reassign": (reassign, _partition),
    "cancel": (cancel, _partition),
    "elect": (elect, _partition),
    "configure": (configure, _nothing),
    "move-directory": (move_directory, _partition),
}
"""Each operation by name: its function, and the function that draws its partition and broker."""
