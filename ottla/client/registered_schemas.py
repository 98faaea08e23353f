"""Schemas as a registry has them, and the ids of schemas in front of values. No I/O."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Final, Protocol

_FRAME: Final = Struct(">bi")
_MAGIC: Final = 0


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema as the registry has it.

    Attributes:
        schema_id: What the registry calls it.
        kind: AVRO or JSON.
        text: The schema.
        references: Schemas that it names: their names, subjects and versions.
    """

    schema_id: int
    kind: str
    text: str
    references: tuple[tuple[str, str, int], ...] = ()


class SchemaSource(Protocol):
    """Returns schemas by their ids."""

    async def by_id(self, schema_id: int) -> RegisteredSchema:
        """Return the schema with an id; raises `SchemaRegistryError`."""
        ...

    async def references(self, schema: RegisteredSchema) -> list[str]:
        """Return the texts of the schemas that one names, each behind those that it names itself."""
        ...


def read_frame(data: bytes) -> int:
    """Return the schema id that a value begins with.

    Raises:
        ValueError: The value has no such frame.
    """
    if len(data) < _FRAME.size or data[0] != _MAGIC:
        raise ValueError("it does not begin with a zero byte and a schema's id")
    return int(_FRAME.unpack_from(data)[1])


def new_ids(values: Sequence[bytes | None], known: Callable[[int], bool]) -> set[int]:
    """Return the schema ids in values that are not known yet."""
    ids = {value[1:5] for value in values if value and len(value) >= _FRAME.size and value[0] == _MAGIC}
    return {number for each in ids if not known(number := int.from_bytes(each, "big", signed=True))}


def frame(schema_id: int) -> bytes:
    """Return what stands before a value of a schema."""
    return _FRAME.pack(_MAGIC, schema_id)
