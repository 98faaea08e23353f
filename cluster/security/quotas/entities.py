"""The entity of a quota: a user, a client id, both, or the default of either; and which of several quotas applies."""

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Final, NamedTuple, TypeAlias


class Default(Enum):
    """In place of a name: all users, or client ids, that have no quota of their own."""

    DEFAULT = "<default>"


DEFAULT: Final = Default.DEFAULT
Name: TypeAlias = str | Default | None
"""A name, the default, or None if the entity does not have this part."""


class QuotaEntity(NamedTuple):
    """A user, a client id, or a user's client id."""

    user: Name = None
    client_id: Name = None

    def __str__(self) -> str:
        parts = (("user", self.user), ("client-id", self.client_id))
        return ", ".join(
            f"{kind} {'<default>' if name is DEFAULT else name!r}" for kind, name in parts if name is not None
        )


class Grant(NamedTuple):
    """The quota that applies to a user's client.

    Attributes:
        limit: The quota.
        shared_by: The entity whose use is counted together: the user, the client id, or the two.
    """

    limit: float
    shared_by: QuotaEntity


def grant(limits: Mapping[QuotaEntity, float], user: str, client_id: str) -> Grant | None:
    """Return the quota that applies to a client: the most specific that is set; None if none is."""
    for entity, shared_by in _in_order(user, client_id):
        limit = limits.get(entity)
        if limit is not None:
            return Grant(limit, shared_by)
    return None


def _in_order(user: str, client_id: str) -> Iterator[tuple[QuotaEntity, QuotaEntity]]:
    both, of_user, of_client = QuotaEntity(user, client_id), QuotaEntity(user), QuotaEntity(None, client_id)
    yield both, both
    yield QuotaEntity(user, DEFAULT), both
    yield of_user, of_user
    yield QuotaEntity(DEFAULT, client_id), both
    yield QuotaEntity(DEFAULT, DEFAULT), both
    yield QuotaEntity(DEFAULT), of_user
    yield of_client, of_client
    yield QuotaEntity(None, DEFAULT), of_client
