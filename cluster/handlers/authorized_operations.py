"""The operations that a client may do on a resource, as the bit field that several answers carry.

Without an authorizer everybody may do everything that a resource of the kind supports; with one, see
`authorization.guards.operations_bits`.
"""

from typing import Final

from wire.acl_codes import OPERATIONS_OF, ResourceType

NOT_ASKED: Final = -(1 << 31)
"""Stands for the bit field if the client did not ask for it."""


def _all_of(resource_type: ResourceType) -> int:
    return sum(1 << operation for operation in OPERATIONS_OF[resource_type])


TOPIC_OPERATIONS: Final = _all_of(ResourceType.TOPIC)
GROUP_OPERATIONS: Final = _all_of(ResourceType.GROUP)
CLUSTER_OPERATIONS: Final = _all_of(ResourceType.CLUSTER)
