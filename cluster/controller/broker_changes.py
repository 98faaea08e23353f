"""Brokers that register, die, restart unnoticed, lose a disk, or ask for a controlled shutdown."""

import logging
from collections.abc import Collection, Iterable, Sequence

from cluster.controller import deletions, reassignments
from cluster.controller.term import Term
from cluster.statemachines import replica as machine
from cluster.statemachines.leadership import PartitionLeadership
from cluster.statemachines.topic_deletion import Replica
from cluster.zookeeper.znodes import BrokerIdZnode, BrokerRegistration
from wire.errors import ApiError, Error
from wire.types import NO_BROKER_EPOCH, BrokerEpoch, BrokerId, TopicPartition

logger = logging.getLogger(__name__)


async def watch_registrations(term: Term, broker_ids: Iterable[BrokerId]) -> None:
    """Watch what brokers have registered."""
    paths = [BrokerIdZnode.path(broker_id) for broker_id in broker_ids]
    await term.store.zookeeper.get_many(paths, term.watches.broker)


async def brokers_changed(term: Term) -> None:
    """Read which brokers are registered; a higher epoch than the known one means that the broker died in between.

    Deaths are dealt with first: their partitions wait for a leader.
    """
    context = term.context
    current = await term.store.read_brokers(term.watches.brokers)
    dead = context.brokers.keys() - current.keys()
    bounced = {
        broker_id
        for broker_id in current.keys() & context.brokers.keys()
        if current[broker_id].epoch > context.brokers[broker_id].epoch
    }
    started = (current.keys() - context.brokers.keys()) | bounced
    if not dead and not started:
        return
    logger.info(
        "brokers started: %s, dead: %s, restarted: %s", sorted(started), sorted(dead), sorted(bounced)
    )
    await watch_registrations(term, sorted(started))
    for broker_id in dead | bounced:
        del context.brokers[broker_id]
        term.channels.close(broker_id)
    if dead | bounced:
        await _failed(term, sorted(dead | bounced))
    if started:
        for broker_id in sorted(started):
            term.channels.open(current[broker_id])
            context.brokers[broker_id] = current[broker_id]
        await _started(term, sorted(started))


async def broker_modified(term: Term, broker_ids: Collection[BrokerId]) -> None:
    """Read whether brokers have changed their listeners, and tell every broker."""
    context = term.context
    current = await term.store.read_brokers(term.watches.brokers)
    await watch_registrations(term, sorted(broker_ids))
    changed = False
    for broker_id in broker_ids:
        new, old = current.get(broker_id), context.brokers.get(broker_id)
        if new is not None and old is not None and _listens_elsewhere(new, old):
            logger.info("broker %d listens at %s now", broker_id, [e.text for e in new.endpoints])
            context.brokers[broker_id] = new
            changed = True
    if changed:
        term.batch.update_metadata()
        await term.batch.flush()


def _listens_elsewhere(new: BrokerRegistration, old: BrokerRegistration) -> bool:
    # Another epoch is another registration of the broker: `brokers_changed` deals with that.
    return new.epoch == old.epoch and (new.endpoints != old.endpoints or new.features != old.features)


async def _started(term: Term, broker_ids: Sequence[BrokerId]) -> None:
    context = term.context
    for broker_id in broker_ids:
        context.offline_directories.pop(broker_id, None)
    # The others learn of the new brokers, the new ones learn everything.
    term.batch.update_metadata((), context.brokers.keys() - set(broker_ids))
    await term.batch.flush()
    term.batch.update_metadata(context.leaderships, broker_ids)
    await term.batch.flush()
    replicas = context.replicas_on(broker_ids)
    await term.replicas.apply(replicas, machine.ReplicaAvailable())
    await term.partitions.bring_online()
    await reassignments.resume_towards(term, broker_ids)
    await deletions.unhalt(term, {replica.partition.topic for replica in replicas})


async def _failed(term: Term, broker_ids: Sequence[BrokerId]) -> None:
    context = term.context
    for broker_id in broker_ids:
        context.offline_directories.pop(broker_id, None)
        context.shutting_down.discard(broker_id)
    await replicas_offline(term, context.replicas_on(broker_ids))


