"""The topics that the members of a consumer group subscribe to, read from their protocol metadata."""

from collections.abc import Set

from cluster.statemachines.group import CONSUMER_PROTOCOL_TYPE, Group
from wire.codec import decoder
from wire.errors import RemoteProtocolError
from wire.formats.consumer_protocol import ConsumerProtocolSubscription

_VERSION_SIZE = 2


def subscribed_topics(group: Group) -> Set[str] | None:
    """Return the topics; None if they cannot be known: then every topic must count as subscribed to.

    Metadata of any version are read as version 0, which all begin with.
    """
    protocol = group.protocol_name
    if group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return None
    if not group.members:
        return frozenset()
    read = decoder(ConsumerProtocolSubscription, 0)
    topics: set[str] = set()
    for member in group.members.values():
        metadata = next((data for name, data in member.protocols if name == protocol), None)
        if metadata is None:
            return None
        try:
            topics.update(read(metadata, _VERSION_SIZE)[0].topics)
        except RemoteProtocolError:
            return None
    return topics
