"""Avro values framed by a schema registry's ids, by fastavro; importing this module imports it."""

import json
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

import fastavro

from ottla.client.errors import SchemaRegistryError
from ottla.client.registered_schemas import RegisteredSchema, SchemaSource, frame, new_ids, read_frame


class AvroCodec:
    """Encodes with one schema, and decodes with the schema that a value names.

    Args:
        registry: Where schemas are looked up.
        written: The schema of values that are written.
        read_as: The schema that values are converted to when read; None keeps the writer's.
    """

    def __init__(
        self, registry: SchemaSource, written: RegisteredSchema, read_as: str | Mapping[str, Any] | None
    ) -> None:
        self._registry = registry
        self._written = written
        self._head = frame(written.schema_id)
        self._read_as: Any = None if read_as is None else fastavro.parse_schema(_loaded(read_as))
        self._parsed: dict[int, Any] = {}

    def encode(self, value: Any) -> bytes:
        """Return a value's frame and bytes; fastavro's errors propagate."""
        out = BytesIO()
        out.write(self._head)
        fastavro.schemaless_writer(out, self._parsed[self._written.schema_id], value)
        return out.getvalue()

    def decode(self, data: bytes) -> Any:
        """Return the value of some bytes; `prepare` has looked up its schema.

        Raises:
            ValueError: It has no frame, or the registry does not know its schema.
        """
        schema_id = read_frame(data)
        parsed = self._parsed.get(schema_id)
        if parsed is None:
            raise ValueError(f"the registry has no schema {schema_id}")
        return fastavro.schemaless_reader(BytesIO(data[len(self._head) :]), parsed, self._read_as)

    async def prepare(self, values: Sequence[bytes | None]) -> None:
        """Look up the schemas of values that are about to be decoded.

        One that the registry does not know makes `decode` fail later, as for any undecodable record.

        Raises:
            SchemaRegistryError: The registry cannot be asked.
        """
        for schema_id in new_ids(values, self._parsed.__contains__):
            try:
                await self.learn(await self._registry.by_id(schema_id))
            except SchemaRegistryError as error:
                if error.status != 404:
                    raise

    async def learn(self, schema: RegisteredSchema) -> None:
        """Parse a schema, those that it names first."""
        named: dict[str, Any] = {}
        for text in await self._registry.references(schema):
            fastavro.parse_schema(json.loads(text), named_schemas=named)
        self._parsed[schema.schema_id] = fastavro.parse_schema(json.loads(schema.text), named_schemas=named)


def _loaded(schema: str | Mapping[str, Any]) -> Any:
    return json.loads(schema) if isinstance(schema, str) else schema
