"""`/config`: the dynamic configuration of topics, brokers, users, clients and addresses."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, unquote

from cluster.zookeeper.json_data import decode_json, encode_json

TOPICS: Final = "topics"
CLIENTS: Final = "clients"
USERS: Final = "users"
BROKERS: Final = "brokers"
IPS: Final = "ips"
ENTITY_TYPES: Final = (TOPICS, CLIENTS, USERS, BROKERS, IPS)
DEFAULT_ENTITY: Final = "<default>"
"""The name of the entity whose configuration applies to all that have none of their own; never sanitized."""


def sanitize(name: str) -> str:
    """Return a user's or client's name as a znode name: percent-encoded as Kafka does it.

    Only `A-Z a-z 0-9 . - _` stay as they are.
    """
    return quote(name, safe="").replace("~", "%7E")


def desanitize(name: str) -> str:
    """Return the name that `sanitize` encoded."""
    return unquote(name.replace("+", "%20"))


class ConfigEntityZnode:
    """`/config/<type>/<name>`: `{"version":1,"config":{"retention.ms":"..."}}`."""

    @staticmethod
    def parent(entity_type: str) -> str:
        """Return the path above the entities of a type."""
        return f"/config/{entity_type}"

    @staticmethod
    def path(entity_type: str, name: str) -> str:
        """Return the path of an entity's configuration.

        Args:
            entity_type: One of `ENTITY_TYPES`.
            name: Sanitized; of a user's client: `<user>/clients/<client>`.
        """
        return f"/config/{entity_type}/{name}"

    @staticmethod
    def encode(config: Mapping[str, str]) -> bytes:
        """Write a configuration."""
        return encode_json({"version": 1, "config": dict(config)})

    @staticmethod
    def decode(data: bytes) -> dict[str, str]:
        """Read a configuration; an empty node is an empty one.

        Raises:
            MalformedZnodeError: it is not a configuration.
        """
        if not data:
            return {}
        config = decode_json(data, "a configuration").get("config")
        if not isinstance(config, dict):
            return {}
        return {str(name): str(value) for name, value in config.items()}
