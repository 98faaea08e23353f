"""The ways in which requests are authorized before their handlers begin them.

A guard looks at a decoded request and returns whether the handler is to begin it. It can answer the request itself (all
of it is refused), or narrow it: the handler then sees only what is permitted, and the refusals are added to its answer.
Handlers know nothing of it, and nothing is looked up for refused items: an answer never shows whether a resource exists
that the client may not describe.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from cluster.handlers.context import CallContext, HasConfig, HasController, HasMetadata
from cluster.security.acl import CLUSTER_NAME, OPERATIONS_OF, Operation, ResourceType

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall


class Guarded(HasConfig, HasController, HasMetadata, Protocol):
    """The parts of a broker that guards use: whether the handler will answer at all, and which topics there are."""


Guard: TypeAlias = Callable[["ApiCall[Guarded]"], bool]
"""Returns whether the handler is to begin the request; if not, the guard has answered it."""
Refuse: TypeAlias = Callable[["ApiCall[Guarded]"], Any]
"""Returns the response that refuses a whole request."""


def open_to_all(_: "ApiCall[Guarded]") -> bool:
    """Require nothing."""
    return True


def in_turn(*guards: Guard) -> Guard:
    """Apply several guards, in their order."""

    def guard(call: "ApiCall[Guarded]") -> bool:
        return all(each(call) for each in guards)

    return guard


def required(
    operation: Operation, resource_type: ResourceType, name: Callable[[Any], str], refuse: Refuse
) -> Guard:
    """Require one operation for the whole request.

    Args:
        operation: What must be allowed.
        resource_type: On which type of resource.
        name: Returns the resource's name for the request.
        refuse: Makes the response if it is not allowed.
    """

    def guard(call: "ApiCall[Guarded]") -> bool:
        if call.may(operation, resource_type, name(call.request)):
            return True
        call.respond(refuse(call))
        return False

    return guard


def on_cluster(operation: Operation, refuse: Refuse) -> Guard:
    """Require one operation on the cluster for the whole request."""
    return required(operation, ResourceType.CLUSTER, lambda _: CLUSTER_NAME, refuse)


def each_of(
    items: str,
    name: Callable[[Any], str],
    operation: Operation,
    resource_type: ResourceType,
    answers: str,
    refuse: Callable[[Any], Any],
) -> Guard:
    """Require an operation for each item of a request, and refuse individual ones.

    Args:
        items: The request's field with the items.
        name: Returns the name of an item's resource.
        operation: What must be allowed.
        resource_type: On which type of resource.
        answers: The response's field with the items' answers.
        refuse: Makes the answer of an item that is refused.
    """

    def guard(call: "ApiCall[Guarded]") -> bool:
        permitted, refused = split(call, getattr(call.request, items), name, operation, resource_type)
        if refused:
            narrow(call, items, permitted, answers, [refuse(item) for item in refused])
        return True

    return guard


def split(
    call: "ApiCall[CallContext]",
    items: Sequence[Any],
    name: Callable[[Any], str],
    operation: Operation,
    resource_type: ResourceType,
) -> tuple[list[Any], list[Any]]:
    """Return the items whose resource is permitted, and the others; each resource is checked once."""
    counts = Counter(name(item) for item in items)
    verdicts = {each: call.may(operation, resource_type, each, count=count) for each, count in counts.items()}
    permitted = [item for item in items if verdicts[name(item)]]
    return permitted, [item for item in items if not verdicts[name(item)]]


def narrow(
    call: "ApiCall[Guarded]", items: str, permitted: Sequence[Any], answers: str, refusals: Sequence[Any]
) -> None:
    """Show the handler only the permitted items, and add the refusals to its answer."""
    call.request = call.request.replace(**{items: permitted})
    call.amend(lambda response: response.replace(**{answers: [*refusals, *getattr(response, answers)]}))


def operations_bits(call: "ApiCall[CallContext]", resource_type: ResourceType, name: str) -> int:
    """Return the authorized-operations field of a resource: what this client may do with it."""
    return sum(
        1 << operation
        for operation in OPERATIONS_OF[resource_type]
        if call.may(operation, resource_type, name, quiet=True)
    )
