"""The JSON inside znodes: written as Kafka does, read tolerantly, refused with one error."""

import json
from collections.abc import Mapping
from typing import Any


class MalformedZnodeError(Exception):
    """A znode holds data that no version of Kafka writes there: it comes from an operator or another program."""

    def __init__(self, what: str, data: bytes) -> None:
        super().__init__(f"{what}: {data[:200]!r}")
        self.data = data


def encode_json(value: Mapping[str, Any]) -> bytes:
    """Write compact UTF-8 JSON, members in the order given, non-ASCII characters as they are."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def decode_json(data: bytes, what: str) -> dict[str, Any]:
    """Read a JSON object.

    Args:
        data: The znode's bytes.
        what: What the znode is, for the error.

    Raises:
        MalformedZnodeError: it is not a JSON object.
    """
    try:
        value = json.loads(data)
    except ValueError as error:
        raise MalformedZnodeError(f"{what} is not JSON", data) from error
    if not isinstance(value, dict):
        raise MalformedZnodeError(f"{what} is not a JSON object", data)
    return value


class malformed_as:
    """Turn the errors of taking apart a wrongly shaped JSON value into `MalformedZnodeError`."""

    __slots__ = ("_data", "_what")

    def __init__(self, what: str, data: bytes) -> None:
        self._what = what
        self._data = data

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, (KeyError, TypeError, ValueError, AttributeError)):
            raise MalformedZnodeError(f"{self._what} is malformed ({error!r})", self._data) from error
