"""A message as the JSON that Kafka's tools print for it."""

import base64
from typing import Any
from uuid import UUID as Uuid

from wire.schema import UUID, Array, Field, Message, Primitive, Struct


def to_json(message: Message, version: int) -> dict[str, Any]:
    """Return the fields that a version has, under their Kafka names, in wire order."""
    return _struct(message, version)


def _struct(value: Struct, version: int) -> dict[str, Any]:
    return {
        _kafka_name(field): _value(field.type, getattr(value, field.name), version)
        for field in value.__schema__.fields
        if version in field.versions
        and not (field.tag is not None and getattr(value, field.name) == field.default)
    }


def _value(kind: "Primitive | Array | type[Struct]", value: Any, version: int) -> Any:
    if value is None:
        return None
    if isinstance(kind, Array):
        return [_value(kind.element, each, version) for each in value]
    if isinstance(value, Struct):
        return _struct(value, version)
    if kind is UUID:
        return base64.urlsafe_b64encode(Uuid(bytes=bytes(value)).bytes).decode().rstrip("=")
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    return value


def _kafka_name(field: Field) -> str:
    first, *others = field.name.split("_")
    return first + "".join(word.capitalize() for word in others)
