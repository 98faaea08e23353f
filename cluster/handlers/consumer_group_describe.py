"""ConsumerGroupDescribe 0: with ZooKeeper there are no groups of KIP-848; each is refused, as in Kafka."""

from typing import TYPE_CHECKING

from wire.apis import ApiKey
from wire.errors import Error
from wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.context import CallContext
    from cluster.handlers.registry import Registry


def register(registry: "Registry") -> None:
    """Serve ConsumerGroupDescribe."""
    registry.add(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, 0, begin)


def begin(call: "ApiCall[CallContext]") -> None:
    """Refuse each group that is asked about."""
    request: ConsumerGroupDescribeRequest = call.request
    call.respond(
        ConsumerGroupDescribeResponse(
            groups=[
                DescribedGroup(group_id=group_id, error_code=Error.UNSUPPORTED_VERSION)
                for group_id in request.group_ids
            ]
        )
    )
