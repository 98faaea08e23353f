"""Unsigned varints and tagged-field sections: the slow paths that generated codecs call.

An unsigned varint is 7 bits a byte, the lowest first, the top bit set on all but the last of at most 5 bytes.
Generated code reads the first byte itself and comes here only where more follow.

A tagged-field section (KIP-482) ends every struct of a flexible version::

    count: uvarint | count times: tag: uvarint, size: uvarint, size bytes

Functions raise `ValueError` or `IndexError` on bad bytes; the codec that called them makes that a
`RemoteProtocolError` which names the message.
"""

from collections.abc import Iterable
from typing import Final

from wire.schema import MAX_STRING

_LONGEST: Final = 28
"""Shift of the fifth byte, which must be the last."""


def more(buffer: bytes | memoryview, position: int, first: int) -> tuple[int, int]:
    """Read the rest of a varint whose ``first`` byte, just before ``position``, had its top bit set.

    Returns:
        The value and the position after it.
    """
    value = first & 0x7F
    for shift in range(7, _LONGEST + 1, 7):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise ValueError("a varint is longer than 5 bytes")


def read_uvarint(buffer: bytes | memoryview, position: int) -> tuple[int, int]:
    """Read a varint; return the value and the position after it."""
    first = buffer[position]
    return (first, position + 1) if first < 0x80 else more(buffer, position + 1, first)


def unusual_string_length(buffer: bytes | memoryview, position: int, first: int) -> tuple[int, int]:
    """Finish the length of a compact string that may not be null, where it was not 1 to 127.

    Returns:
        The string's length plus one, and the position after the length.
    """
    if first == 0:
        raise ValueError("a string that may not be null is null")
    length, position = more(buffer, position, first)
    if not 0 < length <= MAX_STRING + 1:
        raise ValueError(f"a string of {length - 1} bytes is longer than {MAX_STRING}")
    return length, position


def skip_tags(buffer: bytes | memoryview, position: int, count: int, limit: int) -> int:
    """Skip a tagged-field section whose first byte was ``count``; return the position after it."""
    if count > 0x7F:
        count, position = more(buffer, position, count)
    for _ in range(count):  # a false count soon runs into the end of the buffer
        _, position = read_uvarint(buffer, position)
        size, position = read_uvarint(buffer, position)
        position += size
        if position > limit:
            raise IndexError("a tagged field ends behind the message")
    return position


def put_uvarint(out: bytearray, value: int) -> None:
    """Append ``value``, which is not negative and below 2**35."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def fit_text(text: str) -> bytes:
    """Encode the text of an error, cut to what a string may hold."""
    data = text.encode()
    return data if len(data) <= MAX_STRING else data[:MAX_STRING].decode(errors="ignore").encode()


def put_string_length(out: bytearray, length: int) -> None:
    """Append the length plus one of a compact string that is not short.

    Raises:
        ValueError: the string is longer than the protocol allows.
    """
    if length > MAX_STRING + 1:
        raise ValueError(f"a string of {length - 1} bytes is longer than {MAX_STRING}")
    put_uvarint(out, length)


def put_tags(out: bytearray, tags: Iterable[tuple[int, bytearray]]) -> None:
    """Append a tagged-field section; ``tags`` are (tag, encoded value) in ascending order."""
    tags = list(tags)
    put_uvarint(out, len(tags))
    for tag, value in tags:
        put_uvarint(out, tag)
        put_uvarint(out, len(value))
        out += value
