"""How a message is declared: once, as data, for all its versions.

A message is a class; each attribute declares what is on the wire, and in which versions::

    class TopicProduceData(Struct):
        name: str = field(STRING)
        partition_data: Sequence[PartitionProduceData] = field(array(PartitionProduceData))

    class ProduceRequest(Request, api=ApiKey.PRODUCE, versions="0-11", flexible="9+"):
        transactional_id: str | None = field(STRING, versions="3+", nullable="3+", default=None)
        acks: int = field(INT16)

Rules of this file:

- Defining a class must cost microseconds, because a broker defines hundreds at start: version texts are
  parsed and ``__init__`` is written when first needed (`wire.codec` compiles its functions equally late).
- Instances are built millions of times: they are slotted, and their ``__init__`` is plain assignment. The type checker
  enforces that instances do not change (``frozen_default``), at no cost at run time.
- Every field has a default, so callers never have to name a field that some version lacks.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, NamedTuple, Self, dataclass_transform, overload

from wire.file_range import FileRange
from wire.uncopied import UncopiedRecords


class VersionRange(NamedTuple):
    """Versions from ``first`` to ``last``, both included; empty where ``last < first``."""

    first: int
    last: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last

    @classmethod
    def parse(cls, text: str) -> "VersionRange":
        """Read Kafka's notation: ``"3"``, ``"0-7"``, ``"3+"`` or ``"none"``."""
        if text == "none":
            return NO_VERSION
        if text.endswith("+"):
            return cls(int(text[:-1]), _LAST_VERSION)
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))


_LAST_VERSION: Final = 0x7FFF
NO_VERSION: Final = VersionRange(0, -1)
MAX_STRING: Final = 0x7FFF
"""Bytes in the longest string; the limit holds for compact strings too."""


class Primitive:
    """A wire type that is neither an array nor a struct.

    Attributes:
        name: Kafka's name for it.
        format: the `struct` letter of a type of fixed width, empty for the others.
        width: bytes on the wire where ``format`` is given, else 0.
        zero: the default of a field that declares none.
    """

    __slots__ = ("format", "name", "width", "zero")

    def __init__(self, name: str, format: str, width: int, zero: object) -> None:
        self.name = name
        self.format = format
        self.width = width
        self.zero = zero

    def __repr__(self) -> str:
        return self.name


BOOL: Final = Primitive("bool", "?", 1, False)
INT8: Final = Primitive("int8", "b", 1, 0)
INT16: Final = Primitive("int16", "h", 2, 0)
UINT16: Final = Primitive("uint16", "H", 2, 0)
INT32: Final = Primitive("int32", "i", 4, 0)
UINT32: Final = Primitive("uint32", "I", 4, 0)
INT64: Final = Primitive("int64", "q", 8, 0)
FLOAT64: Final = Primitive("float64", "d", 8, 0.0)
UUID: Final = Primitive("uuid", "16s", 16, bytes(16))
STRING: Final = Primitive("string", "", 0, "")
BYTES: Final = Primitive("bytes", "", 0, b"")
RECORDS: Final = Primitive("records", "", 0, None)
"""Bytes decoded as a view into the buffer, encoded from bytes, a `FileRange` or `UncopiedRecords`."""


class Records:
    """The static type of a `RECORDS` attribute; never instantiated.

    It is decoded to a view into the buffer (valid as long as that buffer is), and can be set to any bytes, to the
    `FileRange` of a log that is to be sent, or to `UncopiedRecords`.
    """

    @overload
    def __get__(self, instance: None, owner: type) -> "Records": ...
    @overload
    def __get__(self, instance: object, owner: type) -> memoryview | None: ...
    def __get__(self, instance: object, owner: type) -> "Records | memoryview | None":
        raise TypeError("only a type")

    def __set__(
        self, instance: object, value: bytes | bytearray | memoryview | FileRange | UncopiedRecords | None
    ) -> None:
        raise TypeError("only a type")


class Array:
    """A counted sequence of one type."""

    __slots__ = ("element",)
    zero: Final = ()

    def __init__(self, element: "Primitive | type[Struct]") -> None:
        self.element = element

    def __repr__(self) -> str:
        return f"[]{getattr(self.element, '__name__', self.element)}"


def array(element: "Primitive | type[Struct]") -> Array:
    """A counted sequence of ``element``."""
    return Array(element)


class _Unset:
    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = _Unset()


class Field:
    """One attribute of a struct, and its place on the wire.

    Attributes:
        name: the attribute's name.
        type: its wire type.
        versions: versions of the message that have the field.
        nullable: versions in which it may be None.
        tag: where given, the field is sent as a tagged field with this number.
        ignorable: a value that the version cannot carry is dropped silently; otherwise encoding refuses it.
        sensitive: never printed.
    """

    __slots__ = ("_default", "_nullable", "_versions", "ignorable", "name", "sensitive", "tag", "type")

    def __init__(
        self,
        type: "Primitive | Array | type[Struct]",
        versions: str,
        nullable: str,
        default: object,
        tag: int | None,
        ignorable: bool,
        sensitive: bool,
    ) -> None:
        self.name = ""
        self.type = type
        self._versions = versions
        self._nullable = nullable
        self._default = default
        self.tag = tag
        self.ignorable = ignorable
        self.sensitive = sensitive

    @property
    def versions(self) -> VersionRange:
        return VersionRange.parse(self._versions)

    @property
    def nullable(self) -> VersionRange:
        return VersionRange.parse(self._nullable)

    @property
    def default(self) -> object:
        """The value of the field where nothing was given; one shared instance for a struct."""
        if self._default is not UNSET:
            return self._default
        return shared_default(self.type) if isinstance(self.type, type) else self.type.zero

    def __repr__(self) -> str:
        return f"<field {self.name}: {self.type!r} {self._versions}>"


