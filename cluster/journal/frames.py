"""The journal's bytes.

A file begins with the magic, then come frames until its end::

    +--------+   +------------+--------------+---------------------+
    | "OTJ1" |   | length u32 | CRC-32C u32  | payload (length)    |   big-endian; the CRC is over the payload
    +--------+   +------------+--------------+---------------------+

A payload is one event, a msgpack map. A crash can leave the last frame torn: reading ends before it.
"""

from collections.abc import Iterator, Mapping
from struct import Struct
from typing import Any, Final

import crc32c
import msgpack

MAGIC: Final = b"OTJ1"
PAYLOAD_SIZE_MAX: Final = 1 << 20

_HEADER: Final = Struct(">II")


class JournalError(Exception):
    """A file is not a journal, or is damaged before its end."""


def encode_frame(event: Mapping[str, Any]) -> bytes:
    """Encode one event; its values are of types that msgpack knows."""
    payload: bytes = msgpack.packb(event)
    return _HEADER.pack(len(payload), crc32c.crc32c(payload)) + payload


def read_frames(data: bytes | memoryview, position: int = 0) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield the events from a position on, each with the position after it; stop before a torn last frame.

    Args:
        data: A journal's bytes.
        position: Where to begin, in bytes: 0 for the whole file, else a position that an earlier call yielded.

    Raises:
        JournalError: it is not a journal, or a frame other than the last is damaged.
    """
    if position == 0:
        if data[: len(MAGIC)] != MAGIC[: len(data)]:
            raise JournalError("this is no state-change journal")
        position = len(MAGIC)
    view = memoryview(data)
    while position + _HEADER.size <= len(view):
        size, crc = _HEADER.unpack_from(view, position)
        end = position + _HEADER.size + size
        if end > len(view) and size <= PAYLOAD_SIZE_MAX:
            return
        payload = view[position + _HEADER.size : end]
        if size > PAYLOAD_SIZE_MAX or crc32c.crc32c(payload) != crc:
            if end >= len(view):
                return
            raise JournalError(f"the frame at {position} is damaged")
        event: dict[str, Any] = msgpack.unpackb(payload)
        yield event, end
        position = end
