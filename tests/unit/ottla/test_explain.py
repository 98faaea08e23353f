"""`ottla explain`: where a record is, which leader appended it, which ISR acknowledged it; from files alone."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from cluster.journal.frames import MAGIC, encode_frame
from ottla.commands.inspection.explain import command
from wire.records.builder import build_batch

AT = 1_700_000_000_000


def batch(base: int, epoch: int, *values: bytes) -> bytes:
    records = [SimpleNamespace(timestamp=AT, key=None, value=value, headers=()) for value in values]
    return bytes(
        build_batch(
            records, base_offset=base, leader_epoch=epoch, producer_id=7, producer_epoch=1, base_sequence=base
        )
    )


def checkpoint(path: Path, *lines: str) -> None:
    path.write_text("\n".join(["0", str(len(lines)), *lines, ""]))


def replica(
    home: Path, broker: int, *batches: bytes, recovery_point: int, journal: tuple[dict, ...] = ()
) -> None:
    """Write the files of one broker, whose orders-0 begins its second segment at offset 2."""
    logs = home / str(broker)
    directory = logs / "orders-0"
    directory.mkdir(parents=True)
    (logs / "meta.properties").write_text(f"version=0\nbroker.id={broker}\ncluster.id=x\n")
    (directory / f"{0:020d}.log").write_bytes(batches[0])
    (directory / f"{2:020d}.log").write_bytes(b"".join(batches[1:]))
    # One entry, the batch of offset 3, and a page that was reserved.
    index = (1).to_bytes(4) + len(batches[1] if len(batches) > 1 else b"").to_bytes(4) + bytes(80)
    (directory / f"{2:020d}.index").write_bytes(index)
    checkpoint(directory / "leader-epoch-checkpoint", "0 0", "3 2")
    checkpoint(logs / "recovery-point-offset-checkpoint", f"orders 0 {recovery_point}", "orders 1 99")
    checkpoint(logs / "replication-offset-checkpoint", "orders 0 4")
    events = (
        {"n": n, "broker": broker, "topic": "orders", "partition": 0, **each}
        for n, each in enumerate(journal)
    )
    (logs / "state-changes.journal").write_bytes(MAGIC + b"".join(map(encode_frame, events)))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    whole = (batch(0, 0, b"a", b"b"), batch(2, 3, b"c"), batch(3, 3, b"d"))
    journal = (
        {"at": AT - 20, "kind": "role", "role": "leader", "leader_epoch": 3},
        {"at": AT - 10, "kind": "isr", "isr": [1, 0, 2], "leader_epoch": 3},
        {"at": AT + 10, "kind": "isr", "isr": [1], "leader_epoch": 3},
        {"at": AT - 50, "kind": "isr", "isr": [0], "leader_epoch": 0},
    )
    replica(tmp_path, 0, *whole, recovery_point=4)
    replica(tmp_path, 1, *whole, recovery_point=3, journal=journal)
    replica(tmp_path, 2, whole[0], recovery_point=2)
    return tmp_path


def logs(home: Path) -> str:
    return ",".join(str(home / str(broker)) for broker in range(3))


def test_a_record_is_explained(home: Path) -> None:
    result = CliRunner().invoke(command, ["orders-0", "3", "--logs", logs(home)])
    assert result.exit_code == 0, result.output
    size = len(batch(2, 3, b"c"))
    assert result.output.splitlines()[:10] == [
        "orders-0, offset 3",
        "Taken by broker 1 in leader epoch 3, at 2023-11-14 22:13:20.000",
        "  batch of the offsets 3 to 3, producer 7, epoch 1, sequence 3",
        "  ISR then: 1, 0, 2",
        "",
        "Replicas",
        f"  broker 0  {2:020d}.log at byte {size}, synced (recovery point 4), high watermark noted 4",
        f"  broker 1  {2:020d}.log at byte {size}, not known to be synced (recovery point 3), high watermark noted 4",
        "  broker 2  does not have it: its log ends at 2",
        "",
    ]
    assert len(result.output.split("From the journals")[1].strip().splitlines()) == 3


def test_programs_get_the_same(home: Path) -> None:
    result = CliRunner().invoke(command, ["orders-0", "1", "--logs", logs(home), "--json"])
    found = json.loads(result.output)
    assert (found["leader_epoch"], found["leader"], found["isr"]) == (0, None, [0])
    assert [(each["broker"], each["synced"], each["same"]) for each in found["replicas"]] == [
        (0, True, True),
        (1, True, True),
        (2, True, True),
    ]


def test_a_batch_of_a_former_leader_is_not_the_same(home: Path) -> None:
    (home / "2" / "orders-0" / f"{2:020d}.log").write_bytes(batch(2, 1, b"x") + batch(3, 1, b"y"))
    result = CliRunner().invoke(command, ["orders-0", "3", "--logs", logs(home)])
    assert "another batch, which is not the leader's" in result.output.splitlines()[8]


def test_damage_is_said(home: Path) -> None:
    path = home / "0" / "orders-0" / f"{2:020d}.log"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    result = CliRunner().invoke(command, ["orders-0", "3", "--logs", logs(home)])
    assert "damaged, its checksum is wrong" in result.output.splitlines()[6]


def test_a_record_that_nobody_has_is_an_error(home: Path) -> None:
    result = CliRunner().invoke(command, ["orders-0", "9", "--logs", logs(home)])
    assert result.exit_code == 1
    assert result.output.splitlines()[2] == "  broker 0  does not have it: its log ends at 4"


@pytest.mark.parametrize(
    ("name", "why"), [("orders", "is no partition"), ("bills-0", "no replica of bills-0 is in")]
)
def test_what_is_not_there_is_said(home: Path, name: str, why: str) -> None:
    result = CliRunner().invoke(command, [name, "0", "--logs", logs(home)])
    assert result.exit_code == 1
    assert why in result.output
