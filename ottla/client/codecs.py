"""Typed topics: a name with the codecs of its keys and values.

A codec is two functions and a name. Encoding happens at `post`, decoding on access to a record; a plain topic name
means bytes.
"""

import json
import struct
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass
from typing import Any, Final, Generic, TypeVar, overload

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Codec(Generic[T]):
    """How values of a type become bytes and back.

    Attributes:
        name: For error texts.
        encode: Value to bytes; what it raises leaves `post` as it is.
        decode: Bytes to value; what it raises becomes a `DecodeError`.
        prepare: Awaited with a batch's bytes before the batch is handed out, for what `decode` must not wait for.
    """

    name: str
    encode: Callable[[T], bytes]
    decode: Callable[[bytes], T]
    prepare: Callable[[Sequence[bytes | None]], Awaitable[None]] | None = None


def _same(data: bytes) -> bytes:
    return data


raw: Final[Codec[bytes]] = Codec("bytes", _same, _same)
"""Bytes as they are."""
text: Final[Codec[str]] = Codec("text", str.encode, bytes.decode)
"""Strings in UTF-8."""
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_FLOAT64 = struct.Struct(">d")


def _number(name: str, layout: struct.Struct) -> Codec[Any]:
    def decode(data: bytes) -> Any:
        return layout.unpack(data)[0]

    return Codec(name, layout.pack, decode)


int32: Final[Codec[int]] = _number("int32", _INT32)
"""Four bytes, big-endian, as Java's IntegerSerializer writes them."""
int64: Final[Codec[int]] = _number("int64", _INT64)
"""Eight bytes, big-endian, as Java's LongSerializer writes them."""
float64: Final[Codec[float]] = _number("float64", _FLOAT64)
"""Eight bytes, big-endian, as Java's DoubleSerializer writes them."""


@overload
def json_codec() -> Codec[Any]: ...
@overload
def json_codec(kind: type[T]) -> Codec[T]: ...
def json_codec(kind: type[Any] | None = None) -> Codec[Any]:
    """Return a codec for JSON in UTF-8.

    Args:
        kind: A flat dataclass to read objects into; unknown members are ignored, so that writers may add some.
            None for plain dicts, lists, strings and numbers.
    """
    if kind is None:
        return Codec("json", _dump, json.loads)
    if not is_dataclass(kind):
        raise TypeError(f"{kind.__name__} is no dataclass: use a Codec of your own")
    names = frozenset(each.name for each in fields(kind))

    def decode(data: bytes) -> Any:
        members = json.loads(data)
        return kind(**{name: value for name, value in members.items() if name in names})

    return Codec(f"json of {kind.__name__}", _dump_dataclass, decode)


def _dump(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _dump_dataclass(value: Any) -> bytes:
    return _dump(asdict(value))


class Topic(Generic[K, V]):
    """A topic's name with the types of its keys and values.

    Args:
        name: The topic.
        key: The codec of its keys.
        value: The codec of its values.
    """

    __slots__ = ("key", "name", "value")

    @overload
    def __init__(self: "Topic[bytes, bytes]", name: str) -> None: ...
    @overload
    def __init__(self: "Topic[bytes, V]", name: str, *, value: Codec[V]) -> None: ...
    @overload
    def __init__(self: "Topic[K, bytes]", name: str, *, key: Codec[K]) -> None: ...
    @overload
    def __init__(self, name: str, *, key: Codec[K], value: Codec[V]) -> None: ...
    def __init__(self, name: str, *, key: Codec[Any] = raw, value: Codec[Any] = raw) -> None:
        self.name = name
        self.key: Codec[K] = key
        self.value: Codec[V] = value

    @property
    def needs_preparation(self) -> bool:
        """Whether a codec has something to look up before a batch is handed out."""
        return self.key.prepare is not None or self.value.prepare is not None

    def __repr__(self) -> str:
        return f"Topic({self.name!r}, key={self.key.name}, value={self.value.name})"


AnyTopic = str | Topic[Any, Any]


def as_topic(topic: AnyTopic) -> Topic[Any, Any]:
    """Return a topic for a plain name, and a topic as it is."""
    return Topic(topic) if isinstance(topic, str) else topic