def field(
    type: "Primitive | Array | type[Struct]",
    *,
    versions: str = "0+",
    nullable: str = "none",
    default: object = UNSET,
    tag: int | None = None,
    ignorable: bool = False,
    sensitive: bool = False,
) -> Any:
    """Declare a field; see `Field` for the arguments. Versions are the message's, in nested structs too."""
    return Field(type, versions, nullable, default, tag, ignorable, sensitive)


class Schema:
    """The declaration of a struct or message class.

    Attributes:
        fields: in wire order.
        api_key: of a request or response; -1 for nested structs and data formats.
    """

    __slots__ = ("_flexible", "_versions", "api_key", "fields")

    def __init__(self, fields: tuple[Field, ...], api_key: int, versions: str, flexible: str) -> None:
        self.fields = fields
        self.api_key = api_key
        self._versions = versions
        self._flexible = flexible

    @property
    def versions(self) -> VersionRange:
        return VersionRange.parse(self._versions)

    @property
    def flexible(self) -> VersionRange:
        """The versions with compact lengths and tagged fields (KIP-482)."""
        return VersionRange.parse(self._flexible)


@dataclass_transform(kw_only_default=True, frozen_default=True)
class StructType(type):
    """Makes each declared field a slot, and keeps the declaration as ``__schema__``."""

    def __new__(
        mcs,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        api: int = -1,
        versions: str = "0+",
        flexible: str = "none",
    ) -> "StructType":
        fields = {key: value for key, value in namespace.items() if isinstance(value, Field)}
        for key, value in fields.items():
            value.name = key
            del namespace[key]
        namespace["__slots__"] = tuple(fields)
        namespace["__schema__"] = Schema(tuple(fields.values()), api, versions, flexible)
        return super().__new__(mcs, name, bases, namespace)


class Struct(metaclass=StructType):
    """A group of fields; compared by their values (list or tuple alike), printed by their names."""

    __schema__: ClassVar[Schema]
    __hash__: ClassVar[None]  # type: ignore[assignment]  # the fields may hold lists

    def __init__(self, **values: Any) -> None:
        # The first instance of a class writes that class's own __init__, which replaces this one.
        cls = type(self)
        init = _write_init(cls)
        cls.__init__ = init  # type: ignore[method-assign]
        init(self, **values)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(
            _same(getattr(self, field.name), getattr(other, field.name)) for field in self.__schema__.fields
        )

    def __repr__(self) -> str:
        shown = (
            f"{field.name}={_shown(field, getattr(self, field.name))}" for field in self.__schema__.fields
        )
        return f"{type(self).__name__}({', '.join(shown)})"

    def replace(self, **changes: Any) -> Self:
        """Return a copy with other values in some fields."""
        values = {field.name: getattr(self, field.name) for field in self.__schema__.fields}
        return type(self)(**(values | changes))


class Message(Struct):
    """A struct that is encoded by itself, in a version: a request, a response, or a data format."""


class Request(Message):
    """A request of a client or broker; ``api`` is given in the class statement."""


class Response(Message):
    """The answer to the request of the same API and version."""


class Data(Message):
    """A format stored inside records or passed as opaque bytes; it has versions but no API key."""


_shared_defaults: dict[type, object] = {}


def shared_default(struct: type) -> object:
    """Return the one all-default instance of a struct, so that "is it the default" is mostly an identity check."""
    default = _shared_defaults.get(struct)
    if default is None:
        default = _shared_defaults[struct] = struct()
    return default


def _write_init(cls: type[Struct]) -> Callable[..., None]:
    fields = cls.__schema__.fields
    if not fields:
        source = "def __init__(self):\n    pass\n"
    else:
        parameters = ", ".join(f"{field.name}=_{field.name}" for field in fields)
        body = "".join(f"    self.{field.name} = {field.name}\n" for field in fields)
        source = f"def __init__(self, *, {parameters}):\n{body}"
    scope: dict[str, Any] = {f"_{field.name}": field.default for field in fields}
    exec(compile(source, f"<init of {cls.__qualname__}>", "exec"), scope)
    init: Callable[..., None] = scope["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


def _same(mine: object, others: object) -> bool:
    if isinstance(mine, list | tuple) and isinstance(others, list | tuple):
        return len(mine) == len(others) and all(map(_same, mine, others))
    return bool(mine == others)


def _shown(field: Field, value: object) -> str:
    if field.sensitive and value:
        return "..."
    if field.type is RECORDS and isinstance(value, Sequence | memoryview):
        return f"<{len(value)} bytes>"
    return repr(value)
