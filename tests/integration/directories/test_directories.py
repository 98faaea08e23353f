"""Several disks under one broker: replicas that move between them, and disks that fail, while records come in."""

import json
import subprocess
from pathlib import Path

from ottla.testing.replica_files import replica_records
from tests.integration.directories.disk_cluster import BROKERS, DISKS, DiskCluster
from tests.integration.faults.load import Load, mark_of, read_all
from tests.integration.operations.operating import Operator
from tests.patience import until
from tests.raw_client import RawClient
from wire.errors import Error
from wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from wire.types import BrokerId, TopicPartition, WallMs

FIRST, SECOND = DISKS
EVERYWHERE = [list(BROKERS), [1, 2, 0]]
RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


def write(operator: Operator, cluster: DiskCluster, topic: str, name: str) -> str:
    """Write a reassignment file that puts every replica of a topic on one disk of its broker."""
    path = operator.directory / f"{topic}-to-{name}.json"
    partitions = [
        {
            "topic": topic,
            "partition": number,
            "replicas": replicas,
            "log_dirs": [cluster.log_dir(broker, name) for broker in replicas],
        }
        for number, replicas in enumerate(EVERYWHERE)
    ]
    path.write_text(json.dumps({"version": 1, "partitions": partitions}))
    return str(path)


def where(operator: Operator, topic: str, *, future: bool = False) -> dict[tuple[int, int], str]:
    """Return the directory of each replica, or of its copy, by broker and partition."""
    described = operator.run("log-dirs", "--describe", "--topic-list", topic)
    return {
        (broker["broker"], int(replica["partition"].rpartition("-")[2])): directory["logDir"]
        for broker in described["brokers"]
        for directory in broker["logDirs"]
        for replica in directory["partitions"]
        if replica["isFuture"] is future
    }


def check_files(cluster: DiskCluster, operator: Operator, load: Load) -> None:
    """Check at the end that consumers and every replica's files see the same records, and that none is lost."""
    cluster.wait_in_sync(load.topic, load.partitions)
    read_all(cluster.bootstrap_servers, load)
    for (broker, number), directory in where(operator, load.topic).items():
        place = TopicPartition(load.topic, number)
        records = ((each.offset, mark_of(each.value)) for each in replica_records(Path(directory), place))
        load.history.read(f"replica {broker}", place, records)
    load.history.check()
    assert load.history.acknowledged_count


def error_of_end(cluster: DiskCluster, broker: int, partition: TopicPartition) -> Error:
    """Ask one broker for the end of a partition, and return the error."""
    asked = ListOffsetsPartition(partition_index=partition.partition, timestamp=WallMs(-1))
    request = ListOffsetsRequest(
        replica_id=BrokerId(-1), topics=[ListOffsetsTopic(name=partition.topic, partitions=[asked])]
    )
    with RawClient(cluster.bootstrap_servers.split(",")[broker]) as client:
        answer = client.ask(request, 7)
    return Error.from_code(answer.topics[0].partitions[0].error_code)


def test_replicas_move_between_disks_under_load(disks: DiskCluster, operator: Operator) -> None:
    operator.place("moving", *EVERYWHERE)
    with Load(disks.bootstrap_servers, "moving", 2) as load:
        load.wait_progress()
        for name in (SECOND, FIRST, SECOND):
            file = write(operator, disks, "moving", name)
            operator.run("reassign-partitions", "--execute", "--reassignment-json-file", file)
            assert {Path(found).parent.name for found in where(operator, "moving").values()} == {name}
            load.wait_progress()
        verified = operator.run("reassign-partitions", "--verify", "--reassignment-json-file", file)
        assert {each["state"] for each in verified["directories"]} == {"done"}
    check_files(disks, operator, load)


def test_apache_kafkas_tool_moves_them(disks: DiskCluster, operator: Operator, kafka_java: list[str]) -> None:
    operator.place("theirs", *EVERYWHERE)
    replicas = len(where(operator, "theirs"))
    # Wherever they were made, some of them are on the other disk.
    file = write(operator, disks, "theirs", SECOND)
    tool = [*kafka_java, "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"]
    tool += ["--bootstrap-server", disks.bootstrap_servers, "--reassignment-json-file", file]
    throttle = ["--replica-alter-log-dirs-throttle", "100000000"]
    begun = subprocess.run([*tool, "--execute", *throttle], capture_output=True, text=True, check=True)
    assert f"Successfully started moving log directory to {disks.log_dir(0, SECOND)}" in begun.stdout
    until(lambda: where(operator, "theirs", future=True) == {})
    verified = subprocess.run([*tool, "--verify"], capture_output=True, text=True, check=True)
    assert verified.stdout.count("completed successfully") == replicas
    assert {Path(found).parent.name for found in where(operator, "theirs").values()} == {SECOND}
    assert RATE not in json.dumps(operator.run("configs", "--describe", "--entity-type", "brokers"))


