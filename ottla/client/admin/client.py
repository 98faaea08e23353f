"""The admin client itself."""

from ottla.client.admin.acls import AclsAdmin
from ottla.client.admin.configs import ConfigsAdmin
from ottla.client.admin.descriptions import FoundOffset
from ottla.client.admin.groups import GroupsAdmin
from ottla.client.admin.logs import LogsAdmin
from ottla.client.admin.moves import MovesAdmin
from ottla.client.admin.quotas import QuotasAdmin
from ottla.client.admin.replicas import ReplicasAdmin
from ottla.client.admin.router import Router
from ottla.client.admin.tokens import TokensAdmin
from ottla.client.admin.topics import TopicsAdmin
from ottla.client.admin.transactions import TransactionsAdmin
from ottla.client.admin.users import UsersAdmin
from wire.types import TopicPartition


class Admin:
    """Asks a cluster about its topics, brokers, logs and groups, and changes them. `Kafka.admin` is one.

    Each call takes at most the client's ``api_timeout``, and raises `ClientError`, with the broker's `error`, where the
    cluster refuses, `BrokerUnreachable` where it cannot be reached in time, and `UnsupportedByBroker` where the broker
    does not serve what is asked. After a cancellation it is unknown whether the cluster carried the call out. Each call
    is documented in the class that it comes from, such as `TopicsAdmin`.

    Args:
        router: Finds the brokers.
    """

    def __init__(self, router: Router) -> None:
        self.router = router
        self.refresh = router.refresh

        topics = TopicsAdmin(router)
        self.list_topics = topics.list_topics
        self.describe_topics = topics.describe_topics
        self.create_topics = topics.create_topics
        self.delete_topics = topics.delete_topics
        self.create_partitions = topics.create_partitions

        configs = ConfigsAdmin(router)
        self.describe_configs = configs.describe_configs
        self.alter_configs = configs.alter_configs

        moves = MovesAdmin(router)
        self.list_reassignments = moves.list_reassignments
        self.alter_reassignments = moves.alter_reassignments
        self.elect_leaders = moves.elect_leaders

        logs = LogsAdmin(router)
        self.describe_log_dirs = logs.describe_log_dirs
        self.alter_replica_log_dirs = logs.alter_replica_log_dirs
        self.list_offsets = logs.list_offsets
        self.delete_records = logs.delete_records
        self.api_versions = logs.api_versions

        replicas = ReplicasAdmin(router)
        self.read_replicas = replicas.read_replicas
        self.replica_start = replicas.replica_start

        groups = GroupsAdmin(router)
        self.list_groups = groups.list_groups
        self.describe_group = groups.describe_group
        self.committed_offsets = groups.committed_offsets
        self.commit_offsets = groups.commit_offsets
        self.delete_groups = groups.delete_groups
        self.delete_offsets = groups.delete_offsets

        acls = AclsAdmin(router)
        self.create_acls = acls.create_acls
        self.list_acls = acls.list_acls
        self.delete_acls = acls.delete_acls

        quotas = QuotasAdmin(router)
        self.describe_quotas = quotas.describe_quotas
        self.alter_quotas = quotas.alter_quotas

        tokens = TokensAdmin(router)
        self.create_token = tokens.create_token
        self.renew_token = tokens.renew_token
        self.expire_token = tokens.expire_token
        self.describe_tokens = tokens.describe_tokens

        transactions = TransactionsAdmin(router)
        self.list_transactions = transactions.list_transactions
        self.describe_transaction = transactions.describe_transaction
        self.describe_producers = transactions.describe_producers
        self.fence_producers = transactions.fence_producers
        self.abort_in_partition = transactions.abort_in_partition
        self.transactions_of = transactions.transactions_of

        users = UsersAdmin(router)
        self.describe_scram_users = users.describe_scram_users
        self.alter_scram_credentials = users.alter_scram_credentials

    async def lag(self, group_id: str) -> dict[TopicPartition, int]:
        """Return how many offsets each partition's end is ahead of the group's committed offset.

        A partition whose end is not known in time is left out.

        Raises:
            ClientError: The coordinator refuses, or cannot be reached.
        """
        committed = await self.committed_offsets(group_id)
        ends = await self.list_offsets(dict.fromkeys(committed, -1))
        return {
            partition: max(end.offset - committed[partition].offset, 0)
            for partition, end in ends.items()
            if isinstance(end, FoundOffset)
        }
