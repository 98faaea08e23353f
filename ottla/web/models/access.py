"""Access rules in forms."""

from enum import IntEnum
from typing import TypeVar

from ottla.client.admin.acls import Acl
from ottla.web.forms import Form, FormError
from wire.acl_codes import OPERATIONS_OF, Operation, PatternType, Permission, ResourceType

E = TypeVar("E", bound=IntEnum)

CLUSTER = "kafka-cluster"


def rule_fields(rule: Acl) -> dict[str, str]:
    """Return a rule as the fields of a form; `rule_of` reads the same from them."""
    return {
        "type": rule.resource_type.name,
        "name": rule.name,
        "pattern": rule.pattern_type.name,
        "principal": rule.principal,
        "host": rule.host,
        "operation": rule.operation.name,
        "permission": rule.permission.name,
    }


def rule_of(form: Form) -> Acl:
    """Return the rule of a form.

    Raises:
        FormError: It is none.
    """
    kind = _member(form, "type", ResourceType)
    operation = _member(form, "operation", Operation)
    if operation not in OPERATIONS_OF[kind] and operation is not Operation.ALL:
        known = ", ".join(each.name for each in OPERATIONS_OF[kind])
        raise FormError(f"There is no {operation.name} of {kind.name}; there are {known}.")
    principal = form.required("principal", "The principal")
    if ":" not in principal:
        raise FormError(f"The principal {principal!r} is not written as Type:name, like User:alice.")
    name = CLUSTER if kind is ResourceType.CLUSTER else form.required("name", "The name of the resource")
    return Acl(
        kind,
        name,
        _member(form, "pattern", PatternType),
        principal,
        form.text("host") or "*",
        operation,
        _member(form, "permission", Permission),
    )


def _member(form: Form, name: str, kind: type[E]) -> E:
    text = form.text(name)
    try:
        return kind[text]
    except KeyError:
        raise FormError(f"{text!r} is no {name}.") from None
