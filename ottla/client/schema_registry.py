"""Values whose schemas stand in a schema registry: Avro and JSON, behind a zero byte and the schema's id.

    async with SchemaRegistry("http://127.0.0.1:8081") as registry:
        orders = Topic("orders", key=text, value=await registry.avro("orders-value", SCHEMA))

The framing is that of Confluent's serializers, so that theirs read what these write, and the other way round::

    0 | schema id: int32 | the value

Before a batch is handed out, the ids in it that are new are looked up; decoding a record then asks nobody. The registry
is asked over HTTP, in a thread. Avro needs fastavro (``ottla[avro]``).
"""

import base64
import json
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final, Literal, Self, TypeVar

from ottla.client.codecs import Codec, json_codec
from ottla.client.errors import SchemaRegistryError
from ottla.client.registered_schemas import RegisteredSchema, frame, read_frame
from ottla.client.runtime import in_thread

T = TypeVar("T")

_CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
_TIMEOUT_S: Final = 10.0

SchemaType = Literal["AVRO", "JSON"]


class SchemaRegistry:
    """A registry that speaks Confluent's REST protocol; used as ``async with``, or kept for as long as it is needed.

    Args:
        url: Where it is, with the path that it lies under, if any.
        auth: User and password.
        context: For https; None for the system's authorities.
        timeout_s: How long an answer may take.
    """

    def __init__(
        self,
        url: str,
        *,
        auth: tuple[str, str] | None = None,
        context: ssl.SSLContext | None = None,
        timeout_s: float = _TIMEOUT_S,
    ) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise ValueError(f"{url!r} is no http address of a schema registry")
        self._url = url.rstrip("/")
        self._context = context
        self._timeout_s = timeout_s
        self._headers = {"Accept": _CONTENT_TYPE, "Content-Type": _CONTENT_TYPE}
        if auth is not None:
            token = base64.b64encode(f"{auth[0]}:{auth[1]}".encode()).decode()
            self._headers["Authorization"] = f"Basic {token}"
        self._by_id: dict[int, RegisteredSchema | SchemaRegistryError] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._by_id.clear()

    async def by_id(self, schema_id: int) -> RegisteredSchema:
        """Return the schema with an id.

        Raises:
            SchemaRegistryError: There is none, or the registry cannot be asked.
        """
        known = self._by_id.get(schema_id)
        if known is None:
            try:
                found = await self._ask("GET", f"/schemas/ids/{schema_id}")
            except SchemaRegistryError as error:
                if error.status == 404:
                    self._by_id[schema_id] = error  # ids are never given out twice: it stays so
                raise
            known = self._by_id[schema_id] = _schema(schema_id, found)
        if isinstance(known, SchemaRegistryError):
            raise known
        return known

    async def latest(self, subject: str) -> RegisteredSchema:
        """Return the newest schema of a subject; raises as `by_id`."""
        return await self._version(subject, "latest")

    async def register(
        self, subject: str, schema: str | Mapping[str, Any], kind: SchemaType = "AVRO"
    ) -> RegisteredSchema:
        """Register a schema under a subject, unless it is; return it with its id.

        Raises:
            SchemaRegistryError: It is not compatible with the subject's older ones, or the registry cannot be asked.
        """
        return await self._post(f"/subjects/{_quoted(subject)}/versions", schema, kind)

    async def find(
        self, subject: str, schema: str | Mapping[str, Any], kind: SchemaType = "AVRO"
    ) -> RegisteredSchema:
        """Return a schema that is registered under a subject, with its id; raises as `by_id`."""
        return await self._post(f"/subjects/{_quoted(subject)}", schema, kind)

    async def avro(
        self, subject: str, schema: str | Mapping[str, Any] | None = None, *, register: bool = True
    ) -> Codec[Any]:
        """Return a codec for Avro.

        Args:
            subject: Of topic t's values it is "t-value", of its keys "t-key".
            schema: The schema to write with, and to convert to when reading. None: write with the subject's newest, and
                read values as they were written.
            register: Register ``schema``, where it is not; else it must be.

        Raises:
            SchemaRegistryError: The registry refuses or does not know the schema, or cannot be asked.
            ImportError: fastavro is not installed.
        """
        from ottla.client.avro import AvroCodec

        written = await self._choose(subject, schema, register, "AVRO")
        codec = AvroCodec(self, written, schema)
        await codec.learn(written)
        return Codec(f"Avro of {subject}", codec.encode, codec.decode, codec.prepare)

    async def json(
        self,
        subject: str,
        schema: str | Mapping[str, Any] | None = None,
        kind: type[T] | None = None,
        *,
        register: bool = True,
    ) -> Codec[Any]:
        """Return a codec for JSON with a schema's id in front; values are not checked against the schema.

        Args:
            subject: As for `avro`.
            schema: As for `avro`.
            kind: A dataclass, as for `json_codec`.
            register: As for `avro`.

        Raises:
            SchemaRegistryError: As for `avro`.
        """
        written = await self._choose(subject, schema, register, "JSON")
        plain: Codec[Any] = json_codec() if kind is None else json_codec(kind)
        head = frame(written.schema_id)

        def encode(value: Any) -> bytes:
            return head + plain.encode(value)

        def decode(data: bytes) -> Any:
            read_frame(data)
            return plain.decode(data[len(head) :])

        return Codec(f"JSON of {subject}", encode, decode)

    async def references(self, schema: RegisteredSchema) -> list[str]:
        """Return the texts of the schemas that one names, each behind those that it names itself."""
        texts: dict[str, None] = {}
        for _, subject, version in schema.references:
            referenced = await self._version(subject, str(version))
            texts.update(dict.fromkeys([*await self.references(referenced), referenced.text]))
        return list(texts)

    async def _choose(
        self, subject: str, schema: str | Mapping[str, Any] | None, register: bool, kind: SchemaType
    ) -> RegisteredSchema:
        if schema is None:
            chosen = await self.latest(subject)
        else:
            chosen = await (self.register if register else self.find)(subject, schema, kind)
        if chosen.kind != kind:
            raise SchemaRegistryError(
                f"the subject {subject!r} has schemas of the kind {chosen.kind}, not {kind}"
            )
        return chosen

    async def _version(self, subject: str, version: str) -> RegisteredSchema:
        found = await self._ask("GET", f"/subjects/{_quoted(subject)}/versions/{version}")
        return _schema(int(found["id"]), found)

    async def _post(self, path: str, schema: str | Mapping[str, Any], kind: SchemaType) -> RegisteredSchema:
        text = schema if isinstance(schema, str) else json.dumps(schema)
        body = {"schema": text} if kind == "AVRO" else {"schema": text, "schemaType": kind}
        found = await self._ask("POST", path, body)
        return RegisteredSchema(int(found["id"]), kind, text)

    async def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, self._headers, method=method)
        return await in_thread(self._exchange, request)

    def _exchange(self, request: urllib.request.Request) -> dict[str, Any]:
        """Ask, in a thread."""
        try:
            with urllib.request.urlopen(request, timeout=self._timeout_s, context=self._context) as answer:
                found = json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                raise SchemaRegistryError(_refusal(request, error), status=error.code) from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            raise SchemaRegistryError(
                f"the schema registry at {self._url} cannot be asked: {reason}"
            ) from None
        if not isinstance(found, dict):
            raise SchemaRegistryError(f"{request.full_url} is not answered as by a schema registry")
        return found


def _schema(schema_id: int, found: Mapping[str, Any]) -> RegisteredSchema:
    references = tuple(
        (str(each["name"]), str(each["subject"]), int(each["version"]))
        for each in found.get("references") or ()
    )
    return RegisteredSchema(
        schema_id, str(found.get("schemaType") or "AVRO"), str(found["schema"]), references
    )


def _refusal(request: urllib.request.Request, error: urllib.error.HTTPError) -> str:
    try:
        reason = json.load(error)["message"]
    except (ValueError, KeyError, TypeError):
        reason = error.reason
    return f"the schema registry refuses {request.method} {request.selector}: {reason} ({error.code})"


def _quoted(subject: str) -> str:
    return urllib.parse.quote(subject, safe="")
