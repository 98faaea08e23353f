"""Metadata 0 to 12: the brokers, the controller, and the leaders of the partitions of some or all topics.

An unknown topic that may be created is created by the broker that was asked; the client gets
LEADER_NOT_AVAILABLE and asks again. Whole encoded answers are cached for as long as the cluster stays as it is: clients
of one kind ask the same question, and the answers differ only in their correlation ids.

Versions: topics by id from 12 on; in 0, replicas on dead brokers are left out; from 6 on, a leader that
lacks the client's listener is LISTENER_NOT_FOUND.
"""

from collections.abc import Iterable, Sequence
from struct import pack_into
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from cluster.handlers.authorization.cluster import cluster_bits
from cluster.handlers.authorization.guards import operations_bits
from cluster.handlers.authorization.metadata_topics import creatable_topics, seen_topics
from cluster.handlers.authorized_operations import CLUSTER_OPERATIONS, NOT_ASKED, TOPIC_OPERATIONS
from cluster.handlers.context import HasAutoCreation, HasClusterId, HasConfig, HasMetadata, HasNursery
from cluster.handlers.metadata_waits import once_told
from cluster.handlers.mutation_quota import MutationAllowance
from cluster.handlers.topic_metadata import TopicMetadata, View
from cluster.handlers.topic_names import is_valid_topic_name
from cluster.security.acl import ResourceType
from wire.apis import ApiKey
from wire.errors import Error
from wire.frames import encode_response
from wire.internal_topics import INTERNAL_TOPICS
from wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from wire.types import NO_BROKER, NO_TOPIC_ID, TopicId

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.registry import Registry
    from cluster.replication.metadata_cache import ClusterSnapshot

_KEPT_ANSWERS_MAX: Final = 256
_CORRELATION_ID_AT: Final = 4
_THROTTLE_TIME_SINCE: Final = 3
_THROTTLE_TIME_AT: Final = 8
_TAGS_SINCE: Final = 9
"""From this version on the response header has tags: one byte if there are none."""


class _Broker(HasAutoCreation, HasClusterId, HasConfig, HasMetadata, HasNursery, Protocol):
    """The parts of a broker that this API reaches."""


def register(registry: "Registry") -> None:
    """Serve Metadata."""
    registry.add(ApiKey.METADATA, 0, 12, MetadataHandler().begin)


class _Question(NamedTuple):
    """Everything that an answer depends on besides the cluster."""

    version: int
    view: View
    names: tuple[str, ...] | None
    topic_operations: bool
    cluster_operations: bool


