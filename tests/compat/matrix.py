"""What every foreign client has to do: produce the same records in each way, and read them back from assigned
partitions.

A combination is one way to produce (acks, compression, idempotence). Each gets a topic of three partitions on
three replicas; its records carry keys, values, headers and timestamps that can be recomputed, so that what is
read back is compared in full: order, content, offsets and the answer to a search by time.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

PARTITIONS = 3
RECORDS_PER_PARTITION = 40
FIRST_TIMESTAMP_MS = 1_700_000_000_000
TIMESTAMP_STEP_MS = 1_000

RUN = f"run{os.getpid()}"
"""Prefixes this run's topic names, so that a cluster that outlives the tests can serve the next run."""

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True, slots=True)
class Combination:
    """One way to produce. Idempotence needs acks=all, so it occurs only with it."""

    acks: str
    codec: str
    idempotent: bool = False

    @property
    def topic(self) -> str:
        """The combination's own topic, a legal name in Kafka."""
        return f"{RUN}-{self.acks}-{self.codec}{'-idempotent' if self.idempotent else ''}"


COMBINATIONS = (
    *(Combination(acks, codec) for acks in ("0", "1", "all") for codec in CODECS),
    *(Combination("all", codec, idempotent=True) for codec in CODECS),
)


@dataclass(frozen=True, slots=True)
class Sent:
    """One record as it is sent, and as it must come back from its partition."""

    partition: int
    index: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: tuple[tuple[str, bytes], ...] = ()


def records(*, headers: bool = True) -> list[Sent]:
    """Return the records of a combination in the order of sending, round-robin over the partitions.

    Every eleventh has a null value, every seventh of the others no key; a value has up to some 2 KiB.
    """
    out = []
    for index in range(RECORDS_PER_PARTITION):
        for partition in range(PARTITIONS):
            number = index * PARTITIONS + partition
            null = number % 11 == 5
            key = None if number % 7 == 3 and not null else f"key-{number}".encode()
            value = None if null else f"value-{number}-".encode() * (1 + number * 13 % 170)
            pairs = (("number", str(number).encode()), ("source", b"matrix")) if headers else ()
            timestamp = FIRST_TIMESTAMP_MS + index * TIMESTAMP_STEP_MS
            out.append(Sent(partition, index, key, value, timestamp, pairs))
    return out


@dataclass(frozen=True, slots=True)
class Read:
    """One record as a client read it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: tuple[tuple[str, bytes], ...] = ()


def check_all(sent: Iterable[Sent], read: Iterable[Read]) -> None:
    """Require that exactly what was sent was read: per partition, in order, at the offsets from 0 on."""
    expected: dict[int, list[Sent]] = {}
    for record in sent:
        expected.setdefault(record.partition, []).append(record)
    got: dict[int, list[Read]] = {}
    for record in read:
        got.setdefault(record.partition, []).append(record)
    assert sorted(got) == sorted(expected)
    for partition, wanted in expected.items():
        assert [r.offset for r in got[partition]] == list(range(len(wanted)))
        for ours, theirs in zip(wanted, got[partition], strict=True):
            assert (theirs.key, theirs.value, theirs.timestamp_ms) == (
                ours.key,
                ours.value,
                ours.timestamp_ms,
            )
            assert theirs.headers == ours.headers


def time_searches() -> Mapping[int, int | None]:
    """Return searches by time and the offset each must find in every partition; None: past the last."""
    middle = RECORDS_PER_PARTITION // 2
    return {
        FIRST_TIMESTAMP_MS: 0,
        FIRST_TIMESTAMP_MS + 1: 1,
        FIRST_TIMESTAMP_MS + middle * TIMESTAMP_STEP_MS: middle,
        FIRST_TIMESTAMP_MS + RECORDS_PER_PARTITION * TIMESTAMP_STEP_MS: None,
    }
