"""Which partition a record goes to. No I/O; randomness comes in by constructor.

Keys are hashed as Java's producer does it, so that clients of both put a key into the same partition. Records
without a key stick to a partition until a batch's worth of bytes went there, then move to one that is likely to
have a short queue (KIP-794).
"""

import random
import zlib
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Final

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF
_CACHE_SIZE: Final = 65_536

KeyHash = Callable[[bytes], int]
"""Maps a key to a number that is not negative; modulo the partition count it is the partition."""


def murmur2(data: bytes) -> int:
    """Return the 32-bit murmur2 hash of a key, as Kafka's ``Utils.murmur2``, without sign."""
    length = len(data)
    value = _SEED ^ length
    whole = length & ~3
    for position in range(0, whole, 4):
        part = int.from_bytes(data[position : position + 4], "little") * _M & _MASK
        part = (part ^ (part >> 24)) * _M & _MASK
        value = (value * _M & _MASK) ^ part
    rest = length & 3
    if rest:
        value ^= int.from_bytes(data[whole:], "little")
        value = value * _M & _MASK
    value = (value ^ (value >> 13)) * _M & _MASK
    return value ^ (value >> 15)


class CachedMurmur2:
    """murmur2 without its sign bit, with a bounded memory of the keys it has seen: keys repeat."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[bytes, int] = {}

    def __call__(self, key: bytes) -> int:
        """Return ``murmur2(key) & 0x7fffffff``."""
        known = self._known.get(key)
        if known is None:
            known = murmur2(key) & 0x7FFFFFFF
            if len(self._known) >= _CACHE_SIZE:
                self._known.clear()
            if len(key) <= 256:
                self._known[key] = known
        return known


def crc32(key: bytes) -> int:
    """Return the CRC-32 of a key: librdkafka's ``consistent`` partitioners."""
    return zlib.crc32(key)


PARTITIONERS: Final[dict[str, Callable[[], KeyHash]]] = {"murmur2": CachedMurmur2, "crc32": lambda: crc32}
"""The hashes of keys by the name that ``partitioner=`` takes."""


def choose_sticky(
    available: Sequence[int], queued: Sequence[int], source: random.Random, previous: int | None
) -> int:
    """Choose the partition for the next batch's worth of records without keys.

    Partitions with short queues are likelier: a slow broker gets less (KIP-794).

    Args:
        available: Partitions that have a leader; not empty.
        queued: The number of batches that wait for each of them.
        source: Randomness.
        previous: The partition so far, not chosen again where there is another.
    """
    if len(available) == 1:
        return available[0]
    longest = max(queued)
    weights = [
        0 if partition == previous else longest + 1 - length
        for partition, length in zip(available, queued, strict=True)
    ]
    sums = list(accumulate(weights))
    return available[bisect_right(sums, source.randrange(sums[-1]))]
