"""Avro and JSON framed by a schema registry's ids: through brokers, and as fastavro reads and writes the bytes."""

import json
import uuid
from io import BytesIO

import fastavro
import pytest

from ottla.client import EARLIEST, LATEST, DecodeError, SchemaRegistryError, Topic, connect, text
from ottla.client.schema_registry import SchemaRegistry
from tests.compat.client.played_registry import PlayedRegistry, registry

CUSTOMER = {"type": "record", "name": "Customer", "fields": [{"name": "name", "type": "string"}]}
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "apples", "type": "int"}, {"name": "note", "type": "string", "default": "-"}],
}
OLDER = {"type": "record", "name": "Order", "fields": [{"name": "apples", "type": "int"}]}
PARCEL = {"type": "record", "name": "Parcel", "fields": [{"name": "to", "type": "Customer"}]}


@pytest.fixture
def played():
    with registry() as found:
        yield found


def framed(schema_id: int, schema: object, value: object) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return b"\0" + schema_id.to_bytes(4, "big") + out.getvalue()


def test_avro_through_brokers(brokers, run, played: PlayedRegistry) -> None:
    name = brokers.topic(1)
    older = played.add("orders-value", {"schema": json.dumps(OLDER)})

    async def body() -> None:
        schemas = SchemaRegistry(played.url)
        orders = Topic(name, key=text, value=await schemas.avro("orders-value", ORDER))
        async with connect(brokers.bootstrap_servers) as kafka:
            async with kafka.producer() as out:
                await out.send(name, framed(older, OLDER, {"apples": 1}), key=b"old")
                await out.send(orders, {"apples": 2, "note": "new"}, key="ann")
                await out.send(name, framed(99, OLDER, {"apples": 3}), key=b"unknown")
                await out.send(name, b"{}", key=b"unframed")
                with pytest.raises(Exception, match="apples"):
                    await out.send(orders, {"note": "without apples"})
            before = len(played.asked)
            async with kafka.reader(orders, start=EARLIEST, stop=LATEST, max_records=2) as reader:
                batches = [batch async for batch in reader]
            records = [record for batch in batches for record in batch]
            assert [each.value for each in records[:2]] == [
                {"apples": 1, "note": "-"},
                {"apples": 2, "note": "new"},
            ]
            with pytest.raises(DecodeError, match="the registry has no schema 99"):
                _ = records[2].value
            with pytest.raises(DecodeError, match="does not begin with a zero byte"):
                _ = records[3].value
            assert records[1].raw_value == framed(2, ORDER, {"apples": 2, "note": "new"})
            assert played.asked[before:] == ["GET /schemas/ids/1", "GET /schemas/ids/99"]
            options = {"start": EARLIEST, "heartbeat_interval": 0.1, "on_bad": "skip"}
            async with kafka.group(f"avro-{uuid.uuid4().hex[:8]}", orders, **options) as group:
                assert [record.value["apples"] for record in await anext(group)] == [1, 2]

    run(body)


@pytest.mark.parametrize("source", ["reader", "group"])
def test_a_registry_that_is_down_loses_no_batch(brokers, run, played: PlayedRegistry, source: str) -> None:
    name = brokers.topic(1)
    older = played.add("orders-value", {"schema": json.dumps(OLDER)})

    async def body() -> None:
        orders = Topic(name, value=await SchemaRegistry(played.url).avro("orders-value", ORDER))
        async with connect(brokers.bootstrap_servers, retry_backoff_max=0.1) as kafka:
            async with kafka.producer() as out:
                await out.send(name, framed(older, OLDER, {"apples": 1}))
            played.is_down = True
            if source == "reader":
                opened = kafka.reader(orders, start=EARLIEST)
            else:
                group = f"avro-{uuid.uuid4().hex[:8]}"
                opened = kafka.group(group, orders, start=EARLIEST, heartbeat_interval=0.1)
            async with opened as batches:
                with pytest.raises(SchemaRegistryError, match="down for a test"):
                    await anext(batches)
                played.is_down = False
                found = None
                while found is None:
                    try:
                        found = await anext(batches)
                    except SchemaRegistryError:
                        pass
                assert [record.value for record in found] == [{"apples": 1, "note": "-"}]

    run(body)


def test_references_newest_schemas_json_and_refusals(run, played: PlayedRegistry) -> None:
    played.add("customer", {"schema": json.dumps(CUSTOMER)})
    reference = {"name": "Customer", "subject": "customer", "version": 1}
    played.add("parcels", {"schema": json.dumps(PARCEL), "references": [reference]})

    async def body() -> None:
        async with SchemaRegistry(played.url, auth=("user", "password")) as schemas:
            parcels = await schemas.avro("parcels")
            data = parcels.encode({"to": {"name": "ann"}})
            assert data[:5] == b"\0\0\0\0\2"
            assert parcels.decode(data) == {"to": {"name": "ann"}}
            orders = await schemas.json("orders", {"type": "object"})
            assert orders.decode(orders.encode({"a": 1})) == {"a": 1}
            assert orders.encode({"a": 1}) == b'\0\0\0\0\3{"a":1}'
            assert (await schemas.find("orders", {"type": "object"}, "JSON")).schema_id == 3
            with pytest.raises(SchemaRegistryError, match="has schemas of the kind JSON, not AVRO"):
                await schemas.avro("orders")
            with pytest.raises(SchemaRegistryError, match=r"is incompatible \(409\)"):
                await schemas.avro("orders", {"type": "fixed", "name": "incompatible", "size": 1})
            with pytest.raises(SchemaRegistryError, match="not found"):
                await schemas.avro("nothing")
        with pytest.raises(SchemaRegistryError, match=r"cannot be asked: .*refused"):
            await SchemaRegistry("http://127.0.0.1:1").avro("orders")
        with pytest.raises(ValueError, match="is no http address"):
            SchemaRegistry("registry:8081")

    run(body)
