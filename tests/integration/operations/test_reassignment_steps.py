"""A broker is killed at each step of a move (KIP-455), as ZooKeeper shows it; the move still reaches its target.

`tests/simulation/test_reassignment_kills.py` does the same at every single write. Here the processes are real, and the
move is requested through `/admin/reassign_partitions`, as old tools do.
"""

import json
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest
from kazoo.client import KazooClient

from tests.integration.faults.load import Load, report
from tests.integration.operations.operating import Operator, check_history
from tests.patience import until
from tests.zookeeper_client import zookeeper_client

ASKED = "/admin/reassign_partitions"


@dataclass(frozen=True)
class Move:
    """The state of a move in ZooKeeper.

    Attributes:
        target: The replicas that it has to end with.
        epoch: The leader epoch before it.
        topic: The data of the topic's znode.
        state: The data of the partition's state znode.
    """

    target: Sequence[int]
    epoch: int
    topic: dict[str, dict[str, list[int]]]
    state: dict[str, object]

    @property
    def isr(self) -> set[int]:
        return set(self.state["isr"])

    @property
    def is_begun(self) -> bool:
        return bool(self.topic["adding_replicas"]) or self.is_written

    @property
    def is_written(self) -> bool:
        return self.topic["partitions"]["0"] == self.target and not self.topic["removing_replicas"]


# Each condition still holds at the later steps, so a step that passes quickly is not missed.
STEPS: dict[str, Callable[[Move], bool]] = {
    "noted": lambda move: move.is_begun,
    "told": lambda move: move.is_begun and move.state["leader_epoch"] > move.epoch,
    "in sync": lambda move: move.is_begun and set(move.target) <= move.isr,
    "leader moved": lambda move: move.is_begun and move.state["leader"] == move.target[0],
    "removed ones offline": lambda move: move.is_begun and move.isr == set(move.target),
    "written": lambda move: move.is_written,
}


def look(zookeeper: KazooClient, topic: str, target: Sequence[int], epoch: int = -1) -> Move:
    state = json.loads(zookeeper.get(f"/brokers/topics/{topic}/partitions/0/state")[0])
    return Move(target, epoch, json.loads(zookeeper.get(f"/brokers/topics/{topic}")[0]), state)


@pytest.mark.parametrize("role", ["controller", "source", "target"])
def test_a_broker_dies_at_each_step(operator: Operator, role: str, record_property) -> None:
    cluster, topic = operator.cluster, f"steps-{role}"
    source, target = 0, 2
    operator.place(topic, (source, 1))
    with Load(cluster.bootstrap_servers, topic, 1) as load, zookeeper_client(cluster.zookeeper) as zookeeper:
        for name, has_come in STEPS.items():
            load.wait_progress()
            replicas = [target, 1]
            before = look(zookeeper, topic, replicas)
            assert before.state["leader"] == source
            dead = {"controller": cluster.view().controller_id, "source": source, "target": target}[role]
            pid = cluster.broker(dead)["pid"]
            asked = {"topic": topic, "partition": 0, "replicas": replicas}
            zookeeper.create(ASKED, json.dumps({"version": 1, "partitions": [asked]}).encode())
            epoch = before.state["leader_epoch"]
            deadline = time.monotonic() + 60
            while not has_come(look(zookeeper, topic, replicas, epoch)):
                assert time.monotonic() < deadline, name
            killed_at = time.perf_counter()
            os.kill(pid, signal.SIGKILL)
            cluster.kill(dead)
            cluster.start(dead)
            until(lambda: zookeeper.exists(ASKED) is None)
            load.wait_progress()
            report(record_property, f"{role} killed, {name}", load.longest_gap_s(killed_at))
            assert operator.replicas(topic) == {0: [target, 1]}
            cluster.wait(lambda seen, wanted=set(replicas): seen.isr(topic, 0) == wanted)
            operator.run("preferred-leader-election", "--topic", topic)
            source, target = target, source
    check_history(cluster, load, {0: (source, 1)})
