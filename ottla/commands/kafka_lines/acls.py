"""The lines of kafka-acls."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.client.admin.acls import Acl


def added_lines(acls: Sequence["Acl"]) -> Iterator[str]:
    """Yield the rules that are created, resource by resource."""
    yield from _by_resource("Adding ACLs for resource", acls)


def current_lines(acls: Sequence["Acl"]) -> Iterator[str]:
    """Yield the rules that there are, resource by resource."""
    yield from _by_resource("Current ACLs for resource", acls)


def principal_line(principal: str) -> str:
    """Return the line above the rules of one principal."""
    return f"ACLs for principal `{principal}`"


def _by_resource(title: str, acls: Sequence["Acl"]) -> Iterator[str]:
    resources: dict[str, list[str]] = {}
    for acl in acls:
        resource = (
            f"ResourcePattern(resourceType={acl.resource_type.name}, name={acl.name}, "
            f"patternType={acl.pattern_type.name})"
        )
        resources.setdefault(resource, []).append(
            f"\t(principal={acl.principal}, host={acl.host}, operation={acl.operation.name}, "
            f"permissionType={acl.permission.name})"
        )
    for resource, entries in resources.items():
        yield f"{title} `{resource}`: "
        yield from ("\n".join(entries)).join((" ", " ")).split("\n")
        yield ""
