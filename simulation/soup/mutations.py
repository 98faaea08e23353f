"""The rules that can be weakened, by name: `ottla simulate --mutations` has to notice each.

Each is a mistake that is easy to make, or was made in some broker: a check that is left out, an answer that comes too
early, a sync that is forgotten, a fence that is open.
"""

from collections.abc import Mapping
from typing import Final

from cluster.coordinator.committed_offsets import CommittedOffsets
from cluster.coordinator.offset_commits import OffsetCommits
from cluster.coordinator.offsets_log import OffsetsLog
from cluster.coordinator.transactions.marker_sender import MarkerSender
from cluster.coordinator.transactions.transaction_coordinator import TransactionCoordinator
from cluster.replication.follower.fetcher import Fetcher
from cluster.replication.follower.follower_writes import FollowerWrites
from cluster.replication.leader.appends import Appends
from cluster.replication.leader.fetch_answers import divergence, readable_end
from cluster.replication.leader.verified_appends import VerifiedAppends
from cluster.replication.partition.isr_rules import replicated_offset
from cluster.replication.partition.leader import Leader
from cluster.replication.partition.partition import Partition
from cluster.replication.partition.remote_replica import RemoteReplica
from cluster.replication.roles.controller_requests import ControllerRequests
from cluster.statemachines.elections import elect_offline, elect_preferred
from cluster.statemachines.group_requests import check_commit, heartbeat
from cluster.statemachines.isr import PendingShrink
from cluster.statemachines.leadership import PartitionLeadership
from cluster.statemachines.transaction_requests import add_partitions, initialise
from cluster.zookeeper.broker_store import BrokerStore
from cluster.zookeeper.fence import ControllerFence
from simulation.soup.mutation import Edit, Mutation
from storage.flushing import LogFlusher
from storage.log_reader import LogReader
from storage.producer_table import ProducerTable
from storage.recovery import _check_batch
from storage.truncation import Truncation