async def replicas_offline(term: Term, replicas: Sequence[Replica]) -> None:
    """Elect other leaders for replicas that stopped serving, and take these out of the ISRs.

    The context already knows that their brokers or directories are gone.
    """
    context = term.context
    going = [replica for replica in replicas if replica.partition.topic in context.deletion_queued]
    staying = [replica for replica in replicas if replica.partition.topic not in context.deletion_queued]
    term.partitions.lose_leaders(context.partitions_with_dead_leader())
    outcomes = await term.partitions.bring_online()
    await term.replicas.apply(staying, machine.ReplicaUnavailable())
    if going:
        await deletions.fail(term, going)
    if not staying and not any(isinstance(o, PartitionLeadership) for o in outcomes.values()):
        # Nothing else has informed the brokers that one of them is gone.
        term.batch.update_metadata()
        await term.batch.flush()


async def log_directory_failed(term: Term) -> None:
    """Send a broker that lost a disk its roles again: its responses will name the replicas that it lost."""
    names, broker_ids = await term.store.read_log_dir_events(term.watches.log_dir_events)
    live = broker_ids & term.context.brokers.keys()
    if live:
        logger.warning("log directories failed on brokers %s", sorted(live))
        await term.replicas.apply(term.context.replicas_on(live), machine.ReplicaAvailable())
    await term.store.delete_log_dir_events(names)


async def roles_answered(
    term: Term, broker_id: BrokerId, errors: Iterable[tuple[TopicPartition, Error]]
) -> None:
    """Note the replicas that a LeaderAndIsr response reports in an offline directory.

    A replica of a topic that is being deleted may be gone already, at the request of an earlier controller, which looks
    the same. Whether it can be deleted is in the broker's answer to StopReplica.
    """
    before = term.context.offline_directories.get(broker_id, set())
    after = set(before)
    for partition, error in errors:
        if error is Error.KAFKA_STORAGE_ERROR:
            if partition.topic not in term.context.deletion_queued:
                after.add(partition)
        elif error is Error.NONE:
            after.discard(partition)
    if after == before:
        return
    term.context.offline_directories[broker_id] = after
    lost = sorted(after - before)
    if lost:
        logger.warning("broker %d has no working directory for %s", broker_id, lost)
        await replicas_offline(term, [Replica(partition, broker_id) for partition in lost])


async def controlled_shutdown(
    term: Term, broker_id: BrokerId, broker_epoch: BrokerEpoch
) -> list[TopicPartition]:
    """Prepare a broker for its shutdown: move its leaderships away, stop its followers.

    Returns:
        The replicated partitions that it still leads, because nobody else is in sync.

    Raises:
        ApiError: BROKER_NOT_AVAILABLE, or STALE_BROKER_EPOCH for a request from an earlier registration of the broker.
    """
    context = term.context
    known = context.broker_epoch(broker_id)
    if known is None:
        raise ApiError(Error.BROKER_NOT_AVAILABLE, f"Broker id {broker_id} does not exist.")
    if broker_epoch != NO_BROKER_EPOCH and broker_epoch < known:
        raise ApiError(
            Error.STALE_BROKER_EPOCH,
            f"broker {broker_id} asks with epoch {broker_epoch}, it is registered with {known}",
        )
    logger.info("broker %d shuts down", broker_id)
    context.shutting_down.add(broker_id)
    led: list[TopicPartition] = []
    followed: list[TopicPartition] = []
    for partition in context.partitions_on(broker_id):
        leadership = context.leaderships.get(partition)
        if leadership is None or partition.topic in context.deletion_queued:
            continue
        if len(context.assignment(partition).replicas) > 1:
            (led if leadership.leader == broker_id else followed).append(partition)
    await term.partitions.elect_controlled_shutdown(led)
    # The broker stops fetching before the others learn that it is no longer in sync.
    for partition in followed:
        term.batch.stop_replica(broker_id, partition, delete=False)
    await term.batch.flush()
    await term.replicas.apply(
        [Replica(partition, broker_id) for partition in followed], machine.ReplicaUnavailable()
    )
    return [
        partition
        for partition in led
        if (leadership := context.leaderships.get(partition)) is not None and leadership.leader == broker_id
    ]
