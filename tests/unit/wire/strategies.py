"""Every message class with its versions, and Hypothesis strategies that fill them.

Two profiles: ``deterministic`` is the default, a few examples, the same in each run; with
``OTTLA_HYPOTHESIS=exhaustive`` each property gets hundreds of random ones.
"""

import os
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from wire.apis import API_TABLE
from wire.formats.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from wire.formats.default_principal import DefaultPrincipalData
from wire.formats.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from wire.formats.transaction_log import TransactionLogKey, TransactionLogValue
from wire.schema import BOOL, BYTES, FLOAT64, RECORDS, STRING, UUID, Array, Data, Message, Primitive, Struct

EXHAUSTIVE = os.environ.get("OTTLA_HYPOTHESIS") == "exhaustive"


def property_settings(examples: int) -> settings:
    """Return the settings of a property that tries `examples` examples in the deterministic profile."""
    return settings(
        max_examples=examples * 20 if EXHAUSTIVE else examples,
        derandomize=not EXHAUSTIVE,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


FORMATS: tuple[type[Data], ...] = (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    DefaultPrincipalData,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    TransactionLogKey,
    TransactionLogValue,
)


def all_messages() -> list[type[Message]]:
    """Requests, responses and formats."""
    requests_and_responses = [cls for api in API_TABLE.values() for cls in (api.request, api.response)]
    return [*requests_and_responses, *FORMATS]


def versions(cls: type[Message]) -> range:
    return range(cls.__schema__.versions.first, cls.__schema__.versions.last + 1)


ALL_VERSIONS = [
    pytest.param(cls, version, id=f"{cls.__name__}-{version}")
    for cls in all_messages()
    for version in versions(cls)
]
"""Parameters: every class in every version."""


def _integers(bits: int, signed: bool) -> st.SearchStrategy[int]:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return st.integers(low, high)


_PRIMITIVES: dict[Primitive, st.SearchStrategy[Any]] = {
    BOOL: st.booleans(),
    FLOAT64: st.floats(allow_nan=False),
    STRING: st.text(max_size=5) | st.sampled_from(["é" * 63, "é" * 64, "x" * 127, "y" * 20000]),
    BYTES: st.binary(max_size=5) | st.sampled_from([bytes(126), bytes(127), bytes(128), bytes(16384)]),
    RECORDS: st.binary(max_size=5) | st.sampled_from([bytes(126), bytes(127), bytes(128), bytes(16384)]),
    UUID: st.binary(min_size=16, max_size=16),
}


def _values(kind: Primitive | Array | type[Struct], version: int) -> st.SearchStrategy[Any]:
    if isinstance(kind, Array):
        return st.lists(_values(kind.element, version), max_size=2)
    if isinstance(kind, type):
        return instances(kind, version)
    known = _PRIMITIVES.get(kind)
    return known if known is not None else _integers(8 * kind.width, kind.format.islower())


@cache
def instances(cls: type[Struct], version: int) -> st.SearchStrategy[Any]:
    """Instances with any value in each field that the version has, and the default in the others."""
    fields = {}
    for field in cls.__schema__.fields:
        if version in field.versions:
            values = _values(field.type, version)
            if version in field.nullable:
                values = st.none() | values
            if field.tag is not None:
                values = st.just(field.default) | values
            fields[field.name] = values
    return st.builds(cls, **fields)
