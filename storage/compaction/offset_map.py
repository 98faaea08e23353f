"""The latest offset of each key, in bounded memory."""

import hashlib
from typing import Final

EXACT_LENGTH_MAX: Final = 16
_ENTRY_BYTES: Final = 190
"""The most bytes that a key takes: its bytes object, its offset, and its share of a dictionary that has just grown."""


class OffsetMap:
    """Keys to offsets. Keys of up to 16 bytes are held as they are, longer ones by their MD5 digest, as Kafka holds
    all.

    Attributes:
        latest: the offset up to which the log is in the map.
        offsets: by `held` key.
        capacity: how many keys may be held.
    """

    __slots__ = ("capacity", "latest", "offsets")

    def __init__(self, memory: int) -> None:
        """Take the map's size limit in bytes."""
        self.capacity = max(memory // _ENTRY_BYTES, 1)
        self.offsets: dict[bytes, int] = {}
        self.latest = -1

    @property
    def is_full(self) -> bool:
        """Whether no further key fits."""
        return len(self.offsets) >= self.capacity

    def put(self, key: bytes, offset: int) -> None:
        """Note that a record has this key; offsets must rise from call to call."""
        self.offsets[key if len(key) <= EXACT_LENGTH_MAX else digest(key)] = offset

    def get(self, key: bytes) -> int:
        """Return the latest offset of a key, -1 where it is not in the map."""
        return self.offsets.get(key if len(key) <= EXACT_LENGTH_MAX else digest(key), -1)


def digest(key: bytes) -> bytes:
    """Return what stands for a long key in a map."""
    # A prefix keeps digests apart from the keys of 16 bytes that are held as they are.
    return b"\0" + hashlib.md5(key, usedforsecurity=False).digest()
