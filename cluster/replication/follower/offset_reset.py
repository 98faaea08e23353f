"""Chooses the next fetch offset when the leader lacks ours.

If our log ends beyond the leader's, an unclean election made a leader that lacks our last records, and they are
truncated here too. If our log ends before the leader's starts, the two cannot be joined, and ours begins anew.
Otherwise our end is the next offset.
"""

import logging
from collections.abc import Callable
from typing import Final

from cluster.network.broker_client import BrokerChannel
from cluster.replication.follower.fetch_state import FetchState
from wire.errors import ApiError, Error, RemoteProtocolError
from wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from wire.types import BrokerId, Offset, WallMs

logger = logging.getLogger(__name__)

LATEST: Final = WallMs(-1)
EARLIEST: Final = WallMs(-2)


class LeaderOffsets:
    """Asks a leader, as a replica, where a log starts and ends: the end is the log's, not the high watermark.

    Args:
        channel: The connection to the leader.
        broker_id: This broker.
        version: The version of ListOffsets to ask in.
    """

    def __init__(self, channel: BrokerChannel, broker_id: BrokerId, version: int) -> None:
        self._channel = channel
        self._broker_id = broker_id
        self._version = version

    async def ask(self, state: FetchState, timestamp: WallMs) -> Offset:
        """Ask for one offset of one partition.

        Raises:
            ApiError: the leader's error.
            ConnectionFailedError: there is no answer.
            RemoteProtocolError: the answer has no offset, or is malformed.
        """
        topic, partition = state.topic_partition
        request = ListOffsetsRequest(
            replica_id=self._broker_id,
            topics=[
                ListOffsetsTopic(
                    name=topic,
                    partitions=[
                        ListOffsetsPartition(
                            partition_index=partition,
                            current_leader_epoch=state.leader_epoch,
                            timestamp=timestamp,
                        )
                    ],
                )
            ],
        )
        response: ListOffsetsResponse = await self._channel.request(request, self._version)
        for answer in response.topics:
            for found in answer.partitions:
                if found.error_code:
                    raise ApiError(Error.from_code(found.error_code))
                return found.offset
        raise RemoteProtocolError("ListOffsets answered nothing")


async def reset_offset(leader: LeaderOffsets, state: FetchState, is_current: Callable[[], bool]) -> bool:
    """Truncate as the leader's offsets demand, and set the next fetch offset.

    Args:
        leader: Asks the leader.
        state: The partition; its log ends at the offset of the failed fetch.
        is_current: Returns whether the partition is still followed in this epoch; called after each wait.

    Returns:
        False if it is not, and nothing was changed.

    Raises:
        ApiError: the leader's error.
        LogError: the log cannot be truncated.
        ConnectionFailedError: there is no answer.
        RemoteProtocolError: the leader answers something else.
    """
    latest = await leader.ask(state, LATEST)
    log = state.partition.log
    if log is None or not is_current():
        return False
    if latest < log.log_end_offset:
        logger.warning("truncating %s to the leader's end %d", state.topic_partition, latest)
        log.truncate_suffix(latest)
        state.partition.truncated()
    else:
        earliest = await leader.ask(state, EARLIEST)
        log = state.partition.log
        if log is None or not is_current():
            return False
        if earliest > log.log_end_offset:
            logger.warning(
                "%s starts anew at the leader's start %d, beyond its end", state.topic_partition, earliest
            )
            log.truncate_fully_and_start_at(earliest)
            state.partition.truncated()
    state.moved_to(log.log_end_offset, log.leader_epochs.latest)
    return True