def test_a_slow_move_is_shown_survives_a_kill_and_is_cancelled(
    disks: DiskCluster, operator: Operator
) -> None:
    operator.place("slow", *EVERYWHERE)
    with Load(disks.bootstrap_servers, "slow", 2) as load:
        for _ in range(5):
            load.wait_progress()  # a whole batch is copied, however low the throttle
        before = where(operator, "slow")
        away = SECOND if Path(before[0, 0]).parent.name == FIRST else FIRST
        path = operator.directory / "slow.json"
        entry = {"topic": "slow", "partition": 0, "replicas": [0, 1, 2]}
        entry["log_dirs"] = [disks.log_dir(0, away), "any", "any"]
        path.write_text(json.dumps({"version": 1, "partitions": [entry]}))
        asked = ("--reassignment-json-file", str(path))
        operator.run(
            *("reassign-partitions", "--execute", *asked, "--no-wait"),
            *("--replica-alter-log-dirs-throttle", "1"),
        )
        assert where(operator, "slow", future=True) == {(0, 0): disks.log_dir(0, away)}
        assert (
            operator.run("reassign-partitions", "--verify", *asked, expect=2)["directories"][0]["state"]
            == "moving"
        )
        disks.kill(0)
        disks.start(0)
        disks.wait_in_sync("slow", 2)
        assert where(operator, "slow", future=True) == {(0, 0): disks.log_dir(0, away)}
        cancelled = operator.run("reassign-partitions", "--cancel", *asked)
        assert cancelled["directories"] == [{"topic": "slow", "partition": 0, "broker": 0}]
        assert where(operator, "slow", future=True) == {}
        assert where(operator, "slow") == before
        configs = operator.run("configs", "--describe", "--entity-type", "brokers")
        assert RATE not in json.dumps(configs)
    check_files(disks, operator, load)


def test_a_full_disk_takes_its_directory_offline_and_not_the_broker(
    disks: DiskCluster, operator: Operator
) -> None:
    operator.place("failing", *EVERYWHERE)
    operator.place("staying", *EVERYWHERE)
    for topic, name in (("failing", SECOND), ("staying", FIRST)):
        file = write(operator, disks, topic, name)
        operator.run("reassign-partitions", "--execute", "--reassignment-json-file", file)
    with (
        Load(disks.bootstrap_servers, "failing", 2) as load,
        Load(disks.bootstrap_servers, "staying", 2) as other,
    ):
        load.wait_progress()
        assert disks.view().leader("failing", 0) == 0
        disks.fill(0, SECOND)
        disks.wait(lambda seen: seen.leader("failing", 0) not in (0, -1) and 0 not in seen.isr("failing", 1))
        load.wait_progress()
        other.wait_progress()
        seen = disks.view()
        assert seen.leader("staying", 0) == 0
        assert seen.isr("staying", 0) == set(BROKERS)
        (described,) = operator.run("topics", "--describe", "--topic", "failing")
        assert {tuple(each["offline_replicas"]) for each in described["partitions"]} == {(0,)}
        dirs = operator.run("log-dirs", "--describe", "--broker-list", "0")["brokers"][0]["logDirs"]
        assert {each["logDir"]: each["error"] is not None for each in dirs} == {
            disks.log_dir(0, FIRST): False,
            disks.log_dir(0, SECOND): True,
        }
        assert error_of_end(disks, 0, TopicPartition("failing", 0)) is Error.KAFKA_STORAGE_ERROR
        assert error_of_end(disks, 0, TopicPartition("staying", 0)) is Error.NONE
        output = disks.output(0)
        assert output.count("goes offline") == 1
        assert "Traceback" not in output

        # The last directory fails, and the broker stops with one message.
        disks.fill(0, FIRST)
        assert disks.wait_ended(0) == 7
        load.wait_progress()
        other.wait_progress()
        output = disks.output(0)
        (message,) = [line for line in output.splitlines() if " CRITICAL " in line]
        assert disks.log_dir(0, FIRST) in message
        assert disks.log_dir(0, SECOND) in message
        assert "No space left on device" in message
        assert "Traceback" not in output

        for name in DISKS:
            disks.mend(0, name)
        disks.start(0)
        disks.wait_in_sync("failing", 2)
        disks.wait_in_sync("staying", 2)
    until(lambda: {each for _, each in where(operator, "failing")} == {0, 1})
    check_files(disks, operator, load)
    check_files(disks, operator, other)
