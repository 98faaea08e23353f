"""`/kafka-acl` and its relatives: the access rules, and the notifications of their changes."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from cluster.zookeeper.json_data import MalformedZnodeError, decode_json, encode_json, malformed_as

LITERAL: Final = "LITERAL"
PREFIXED: Final = "PREFIXED"

RESOURCE_TYPES: Final = {
    "TOPIC": "Topic",
    "GROUP": "Group",
    "CLUSTER": "Cluster",
    "TRANSACTIONAL_ID": "TransactionalId",
    "DELEGATION_TOKEN": "DelegationToken",
    "USER": "User",
}
"""Kafka's resource types: the constant's name, which notifications carry, to the one in paths."""

LITERAL_ACL_PATH: Final = "/kafka-acl"
EXTENDED_ACL_PATH: Final = "/kafka-acl-extended"
LITERAL_CHANGES_PATH: Final = "/kafka-acl-changes"
EXTENDED_CHANGES_PATH: Final = "/kafka-acl-extended-changes"
CHANGE_PREFIX: Final = "acl_changes_"


@dataclass(frozen=True, slots=True)
class AclResource:
    """The resources that an ACL applies to.

    Attributes:
        pattern_type: `LITERAL` or `PREFIXED`.
        resource_type: A key of `RESOURCE_TYPES`.
        name: The resource's name, or its prefix.
    """

    pattern_type: str
    resource_type: str
    name: str


@dataclass(frozen=True, slots=True)
class AclEntry:
    """One rule, in Kafka's spelling: `User:alice`, `*`, `Read`, `Allow`."""

    principal: str
    host: str
    operation: str
    permission_type: str


class AclZnode:
    """`/kafka-acl/Topic/<name>`, and `/kafka-acl-extended/prefixed/Topic/<name>` for prefixes."""

    @staticmethod
    def root(pattern_type: str) -> str:
        """Return the path above the resource types of a pattern type."""
        return LITERAL_ACL_PATH if pattern_type == LITERAL else f"{EXTENDED_ACL_PATH}/{pattern_type.lower()}"

    @staticmethod
    def path(resource: AclResource) -> str:
        """Return the path of a resource's rules."""
        root = AclZnode.root(resource.pattern_type)
        return f"{root}/{RESOURCE_TYPES[resource.resource_type]}/{resource.name}"

    @staticmethod
    def encode(entries: Iterable[AclEntry]) -> bytes:
        """Write a resource's rules."""
        return encode_json(
            {
                "acls": [
                    {
                        "principal": entry.principal,
                        "permissionType": entry.permission_type,
                        "host": entry.host,
                        "operation": entry.operation,
                    }
                    for entry in entries
                ],
                "version": 1,
            }
        )

    @staticmethod
    def decode(data: bytes) -> frozenset[AclEntry]:
        """Read a resource's rules; an empty node has none.

        Raises:
            MalformedZnodeError: the data is not a set of rules.
        """
        if not data:
            return frozenset()
        value = decode_json(data, "an ACL")
        with malformed_as("an ACL", data):
            if int(value["version"]) != 1:
                raise MalformedZnodeError("an ACL has an unknown version", data)
            return frozenset(
                AclEntry(entry["principal"], entry["host"], entry["operation"], entry["permissionType"])
                for entry in value["acls"]
            )


class AclChangeZnode:
    """`/kafka-acl-changes/acl_changes_<seq>`, as text; `/kafka-acl-extended-changes/...`, as JSON."""

    @staticmethod
    def parent(pattern_type: str) -> str:
        """Return the path above a pattern type's notifications."""
        return LITERAL_CHANGES_PATH if pattern_type == LITERAL else EXTENDED_CHANGES_PATH

    @staticmethod
    def prefix(pattern_type: str) -> str:
        """Return the path to create a sequential notification at."""
        return f"{AclChangeZnode.parent(pattern_type)}/{CHANGE_PREFIX}"

    @staticmethod
    def encode(resource: AclResource) -> bytes:
        """Write whose rules changed."""
        if resource.pattern_type == LITERAL:
            return f"{resource.resource_type}:{resource.name}".encode()
        return encode_json(
            {
                "version": 1,
                "resourceType": resource.resource_type,
                "name": resource.name,
                "patternType": resource.pattern_type,
            }
        )

    @staticmethod
    def decode(data: bytes) -> AclResource:
        """Read whose rules changed, from either form.

        Raises:
            MalformedZnodeError: it is not such a notification.
        """
        what = "an ACL change notification"
        if data.startswith(b"{"):
            value = decode_json(data, what)
            with malformed_as(what, data):
                return AclResource(value["patternType"], value["resourceType"], value["name"])
        resource_type, separator, name = data.decode(errors="replace").partition(":")
        if not separator:
            raise MalformedZnodeError(f"{what} is malformed", data)
        return AclResource(LITERAL, resource_type.upper(), name)