class MetadataHandler:
    """Answers Metadata requests, and caches the answers."""

    def __init__(self) -> None:
        self._topics = TopicMetadata()
        self._snapshot: ClusterSnapshot | None = None
        self._answers: dict[_Question, bytes] = {}

    def begin(self, call: "ApiCall[_Broker]") -> None:
        """Answer at once, or after topics have been created, or after the first UpdateMetadata."""
        once_told(call, self._begin_told)

    def _begin_told(self, call: "ApiCall[_Broker]") -> None:
        request: MetadataRequest = call.request
        snapshot = call.broker.metadata.snapshot
        by_id = [topic.topic_id for topic in request.topics or () if any(topic.topic_id)]
        if call.version < 12 and (by_id or any(topic.name is None for topic in request.topics or ())):
            self._refuse(call, request)
            return
        names = _names_asked(request, call.version, by_id, snapshot)
        others = _unknown_ids([topic_id for topic_id in by_id if topic_id not in snapshot.topic_names])
        if call.subject is not None:
            names, refusals = seen_topics(call, names, by_id=bool(by_id))
            others += refusals
        if names is None or by_id or all(name in snapshot.topics for name in names):
            self._answer(call, names, others)
            return
        missing = [name for name in names if name not in snapshot.topics]
        may_create = call.broker.config.auto_create_topics_enable and request.allow_auto_topic_creation
        wanted = [name for name in missing if may_create and is_valid_topic_name(name)]
        creatable = creatable_topics(call, wanted)
        errors = dict.fromkeys(missing, Error.UNKNOWN_TOPIC_OR_PARTITION)
        errors |= dict.fromkeys(set(wanted) - set(creatable), Error.TOPIC_AUTHORIZATION_FAILED)
        if creatable:
            create = self._create_and_answer
            call.broker.nursery.start_soon(
                create, call, names, creatable, errors, others, name="topic auto-creation"
            )
        else:
            self._answer(call, names, [*others, *(_missing(name, errors[name]) for name in missing)])

    async def _create_and_answer(
        self,
        call: "ApiCall[_Broker]",
        names: tuple[str, ...],
        creatable: Sequence[str],
        errors: dict[str, Error],
        others: Sequence[MetadataResponseTopic],
    ) -> None:
        allowance = MutationAllowance(call, strict=False)
        allowance.take(len(creatable) * call.broker.config.num_partitions)
        errors = errors | await call.broker.auto_creation.create(creatable)
        allowance.settle()
        snapshot = call.broker.metadata.snapshot
        missing = [name for name in names if name not in snapshot.topics]
        unknown = Error.UNKNOWN_TOPIC_OR_PARTITION
        self._answer(call, names, [*others, *(_missing(name, errors.get(name, unknown)) for name in missing)])

    def _answer(
        self, call: "ApiCall[_Broker]", names: tuple[str, ...] | None, others: Sequence[MetadataResponseTopic]
    ) -> None:
        """Answer for the topics that exist, and for others that do not."""
        request: MetadataRequest = call.request
        version = call.version
        question = _Question(
            version,
            View(call.listener_name, hides_dead=version == 0, names_listener=version >= 6),
            names,
            request.include_topic_authorized_operations,
            request.include_cluster_authorized_operations,
        )
        snapshot = call.broker.metadata.shown
        if snapshot is not self._snapshot or len(self._answers) > _KEPT_ANSWERS_MAX:
            self._snapshot = snapshot
            self._answers.clear()
        # The rights that an authorizer reports belong to this client only.
        private = call.subject is not None and (question.topic_operations or question.cluster_operations)
        kept = None if others or private else self._answers.get(question)
        if kept is None:
            response = self._response(call.broker, snapshot, question, others)
            if private:
                response = _with_own_operations(call, response)
            answer: Any = encode_response(response, version, call.header.correlation_id)
            if not (others or private):
                self._answers[question] = bytes(answer)
        else:
            answer = bytearray(kept)
            pack_into(">i", answer, _CORRELATION_ID_AT, call.header.correlation_id)
        if call.charge() and version >= _THROTTLE_TIME_SINCE:
            place = _THROTTLE_TIME_AT + (version >= _TAGS_SINCE)
            pack_into(">i", answer, place, call.throttle_ms)
        call.slot.complete(answer)

    def _response(
        self,
        broker: "_Broker",
        snapshot: "ClusterSnapshot",
        question: _Question,
        others: Sequence[MetadataResponseTopic],
    ) -> MetadataResponse:
        names: Iterable[str] = sorted(snapshot.topics) if question.names is None else question.names
        made = (self._topics.topic(snapshot, name, question.view) for name in names)
        topics = [topic for topic in made if topic is not None]
        topics += others
        if question.topic_operations:
            topics = [topic.replace(topic_authorized_operations=TOPIC_OPERATIONS) for topic in topics]
        brokers = broker.metadata.snapshot.brokers
        nodes = (live.nodes.get(question.view.listener) for live in brokers.values())
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=node.broker_id, host=node.host, port=node.port, rack=node.rack)
                for node in nodes
                if node is not None
            ],
            cluster_id=broker.cluster_id,
            controller_id=NO_BROKER if snapshot.controller_id is None else snapshot.controller_id,
            topics=topics,
            cluster_authorized_operations=CLUSTER_OPERATIONS if question.cluster_operations else NOT_ASKED,
        )

    def _refuse(self, call: "ApiCall[_Broker]", request: MetadataRequest) -> None:
        """Refuse topics by id, or without a name, in a version that supports only names."""
        topics = [
            MetadataResponseTopic(error_code=Error.INVALID_REQUEST, name=topic.name or "")
            for topic in request.topics or ()
        ]
        call.respond(MetadataResponse(cluster_id=call.broker.cluster_id, topics=topics))


def _with_own_operations(call: "ApiCall[_Broker]", response: MetadataResponse) -> MetadataResponse:
    """Replace the operations that a resource supports with those that this client may do."""
    topics = response.topics
    if call.request.include_topic_authorized_operations:
        topics = [
            topic.replace(
                topic_authorized_operations=NOT_ASKED
                if topic.error_code or topic.name is None
                else operations_bits(call, ResourceType.TOPIC, topic.name)
            )
            for topic in topics
        ]
    asked = call.request.include_cluster_authorized_operations
    return response.replace(
        topics=topics, cluster_authorized_operations=cluster_bits(call) if asked else NOT_ASKED
    )


def _names_asked(
    request: MetadataRequest, version: int, by_id: Sequence[TopicId], snapshot: "ClusterSnapshot"
) -> tuple[str, ...] | None:
    """Return the names of the topics asked for; None for all. Ids that are unknown are left out."""
    if request.topics is None or (version == 0 and not request.topics):
        return None
    if by_id:
        names = (snapshot.topic_names.get(topic_id) for topic_id in by_id)
        return tuple(dict.fromkeys(name for name in names if name is not None))
    return tuple(dict.fromkeys(topic.name for topic in request.topics if topic.name is not None))


def _unknown_ids(topic_ids: Sequence[TopicId]) -> list[MetadataResponseTopic]:
    return [
        MetadataResponseTopic(error_code=Error.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id)
        for topic_id in dict.fromkeys(topic_ids)
    ]


def _missing(name: str, error: Error) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=error if is_valid_topic_name(name) else Error.INVALID_TOPIC_EXCEPTION,
        name=name,
        topic_id=NO_TOPIC_ID,
        is_internal=name in INTERNAL_TOPICS,
    )
