"""Turns brokers' responses to the controller into events, where they carry news."""

import logging

from cluster.controller import events
from cluster.controller.channels import ControlMessage
from cluster.controller.events import ControllerEvent
from cluster.zookeeper.znodes import BrokerRegistration
from wire.errors import Error
from wire.messages.leader_and_isr import LeaderAndIsrResponse
from wire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from wire.schema import Response
from wire.types import TopicPartition

logger = logging.getLogger(__name__)


def event_of(
    registration: BrokerRegistration, message: ControlMessage, response: Response, *, lost_directory: bool
) -> ControllerEvent | None:
    """Return the event that a broker's answer makes, ``None`` if the controller learns nothing from it.

    Args:
        registration: The broker that answers, and its epoch.
        message: The request that it answers.
        response: The response.
        lost_directory: Whether replicas of the broker are known to have no working directory: then a success
            is news, too.
    """
    error = Error.from_code(getattr(response, "error_code", Error.NONE))
    if error is not Error.NONE:
        logger.error(
            "broker %d answers %s with %s", registration.broker_id, type(message).__name__, error.name
        )
    if isinstance(response, LeaderAndIsrResponse):
        if error is Error.NONE and (lost_directory or _names_lost_directory(response)):
            return events.LeaderAndIsrAnswered(registration.broker_id, registration.epoch, response)
    elif isinstance(response, StopReplicaResponse) and isinstance(message, StopReplicaRequest):
        errors = _deletion_errors(message, response, error)
        if errors:
            return events.DeletionAnswered(registration.broker_id, registration.epoch, errors)
    return None


def _names_lost_directory(response: LeaderAndIsrResponse) -> bool:
    return any(
        partition.error_code == Error.KAFKA_STORAGE_ERROR
        for topic in response.topics
        for partition in topic.partition_errors
    )


def _deletion_errors(
    request: StopReplicaRequest, response: StopReplicaResponse, error: Error
) -> tuple[tuple[TopicPartition, Error], ...]:
    """Return the outcome for each replica that was to be deleted; a request-level error applies to each."""
    asked = {
        TopicPartition(topic.topic_name, partition.partition_index)
        for topic in request.topic_states
        for partition in topic.partition_states
        if partition.delete_partition
    }
    if error is not Error.NONE:
        return tuple((partition, error) for partition in sorted(asked))
    errors = {
        TopicPartition(each.topic_name, each.partition_index): Error.from_code(each.error_code)
        for each in response.partition_errors
    }
    return tuple((partition, errors[partition]) for partition in sorted(asked & errors.keys()))
