"""Kafka's deserialisers by their class names: bytes to the text that Java prints of what they make. No I/O."""

import struct
import uuid
from collections.abc import Callable
from typing import Final

Deserializer = Callable[[bytes], bytes]
"""Bytes of a key, value or header to the bytes that are printed."""


class DeserializationError(ValueError):
    """Bytes are not what the deserialiser reads."""


def deserializer(name: str) -> Deserializer:
    """Return a deserialiser by its Java class's name, or by its short one, such as ``LongDeserializer``.

    Raises:
        ValueError: There is none of that name here.
    """
    for package in ("org.apache.kafka.common.serialization.", "kafka.serializer.", ""):
        found = _DESERIALIZERS.get(name.removeprefix(package)) if name.startswith(package) else None
        if found is not None:
            return found
    raise ValueError(
        f"the deserialiser {name} is Java, which cannot be loaded here; there are {', '.join(_DESERIALIZERS)}"
    )


def _same(data: bytes) -> bytes:
    return data


def _string(data: bytes) -> bytes:
    return data.decode(errors="replace").encode()


def _number(name: str, layout: str, show: Callable[[float], str]) -> Deserializer:
    unpacker = struct.Struct(layout)

    def read(data: bytes) -> bytes:
        if len(data) != unpacker.size:
            raise DeserializationError(f"a {name} has {unpacker.size} bytes, and here are {len(data)}")
        return show(unpacker.unpack(data)[0]).encode()

    return read


def _boolean(data: bytes) -> bytes:
    if data not in (b"\0", b"\1"):
        raise DeserializationError("a boolean is one byte, 0 or 1")
    return b"true" if data == b"\1" else b"false"


def _uuid(data: bytes) -> bytes:
    try:
        return str(uuid.UUID(data.decode())).encode()
    except ValueError as error:
        raise DeserializationError(f"it is no UUID: {error}") from None


def _escaped(data: bytes) -> bytes:
    """Show bytes as Kafka's Bytes does: what is printable as it is, the rest in hexadecimal."""
    return b"".join(
        bytes([each]) if 0x20 <= each <= 0x7E and each != 0x5C else b"\\x%02X" % each for each in data
    )


def _void(data: bytes) -> bytes:
    raise DeserializationError(f"void is null, and here are {len(data)} bytes")


def java_double(number: float) -> str:
    """Write a double as Java's Double.toString does."""
    return _java_number(number, repr)


def java_float(number: float) -> str:
    """Write a float, given as the double of the same value, as Java's Float.toString does."""
    return _java_number(number, _shortest_float)


def _shortest_float(number: float) -> str:
    for precision in range(1, 10):
        text = f"{number:.{precision}g}"
        if struct.unpack(">f", struct.pack(">f", float(text)))[0] == number:
            return text
    return repr(number)


def _java_number(number: float, shortest: Callable[[float], str]) -> str:
    if number != number:  # NaN
        return "NaN"
    sign = "-" if str(number).startswith("-") else ""
    size = abs(number)
    if size == float("inf"):
        return f"{sign}Infinity"
    if size == 0:
        return f"{sign}0.0"
    mantissa, _, exponent = shortest(size).partition("e")
    whole, _, part = mantissa.partition(".")
    digits = (whole + part).lstrip("0")
    place = len(whole) + int(exponent or 0) - (len(whole + part) - len(digits))
    digits = digits.rstrip("0") or "0"
    if 1e-3 <= size < 1e7:
        if place <= 0:
            return f"{sign}0.{'0' * -place}{digits}"
        return f"{sign}{digits[:place].ljust(place, '0')}.{digits[place:] or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{place - 1}"


_DESERIALIZERS: Final[dict[str, Deserializer]] = {
    "ByteArrayDeserializer": _same,
    "StringDeserializer": _string,
    "ShortDeserializer": _number("short", ">h", str),
    "IntegerDeserializer": _number("int", ">i", str),
    "LongDeserializer": _number("long", ">q", str),
    "FloatDeserializer": _number("float", ">f", java_float),
    "DoubleDeserializer": _number("double", ">d", java_double),
    "BooleanDeserializer": _boolean,
    "UUIDDeserializer": _uuid,
    "BytesDeserializer": _escaped,
    "VoidDeserializer": _void,
    "DefaultDecoder": _same,
    "StringDecoder": _string,
}