_ALL: Final = (
    # Acknowledgements and the high watermark
    Mutation(
        "answer-before-high-watermark",
        "acks=all is answered when the leader has the records",
        (Edit(Appends.append, "if required_acks == ACKS_ALL and appended:", "if False:"),),
    ),
    Mutation(
        "high-watermark-of-the-leader",
        "the high watermark does not wait for followers",
        (Edit(replicated_offset, "if remote.log_end_offset < offset and (", "if False and ("),),
    ),
    Mutation(
        "read-above-high-watermark",
        "consumers are sent what is not replicated yet",
        (Edit(readable_end, "return log.high_watermark", "return log.log_end_offset"),),
    ),
    Mutation(
        "forget-min-insync",
        "acks=all is accepted, and the high watermark rises, with fewer replicas than min.insync.replicas",
        (
            Edit(Leader.append, "len(self.isr.isr) < self.min_isr", "False"),
            Edit(
                Leader.raise_high_watermark,
                "len(isr.isr) < min(log.config.min_insync_replicas, len(remotes) + 1)",
                "False",
            ),
            Edit(Leader.ack_error, "len(self.isr.maximal_isr) < self.min_isr", "False"),
        ),
    ),
    # Syncs
    Mutation(
        "forget-fsync",
        "a flush moves the recovery point and syncs no segment",
        (Edit(LogFlusher.flush, "segment.sync(with_indexes=segment is not active)", "pass"),),
    ),
    Mutation(
        "leader-acknowledges-unsynced",
        "a leader does not wait for its own disk under log.flush.on.ack",
        (Edit(Leader._waits_for_disk, "self._rules.flush_on_ack or", "False or"),),
    ),
    Mutation(
        "follower-acknowledges-unsynced",
        "a follower fetches on before its disk has what it fetched, under log.flush.on.ack",
        (Edit(Fetcher._round, "self._flush_on_ack or log.is_flush_due", "log.is_flush_due"),),
    ),
    Mutation(
        "believe-a-torn-tail",
        "recovery does not look at checksums",
        (Edit(_check_batch, "check_checksum(data, position, header)", "pass"),),
    ),
    # The in-sync replicas
    Mutation(
        "join-without-catching-up",
        "a follower joins the ISR wherever its log ends",
        (
            Edit(
                Leader._maybe_expand,
                "and remote.log_end_offset >= self.log.high_watermark",
                "and remote.log_end_offset >= 0",
            ),
            Edit(
                Leader._maybe_expand,
                "and remote.log_end_offset >= self.epoch_start",
                "and remote.log_end_offset >= 0",
            ),
        ),
    ),
    Mutation(
        "keep-progress-of-a-former-life",
        "a leader still believes, in a new epoch, where the log of a follower ended that has left the ISR",
        (
            Edit(
                RemoteReplica.reset,
                "self.log_end_offset = NO_OFFSET",
                "self.log_end_offset = self.log_end_offset",
            ),
        ),
    ),
    Mutation(
        "shrink-before-it-is-written",
        "the high watermark stops waiting for a member while its removal from the ISR is being written",
        (
            Edit(
                vars(PendingShrink)["maximal_isr"].fget,
                "return self.committed.isr",
                "return self.committed.isr - self.replicas",
            ),
        ),
    ),
    Mutation(
        "isr-written-blindly",
        "a leader writes its ISR whatever the version of the znode",
        (Edit(BrokerStore.write_isr, "(path, data, expected_version)", "(path, data, ANY_VERSION)"),),
    ),
    # Leader epochs
    Mutation(
        "elect-outside-the-isr",
        "the first live replica is elected, in sync or not",
        (Edit(elect_offline, "if replica in in_sync)", "if True)"),),
    ),
    Mutation(
        "prefer-outside-the-isr",
        "a preferred leader is elected, in sync or not",
        (Edit(elect_preferred, "replicas[0] not in leadership.isr or", ""),),
    ),
    Mutation(
        "keep-the-leader-epoch",
        "a new leader leads in the epoch of the one before it",
        (Edit(PartitionLeadership.decided, "self.leader_epoch + 1", "self.leader_epoch"),),
    ),
    Mutation(
        "skip-the-fetch-epoch",
        "a leader serves followers of other leader epochs",
        (
            Edit(
                Partition.local_log,
                "current_leader_epoch != self.leader_epoch and current_leader_epoch != NO_LEADER_EPOCH",
                "False",
            ),
        ),
    ),
    Mutation(
        "take-former-leaderships",
        "LeaderAndIsr is obeyed though its leader epoch is not newer",
        (Edit(ControllerRequests._accepts, "state.leader_epoch <= epoch", "False"),),
    ),
    Mutation(
        "truncate-to-the-high-watermark",
        "a follower cuts its log at its own high watermark, whatever its leader's epochs say (before KIP-101)",
        (
            Edit(
                FollowerWrites._truncate,
                "truncation_offset(log, diverging.epoch, diverging.end_offset, state.fetch_offset)",
                "log.high_watermark",
            ),
        ),
    ),
    Mutation(
        "do-not-look-for-divergence",
        "a leader does not compare the epoch of a follower's last record with its own",
        (Edit(divergence, "end.epoch < item.last_fetched_epoch or", "False and"),),
    ),
    Mutation(
        "forget-the-recovery-point",
        "cutting a log leaves the recovery point beyond the cut",
        (
            Edit(
                Truncation.truncate_suffix,
                "self._flusher.lower_recovery_point(min(to, self._batch_start(to)))",
                "pass",
            ),
        ),
    ),
    # The controller
    Mutation(
        "drop-the-controller-fence",
        "a controller's writes do not depend on the controller epoch",
        (Edit(ControllerFence._check, "self.epoch_version", "-1"),),
    ),
    Mutation(
        "obey-former-controllers",
        "brokers obey requests of former controllers, and for former registrations",
        (
            Edit(ControllerRequests._check_sender, "epoch < self.controller_epoch", "False"),
            Edit(ControllerRequests._check_sender, "broker_epoch < self.broker_epoch", "False"),
        ),
    ),
    # Idempotence
    Mutation(
        "forget-duplicates",
        "a repeated batch of an idempotent producer is written again",
        (Edit(ProducerTable.check, "return duplicate", "follows = True"),),
    ),
    Mutation(
        "allow-gaps-in-sequences",
        "a batch is written although the one before it is missing",
        (Edit(ProducerTable.check, "raise self._gap(header, first_offset, entry)", "pass"),),
    ),
    # Transactions
    Mutation(
        "marker-before-prepare",
        "markers leave before the decision that they carry out is replicated",
        (
            Edit(
                TransactionCoordinator._write,
                "transaction.begin(pending)\n",
                "transaction.begin(pending)\n"
                "    if pending.record.state.is_prepared:\n"
                "        transaction.unmarked = set(pending.record.partitions)\n"
                "        transaction.record = pending.record\n"
                "        self.markers.send(partition, transaction)\n",
            ),
        ),
    ),
    Mutation(
        "complete-before-markers",
        "a transaction completes when its markers are sent, not when they are acknowledged",
        (Edit(MarkerSender.send, "if not transaction.unmarked:", "if True:"),),
    ),
    Mutation(
        "no-fence-of-former-producers",
        "InitProducerId goes on with the epoch of the producer before",
        (Edit(initialise, "ProducerEpoch(epoch + 1)", "ProducerEpoch(max(epoch, 0))"),),
    ),
    Mutation(
        "accept-former-producers",
        "a leader takes batches of producer epochs that have been succeeded",
        (Edit(ProducerTable.check_epoch, "header.producer_epoch < entry.epoch", "False"),),
    ),
    Mutation(
        "forget-partitions-of-a-transaction",
        "partitions that are added to a transaction replace those added before",
        (Edit(add_partitions, "record.partitions | wanted", "wanted"),),
    ),
    Mutation(
        "read-open-transactions",
        "readers of committed data are sent what is behind the last stable offset",
        (Edit(readable_end, "return log.last_stable_offset", "return log.high_watermark"),),
    ),
    Mutation(
        "hide-aborted-transactions",
        "readers of committed data do not learn which transactions were aborted",
        (
            Edit(
                LogReader.aborted_transactions_of,
                "return self.collect_aborted_transactions(start.offset, min(stop, end))",
                "return []",
            ),
        ),
    ),
    Mutation(
        "verify-no-transaction",
        "a batch that opens a transaction is written without asking the coordinator (before KIP-890)",
        (
            Edit(VerifiedAppends._must_ask, "if log is None or", "if True or log is None or"),
            Edit(ProducerTable._check_verified, "if token is None or", "if True or token is None or"),
        ),
    ),
    # Groups
    Mutation(
        "commit-in-former-generations",
        "a group takes offsets of any member in any generation",
        (
            Edit(
                check_commit,
                "if generation >= 0 or member_id or instance_id is not None:",
                "if member_id not in group.members:\n        return Error.NONE, []\n    if False:",
            ),
        ),
    ),
    Mutation(
        "acknowledge-commits-early",
        "a committed offset is acknowledged before it is replicated",
        (Edit(OffsetsLog.append, "len(records), self._acks, on_done", "len(records), 1, on_done"),),
    ),
    Mutation(
        "commit-before-the-marker",
        "offsets of a transaction count at once, before it ends and though it may abort",
        (
            Edit(
                OffsetCommits._write,
                "kept.end_hold(writer.producer_id, values, where)",
                "kept.end_hold(writer.producer_id, values, where)\n"
                "            if where is not None:\n"
                "                kept.end_transaction(writer.producer_id, commit=True)",
            ),
        ),
    ),
    Mutation(
        "drop-offsets-of-transactions",
        "offsets of a committed transaction are forgotten with it",
        (
            Edit(
                CommittedOffsets.end_transaction, "elif commit and record_offset != NO_OFFSET:", "elif False:"
            ),
        ),
    ),
    Mutation(
        "hide-rebalances",
        "members do not learn from their heartbeats that a rebalance has begun",
        (Edit(heartbeat, "return Error.REBALANCE_IN_PROGRESS, alive", "return Error.NONE, alive"),),
    ),
)

MUTATIONS: Final[Mapping[str, Mutation]] = {each.name: each for each in _ALL}
