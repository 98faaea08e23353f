"""Which partition a record goes to."""

import random

import pytest

from ottla.client.partitioners import PARTITIONERS, CachedMurmur2, choose_sticky, murmur2

JAVA = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}
"""What Java's ``Utils.murmur2`` returns."""


@pytest.mark.parametrize("key", JAVA)
def test_murmur2_is_javas(key: bytes) -> None:
    assert murmur2(key) == JAVA[key] & 0xFFFFFFFF
    cached = CachedMurmur2()
    assert cached(key) == cached(key) == JAVA[key] & 0x7FFFFFFF


def test_a_hash_of_librdkafka() -> None:
    assert PARTITIONERS["crc32"]()(b"123456789") == 0xCBF43926


def test_records_move_on_to_another_partition() -> None:
    source = random.Random(1)
    assert choose_sticky([3], [9], source, 3) == 3
    for _ in range(50):
        assert choose_sticky([0, 1], [0, 0], source, 1) == 0


def test_short_queues_are_likelier() -> None:
    source = random.Random(2)
    chosen = [choose_sticky([0, 1, 2], [0, 3, 3], source, None) for _ in range(3000)]
    assert 1850 < chosen.count(0) < 2150  # weights 4, 1, 1
    assert 400 < chosen.count(1) < 600
