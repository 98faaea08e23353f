"""The entities of the quota APIs, and where their quotas are stored."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, Protocol

from cluster.security.quotas.client_quotas import QuotaType
from cluster.security.quotas.entities import DEFAULT, Name, QuotaEntity
from cluster.zookeeper.quota_znodes import CONNECTION_RATE, encode_name, path_of
from cluster.zookeeper.znodes import IPS
from wire.errors import ApiError, Error

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
KINDS: Final = (USER, CLIENT_ID, IP)
KEYS_OF_CLIENTS: Final = frozenset(kind.value for kind in QuotaType)
WHOLE_NUMBERS: Final = frozenset({QuotaType.PRODUCE.value, QuotaType.FETCH.value, CONNECTION_RATE})
_WHOLE_TOLERANCE: Final = 1e-6


class _Part(Protocol):
    """A part of an entity, which two messages have."""

    @property
    def entity_type(self) -> str: ...
    @property
    def entity_name(self) -> str | None: ...


class StoredEntity(NamedTuple):
    """An entity of a request, by its parts, and where its configuration is stored.

    Attributes:
        parts: The names by kind of part; DEFAULT for a null name.
        entity_type: The type in `/config`.
        path: The path below it.
    """

    parts: Mapping[str, Name]
    entity_type: str
    path: str

    @property
    def keys(self) -> frozenset[str]:
        """The quotas that such an entity can have."""
        return frozenset({CONNECTION_RATE}) if IP in self.parts else KEYS_OF_CLIENTS


def read_entity(parts: Iterable[_Part]) -> StoredEntity:
    """Read an entity of AlterClientQuotas.

    Raises:
        ApiError: it is invalid: of an unknown kind, empty, named twice, or an address together with something else.
    """
    names: dict[str, Name] = {}
    for part in parts:
        if part.entity_type not in KINDS:
            raise ApiError(Error.INVALID_REQUEST, f"unknown type of entity {part.entity_type!r}")
        if part.entity_type in names:
            raise ApiError(Error.INVALID_REQUEST, f"{part.entity_type} stands in the entity twice")
        if part.entity_name == "":
            raise ApiError(Error.INVALID_REQUEST, f"the {part.entity_type} has no name")
        names[part.entity_type] = DEFAULT if part.entity_name is None else part.entity_name
    if not names:
        raise ApiError(Error.INVALID_REQUEST, "the entity is empty")
    if IP in names:
        if len(names) > 1:
            raise ApiError(Error.INVALID_REQUEST, "an ip has quotas of its own, not together with others")
        return StoredEntity(names, IPS, encode_name(names[IP]))
    entity_type, path = path_of(QuotaEntity(names.get(USER), names.get(CLIENT_ID)))
    return StoredEntity(names, entity_type, path)


def quota_text(key: str, value: float) -> str:
    """Return a quota's value as text for its configuration.

    Raises:
        ApiError: it is not finite, below the minimum of its key, too large, or not whole where it has to be.
    """
    smallest = 0.0
    if not (smallest <= value < float("inf")) or (value == 0 and key != CONNECTION_RATE):
        raise ApiError(Error.INVALID_REQUEST, f"{key} is a number above 0, not {value}")
    if key not in WHOLE_NUMBERS:
        return repr(float(value))
    whole = round(value)
    if abs(whole - value) > _WHOLE_TOLERANCE:
        raise ApiError(Error.INVALID_REQUEST, f"{key} is a whole number, not {value}")
    if whole == 0 and key != CONNECTION_RATE:
        raise ApiError(Error.INVALID_REQUEST, f"{key} is a number above 0, not {value}")
    bits = 31 if key == CONNECTION_RATE else 63
    if whole >= 1 << bits:
        raise ApiError(Error.INVALID_REQUEST, f"{key} fits {bits + 1} bits, {value} does not")
    return str(whole)
