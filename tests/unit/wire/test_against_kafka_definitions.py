"""Our declarations against Kafka's own, message by message and version by version.

Kafka's are the JSON files that its jars carry under ``common/message/``: never copied into the project, they are
read from the jars that `make install` fetches.
"""

import json
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.unit.wire.strategies import FORMATS, all_messages, versions
from wire.apis import API_TABLE, FIRST_OWN_KEY, ApiKey
from wire.schema import Array, Message, Primitive, Struct, VersionRange

Definition = Mapping[str, Any]

JARS = ("kafka-clients", "kafka-group-coordinator", "kafka-transaction-coordinator")
RENAMED = {"AlterPartitionResponse", "AlterClientQuotasResponse"}
"""Messages whose nested structs share names with others in their module, and so have the suffix Response."""
KAFKA_APIS = [api for api in API_TABLE.values() if api.key < FIRST_OWN_KEY]
OWN_MESSAGES = {
    cls for api in API_TABLE.values() if api not in KAFKA_APIS for cls in (api.request, api.response)
}


@pytest.fixture(scope="module")
def definitions(kafka_libs: Path) -> Mapping[str, Definition]:
    """Kafka 3.9's definitions by message name."""
    found: dict[str, Definition] = {}
    for jar_name in JARS:
        jars = list(kafka_libs.glob(f"{jar_name}-3.9.*.jar"))
        assert jars, f"{kafka_libs} holds no {jar_name}-3.9.x.jar: run `make install` with Maven on the path"
        with zipfile.ZipFile(jars[0]) as jar:
            for entry in jar.namelist():
                if entry.startswith("common/message/") and entry.endswith(".json"):
                    text = re.sub(r"^\s*//.*$", "", jar.read(entry).decode(), flags=re.MULTILINE)
                    definition = json.loads(text)
                    found[definition["name"]] = definition
    return found


def snake_case(name: str) -> str:
    name = name.replace("KRaft", "Kraft")
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def kafka_default(kind: str, field: Definition, children: object) -> object:
    """Return the default that Kafka's generator derives for a field."""
    given = field.get("default")
    if given == "null":
        return None
    if kind.startswith("[]"):
        return ()
    if kind == "bool":
        return str(given).lower() == "true"
    if kind == "string":
        return given or ""
    if kind == "bytes":
        return b""
    if kind == "records":
        return None
    if kind == "uuid":
        return bytes(16)
    if kind == "float64":
        return float(given or 0)
    if children is not None:
        return "struct"
    return int(str(given), 0) if given is not None else 0


def kafka_layout(
    fields: list[Definition], structs: Mapping[str, list[Definition]], version: int
) -> list[Any]:
    """A version's fields in Kafka's definition, in wire order, as comparable values."""
    layout = []
    for field in fields:
        kind = field["type"]
        element = kind.removeprefix("[]")
        nested = field.get("fields") or structs.get(element)
        children = kafka_layout(nested, structs, version) if nested else None
        absent = version not in VersionRange.parse(field["versions"])
        layout.append(
            (
                snake_case(field["name"]),
                "absent" if absent else kind,
                not absent and version in VersionRange.parse(field.get("nullableVersions", "none")),
                None if absent else field.get("tag"),
                field.get("ignorable", False),
                kafka_default(kind, field, children),
                None if absent else children,
            )
        )
    return layout


def our_layout(cls: type[Struct], version: int) -> list[Any]:
    """The same for a class of ours."""
    layout = []
    for field in cls.__schema__.fields:
        kind = field.type
        element = kind.element if isinstance(kind, Array) else kind
        name = element.name if isinstance(element, Primitive) else element.__name__
        absent = version not in field.versions
        default = field.default
        layout.append(
            (
                field.name,
                "absent" if absent else f"[]{name}" if isinstance(kind, Array) else name,
                not absent and version in field.nullable,
                None if absent else field.tag,
                field.ignorable,
                "struct" if isinstance(default, Struct) else default,
                None if absent or isinstance(element, Primitive) else our_layout(element, version),
            )
        )
    return layout


def without_suffix(layout: list[Any]) -> list[Any]:
    """The layout with the names that Kafka gives to its structs."""
    return [
        (name, kind.removesuffix("Response"), *rest, children and without_suffix(children))
        for name, kind, *rest, children in layout
    ]


def test_we_know_the_apis_of_a_zookeeper_mode_broker(definitions: Mapping[str, Definition]) -> None:
    requests = [definition for definition in definitions.values() if definition["type"] == "request"]
    ours = {(api.key, api.request_name, api.min_version, api.max_version) for api in KAFKA_APIS}
    kafkas = set()
    for request in requests:
        if "zkBroker" in request.get("listeners", ()):
            served = VersionRange.parse(request["validVersions"])
            last = served.last - bool(request.get("latestVersionUnstable"))
            kafkas.add((request["apiKey"], request["name"], served.first, last))
    assert ours == kafkas
    assert {(key.value, key.name) for key in ApiKey if key < FIRST_OWN_KEY} == {
        (request["apiKey"], snake_case(request["name"].removesuffix("Request")).upper())
        for request in requests
    }


@pytest.mark.parametrize(
    "cls", [cls for cls in all_messages() if cls not in OWN_MESSAGES], ids=lambda cls: cls.__name__
)
def test_a_message_is_laid_out_as_kafka_does(
    cls: type[Message], definitions: Mapping[str, Definition]
) -> None:
    definition = definitions[cls.__name__]
    schema = cls.__schema__
    assert schema.versions == VersionRange.parse(definition["validVersions"])
    assert schema.flexible == VersionRange.parse(definition["flexibleVersions"])
    assert schema.api_key == definition.get("apiKey", -1)
    structs = {struct["name"]: struct["fields"] for struct in definition.get("commonStructs", ())}
    for version in versions(cls):
        ours = our_layout(cls, version)
        kafkas = kafka_layout(definition["fields"], structs, version)
        if cls.__name__ in RENAMED:
            ours, kafkas = without_suffix(ours), without_suffix(kafkas)
        assert ours == kafkas, f"version {version}"


@pytest.mark.parametrize("api", KAFKA_APIS, ids=lambda api: api.name)
def test_the_table_of_apis_agrees_with_the_messages(api: Any) -> None:
    for cls in (api.request, api.response):
        assert cls.__schema__.api_key == api.key
        assert cls.__schema__.versions == (api.min_version, api.max_version)
        for version in versions(cls):
            assert api.is_flexible(version) == (version in cls.__schema__.flexible)


def test_every_format_is_kafkas(definitions: Mapping[str, Definition]) -> None:
    assert all(definitions[cls.__name__]["type"] == "data" for cls in FORMATS)
