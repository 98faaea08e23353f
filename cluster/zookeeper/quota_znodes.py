"""Quotas in the configurations of users, clients and addresses: `/config/users/<user>/clients/<client>` and the like.

A quota shares its node with other settings (a user's SCRAM credentials), which are left alone. Values are text. One
that cannot be read is skipped, and never logged: the node may hold credentials.
"""

import logging
import math
from collections.abc import Mapping
from typing import Final

from cluster.security.quotas.client_quotas import QuotaType
from cluster.security.quotas.entities import DEFAULT, Name, QuotaEntity
from cluster.zookeeper.config_znodes import CLIENTS, DEFAULT_ENTITY, USERS, desanitize, sanitize

logger = logging.getLogger(__name__)

CONNECTION_RATE: Final = "connection_creation_rate"
"""The one quota of addresses."""


def entity_of(entity_type: str, path: str) -> QuotaEntity:
    """Return the quota entity of a configuration below `/config/users` or `/config/clients`."""
    if entity_type == CLIENTS:
        return QuotaEntity(None, decode_name(path))
    user, has_client, client = path.partition(f"/{CLIENTS}/")
    return QuotaEntity(decode_name(user), decode_name(client) if has_client else None)


def path_of(entity: QuotaEntity) -> tuple[str, str]:
    """Return the type, and the path below it, of the node with an entity's quotas."""
    if entity.user is None:
        return CLIENTS, encode_name(entity.client_id)
    if entity.client_id is None:
        return USERS, encode_name(entity.user)
    return USERS, f"{encode_name(entity.user)}/{CLIENTS}/{encode_name(entity.client_id)}"


def encode_name(name: Name) -> str:
    """Return a name, or the default, as part of a path."""
    if name is None:
        raise TypeError("a part that an entity does not have has no path")
    return DEFAULT_ENTITY if name is DEFAULT else sanitize(str(name))


def decode_name(part: str) -> Name:
    """Return the name, or the default, that a part of a path encodes."""
    return DEFAULT if part == DEFAULT_ENTITY else desanitize(part)


def read_quotas(path: str, config: Mapping[str, str]) -> dict[QuotaType, float]:
    """Return the quotas that a configuration holds."""
    found = {}
    for kind in QuotaType:
        value = read_number(path, kind.value, config)
        if value is not None:
            found[kind] = value
    return found


def read_number(path: str, key: str, config: Mapping[str, str]) -> float | None:
    """Return a numeric setting; None if it is not set, or not a number."""
    text = config.get(key)
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if math.isnan(value):
        logger.warning("the quota %s of %s is ignored: it is no number", key, path)
        return None
    return value
