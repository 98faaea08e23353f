"""The state that a transactional publication keeps beside its checkpoint, and the checks before it resumes."""

import json
import uuid
from typing import TYPE_CHECKING, Any, Final

from pipeline.failure import JobError
from pipeline.transactional_producer import WRITERS_MAX, TransactionalSink

if TYPE_CHECKING:
    from pipeline.job_files import JobFiles
    from pipeline.kafka_access import KafkaAccess

_ASK_TIMEOUT_S: Final = 30.0


def open_sink(
    files: "JobFiles", root: str, access: "KafkaAccess", topic: str, *, is_new: bool
) -> TransactionalSink:
    """Return the sink of a publication: a new one under a new name, or the one that the checkpoint names.

    Args:
        files: Reach the checkpoint.
        root: The checkpoint.
        access: The cluster.
        topic: Where the rows go; it exists.
        is_new: Whether no batch has been planned yet.

    Raises:
        JobError: the topic is another one than it was, or the cluster has forgotten how far the last batch got.
    """
    kept = f"{root}/ottla/transactions.json"
    facts = access.topics([topic])[topic]
    text = None if is_new else files.read_text(kept)
    about: dict[str, Any]
    if text is None:
        about = {
            "name": f"ottla-publish-{uuid.uuid4()}",
            "writers": min(facts.partitions, WRITERS_MAX),
            "topic_id": facts.id,
        }
    else:
        about = json.loads(text)
    sink = TransactionalSink(topic, about["name"], about["writers"], access.client_options())
    if is_new:
        files.write_text(kept, json.dumps(about))
        _begin(sink)
        return sink
    if text is None or about["topic_id"] != facts.id:
        raise JobError(
            f"topic {topic} was deleted and made again since the publication began: start with a new --checkpoint, "
            "which sends all rows"
        )
    if _is_unfinished(files, root) and not any(offset >= 0 for offset in _offsets(sink)):
        raise JobError(
            "the last batch was cut short, and the cluster has forgotten how far it got: "
            f"group {sink.name} has no offsets (they are kept for offsets.retention.minutes). "
            "What of the batch is in the topic is not known; start with a new --checkpoint, which sends all rows"
        )
    return sink


def _begin(sink: TransactionalSink) -> None:
    """Write zero offsets: from then on a group without offsets is one that the cluster has forgotten."""
    from confluent_kafka import KafkaException, TopicPartition

    consumer = sink.consumer()
    try:
        consumer.commit(
            offsets=[TopicPartition(sink.topic, writer, 0) for writer in range(sink.writers)],
            asynchronous=False,
        )
    except KafkaException as error:
        raise JobError(f"the progress cannot be kept in group {sink.name}: {error.args[0].str()}") from None
    finally:
        consumer.close()


def _offsets(sink: TransactionalSink) -> list[int]:
    from confluent_kafka import KafkaException, TopicPartition

    consumer = sink.consumer()
    places: list[Any] = [TopicPartition(sink.topic, writer) for writer in range(sink.writers)]
    try:
        return [found.offset for found in consumer.committed(places, timeout=_ASK_TIMEOUT_S)]
    except KafkaException as error:
        raise JobError(f"the progress in group {sink.name} cannot be read: {error.args[0].str()}") from None
    finally:
        consumer.close()


def _is_unfinished(files: "JobFiles", root: str) -> bool:
    """Return whether a batch was planned that Spark has not marked as done."""
    planned, done = (
        max((int(name) for name in files.names(f"{root}/stream/{kind}") if name.isdigit()), default=-1)
        for kind in ("offsets", "commits")
    )
    return planned > done
