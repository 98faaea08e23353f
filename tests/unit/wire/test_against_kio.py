"""Our bytes against kio's, an independent implementation generated from Kafka's own definitions.

kio follows a later Kafka, which has dropped the APIs of ZooKeeper mode and the oldest versions; the rest must agree
byte for byte, both ways.
"""

import io
import random
from typing import Any

import pytest
from kio.index import load_entity_schema
from kio.schema.errors import ErrorCode
from kio.schema.index import schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from tests.unit.wire.strategies import all_messages, versions
from wire.codec import decode, encode
from wire.errors import Error
from wire.schema import BOOL, BYTES, FLOAT64, RECORDS, STRING, UUID, Array, Message, Primitive, Struct

KINDS = {"Request": EntityType.request, "Response": EntityType.response}


def kio_versions() -> list[Any]:
    """The messages and versions that kio has too."""
    shared = []
    for cls in all_messages():
        name = cls.__name__
        kind = KINDS.get(next((suffix for suffix in KINDS if name.endswith(suffix)), ""), EntityType.data)
        base = cls.__module__.rsplit(".", 1)[1] if kind is not EntityType.data else snake_case(name)
        shared += [
            pytest.param(cls, version, base, kind, id=f"{name}-{version}")
            for version in versions(cls)
            if kind in schema_name_map.get(base, {}).get(version, {})
        ]
    return shared


def snake_case(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


def filled(cls: type[Struct], version: int, chance: random.Random) -> Any:
    """An instance with values that kio accepts: it turns codes into enums, and milliseconds into times."""
    values = {}
    for field in cls.__schema__.fields:
        if version not in field.versions or (version in field.nullable and chance.random() < 0.2):
            continue
        if field.name.endswith("error_code"):
            values[field.name] = int(chance.choice(list(Error)))
        else:
            values[field.name] = value(field.type, version, chance)
    return cls(**values)


def value(kind: Primitive | Array | type[Struct], version: int, chance: random.Random) -> Any:
    if isinstance(kind, Array):
        return [value(kind.element, version, chance) for _ in range(chance.choice([0, 1, 3]))]
    if isinstance(kind, type):
        return filled(kind, version, chance)
    if kind is STRING:
        return chance.choice(["", "topic", "größer", "x" * 127, "y" * 300])
    if kind in (BYTES, RECORDS):
        return chance.randbytes(chance.choice([0, 1, 126, 127, 20_000]))
    if kind is UUID:
        return chance.randbytes(16)
    if kind is BOOL:
        return chance.random() < 0.5
    if kind is FLOAT64:
        return chance.random()
    return chance.randrange(1 << min(8 * kind.width - 1, 40))


@pytest.mark.parametrize(("cls", "version", "base", "kind"), kio_versions())
def test_each_reads_what_the_other_wrote(cls: type[Message], version: int, base: str, kind: Any) -> None:
    theirs = load_entity_schema(base, version, kind)
    read, write = entity_reader(theirs), entity_writer(theirs)
    for seed in range(2):
        message = filled(cls, version, random.Random(seed))
        ours = bytes(encode(message, version))
        entity, size = read(ours, 0)
        assert size == len(ours)
        written = io.BytesIO()
        write(written, entity)
        assert written.getvalue() == ours
        assert decode(cls, version, written.getvalue()) == message


def test_they_agree_on_most_of_the_protocol() -> None:
    assert len(kio_versions()) > 300


@pytest.mark.parametrize("error", list(Error), ids=lambda error: error.name)
def test_errors_agree(error: Error) -> None:
    theirs = ErrorCode(error.value)
    assert theirs.name.removesuffix("_error") in (
        error.name.lower(),
        error.name.lower().removesuffix("_error"),
    )
    assert theirs.retriable == error.retriable
