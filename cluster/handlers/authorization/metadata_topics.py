"""The topics that a Metadata request may see, and the absent ones that it may create."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from cluster.security.acl import CLUSTER_NAME, Operation, ResourceType
from wire.errors import Error
from wire.internal_topics import INTERNAL_TOPICS
from wire.messages.metadata import MetadataResponseTopic
from wire.types import NO_TOPIC_ID

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.context import HasMetadata


class SeenTopics(NamedTuple):
    """The topics of a request that its client may describe, by name, and the answers for the others."""

    names: tuple[str, ...]
    refusals: list[MetadataResponseTopic]


def seen_topics(call: "ApiCall[HasMetadata]", names: tuple[str, ...] | None, *, by_id: bool) -> SeenTopics:
    """Return the topics that a client may see, among those that it asks for.

    Args:
        call: The Metadata request.
        names: The topics' names; None for all, of which those that must not be described are left out silently.
        by_id: Whether the client named ids: then a refusal shows the id and no name.
    """
    snapshot = call.broker.metadata.snapshot
    if names is None:
        seen = tuple(
            name
            for name in sorted(snapshot.topics)
            if call.may(Operation.DESCRIBE, ResourceType.TOPIC, name, quiet=True)
        )
        return SeenTopics(seen, [])
    verdicts = {name: call.may(Operation.DESCRIBE, ResourceType.TOPIC, name) for name in names}
    refusals = [
        MetadataResponseTopic(
            error_code=Error.TOPIC_AUTHORIZATION_FAILED,
            name=None if by_id else name,
            topic_id=snapshot.topic_ids.get(name, NO_TOPIC_ID) if by_id else NO_TOPIC_ID,
            is_internal=not by_id and name in INTERNAL_TOPICS,
        )
        for name, verdict in verdicts.items()
        if not verdict
    ]
    return SeenTopics(tuple(name for name, verdict in verdicts.items() if verdict), refusals)


def creatable_topics(call: "ApiCall[HasMetadata]", names: Sequence[str]) -> list[str]:
    """Return the absent topics that this client may create by asking for them."""
    if call.may(Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME, quiet=True):
        return list(names)
    return [name for name in names if call.may(Operation.CREATE, ResourceType.TOPIC, name)]
