"""Requests that no client sends: every field of every request and version at its limits.

A *case* is a whole frame: a request with one of everything, in which one field is set to what hurts most.

- an array that claims 2^31 - 1 elements, and one that has 100,000 different ones
- a string of 32,767 bytes, and one that claims more than the frame holds
- bytes of 1 MiB, and bytes that claim 2 GiB
- numbers at their limits: 2^31 - 1 partitions, replicas, epochs, timeouts, all at once and each by itself
- tagged fields by the billion, a truncated frame
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from wire.apis import API_TABLE, Api
from wire.frames import encode_request
from wire.schema import BOOL, BYTES, FLOAT64, RECORDS, STRING, UUID, Array, Field, Message, Primitive, Struct

ENTRIES: Final = 100_000
VALUE: Final = b"\xa5" * (1 << 20)
NAME: Final = "n" * 32_767
_LENGTH: Final = 4
Path = tuple[str, ...]


class Case(NamedTuple):
    """One hostile frame.

    Attributes:
        api: The API of the request.
        version: The version of the request.
        what: The field, and what it holds.
        build: Makes the bytes after the length.
    """

    api: Api
    version: int
    what: str
    build: Callable[[], bytes]

    @property
    def frame(self) -> bytes:
        """The bytes to send, with their length in front; made on each access, because some are large."""
        body = self.build()
        return len(body).to_bytes(_LENGTH, "big") + body

    def __str__(self) -> str:
        return f"{self.api.name} v{self.version}: {self.what}"


def cases(api: Api, version: int) -> Iterator[Case]:
    """Return the cases of one version of one request."""

    def whole() -> bytes:
        return _encode(api, version, {})

    yield Case(api, version, "one of everything", whole)
    yield Case(api, version, "cut after a third", lambda: whole()[: len(whole()) // 3])
    yield Case(api, version, "cut after two thirds", lambda: whole()[: len(whole()) * 2 // 3])
    if api.is_flexible(version):
        yield Case(
            api, version, "tagged fields by the billion", lambda: whole()[:-1] + b"\xff\xff\xff\xff\x07"
        )
        yield Case(
            api, version, "a tag that claims 2 GiB", lambda: whole()[:-1] + b"\x01\x63\xff\xff\xff\xff\x07"
        )
    fields = list(_fields(api.request, version))
    for end, name in enumerate(("least", "greatest")):
        numbers = {path: _ends(field.type)[end] for path, field in fields if _ends(field.type)}
        if numbers:
            yield Case(api, version, f"all numbers at their {name}", partial(_encode, api, version, numbers))
    for path, field in fields:
        for what, build in _cases_of(api, version, path, field):
            yield Case(api, version, f"{'.'.join(path)} {what}", build)


def all_cases() -> Iterator[Case]:
    """Return the cases of all versions of all requests."""
    for api in API_TABLE.values():
        for version in range(api.min_version, api.max_version + 1):
            yield from cases(api, version)


def _cases_of(api: Api, version: int, path: Path, field: Field) -> Iterator[tuple[str, Callable[[], bytes]]]:
    kind = field.type
    flexible = api.is_flexible(version)
    huge = b"\xff\xff\xff\xff\x07" if flexible else b"\x7f\xff\xff\xff"
    if isinstance(kind, Array):
        one = _value(kind.element, version, path, {}, 0)
        yield "claims 2^31 - 1 elements", partial(_claim, api, version, path, ((), (one,)), huge, 4)
        yield f"of {ENTRIES:,}", partial(_encode_many, api, version, path, kind)
    elif kind is STRING:
        yield f"of {len(NAME):,} bytes", partial(_encode, api, version, {path: NAME})
        claim = b"\xff\xff\x03" if flexible else b"\x7f\xff"
        yield "claims more than there is", partial(_claim, api, version, path, ("", "a"), claim, 2)
    elif kind in (BYTES, RECORDS):
        yield "of 1 MiB", partial(_encode, api, version, {path: VALUE})
        yield "claims 2 GiB", partial(_claim, api, version, path, (b"", b"a"), huge, 4)
    else:
        for value in _ends(kind):
            yield f"= {value}", partial(_encode, api, version, {path: value})


def _encode_many(api: Api, version: int, path: Path, kind: Array) -> bytes:
    many = [_value(kind.element, version, path, {}, number) for number in range(ENTRIES)]
    return _encode(api, version, {path: many})


def _claim(
    api: Api, version: int, path: Path, values: tuple[object, object], claim: bytes, width: int
) -> bytes:
    """Return a frame where a field claims the length `claim` and few bytes follow; two encodings show its place."""
    none, one = (_encode(api, version, {path: value}) for value in values)
    at = next(place for place, (a, b) in enumerate(zip(none, one, strict=False)) if a != b)
    if not api.is_flexible(version):
        at -= width - 1
    return none[:at] + claim + bytes(16)


def _encode(api: Api, version: int, values: Mapping[Path, object]) -> bytes:
    message: Message = _struct(api.request, version, (), values, 0)
    return bytes(encode_request(message, version, 1, "hostile")[_LENGTH:])


def _struct(cls: type[Struct], version: int, path: Path, values: Mapping[Path, object], number: int) -> Any:
    given = {}
    for field in cls.__schema__.fields:
        if version in field.versions:
            inner = (*path, field.name)
            given[field.name] = (
                values[inner] if inner in values else _value(field.type, version, inner, values, number)
            )
    return cls(**given)


def _value(kind: Any, version: int, path: Path, values: Mapping[Path, object], number: int) -> Any:
    """Return a value of a type, where possible a different one for each number; an array gets one element."""
    if isinstance(kind, Array):
        return [_value(kind.element, version, path, values, number)]
    if isinstance(kind, type):
        return _struct(kind, version, path, values, number)
    if kind is STRING:
        return f"x{number}"
    if kind in (BYTES, RECORDS):
        return b"x"
    if kind is UUID:
        return number.to_bytes(16, "big")
    if kind is BOOL:
        return False
    if kind is FLOAT64:
        return 1.0
    return number % 100


def _fields(cls: type[Struct], version: int, path: Path = ()) -> Iterator[tuple[Path, Field]]:
    for field in cls.__schema__.fields:
        if version not in field.versions:
            continue
        inner = (*path, field.name)
        yield inner, field
        kind = field.type.element if isinstance(field.type, Array) else field.type
        if isinstance(kind, type):
            yield from _fields(kind, version, inner)


def _ends(kind: object) -> tuple[Any, ...]:
    """Return the least and the greatest value of a numeric type; an empty tuple for other types."""
    if not isinstance(kind, Primitive) or not kind.format or kind is UUID:
        return ()
    if kind is BOOL:
        return (False, True)
    if kind is FLOAT64:
        return (-1.7e308, 1.7e308)
    bits = 8 * kind.width
    return (0, (1 << bits) - 1) if kind.format.isupper() else (-(1 << bits - 1), (1 << bits - 1) - 1)
