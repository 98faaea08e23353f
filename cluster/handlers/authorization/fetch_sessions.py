"""The topics of a fetch session that its client may read, checked again when rules, client or topics change."""

from typing import TYPE_CHECKING

from cluster.security.acl import CLUSTER_NAME, Operation, ResourceType

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.context import HasMetadata
    from cluster.replication.leader.fetch_session import FetchSession


def authorize_session(call: "ApiCall[HasMetadata]", session: "FetchSession") -> None:
    """Make a session answer with an error for the partitions that this client may not read.

    Partitions that the request does not name are covered, too: a client that loses READ is refused at its next fetch.
    Followers need CLUSTER_ACTION instead, for all partitions.
    """
    subject = call.subject
    if subject is None:
        return
    decided_for = (subject, subject.generation)
    if session.denied_for == decided_for:
        return
    names = call.broker.metadata.snapshot.topic_names
    all_known = True
    counts: dict[str, int] = {}
    for item in session.items.values():
        if item.topic_partition is None:
            item.resolve(names)
        if item.topic:
            counts[item.topic] = counts.get(item.topic, 0) + 1
        else:
            all_known = False
    if session.is_follower:
        permitted = call.may(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
        denied = frozenset() if permitted else frozenset(counts)
    else:
        denied = frozenset(
            topic
            for topic, count in counts.items()
            if not call.may(Operation.READ, ResourceType.TOPIC, topic, count=count)
        )
    session.deny(denied, decided_for if all_known else None)
