"""The admin client itself."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from ottla.addresses import parse_addresses
from ottla.admin.acls import AclsAdmin
from ottla.admin.configs import ConfigsAdmin
from ottla.admin.groups import GroupsAdmin
from ottla.admin.logs import LogsAdmin
from ottla.admin.moves import MovesAdmin
from ottla.admin.quotas import QuotasAdmin
from ottla.admin.replicas import ReplicasAdmin
from ottla.admin.router import Router
from ottla.admin.tokens import TokensAdmin
from ottla.admin.topics import TopicsAdmin
from ottla.admin.transactions import TransactionsAdmin
from ottla.admin.users import UsersAdmin
from ottla.connection import connect
from security.client_config import PLAINTEXT, ClientSecurity

REQUEST_TIMEOUT_S: Final = 30.0


class Admin:
    """Asks a cluster about its topics, brokers, logs and groups, and changes them. Made by `open_admin`.

    Each call raises `ApiError` where the cluster refuses, `ConnectError` where it cannot be reached in time,
    and `NoCommonVersionError` where the broker does not serve what is asked. The calls are those of its parts, which
    say what each does.

    Args:
        router: Connections to the brokers.
    """

    def __init__(self, router: Router) -> None:
        self.connector = router.connector
        self.refresh = router.refresh
        self.close = router.close

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
        self.abort_in_partition = transactions.abort_in_partition
        self.transactions_of = transactions.transactions_of

        users = UsersAdmin(router)
        self.describe_scram_users = users.describe_scram_users
        self.alter_scram_credentials = users.alter_scram_credentials


@asynccontextmanager
async def open_admin(
    bootstrap_servers: str,
    *,
    client_id: str = "ottla-admin",
    timeout_s: float = REQUEST_TIMEOUT_S,
    security: ClientSecurity = PLAINTEXT,
) -> AsyncIterator[Admin]:
    """Connect to a cluster by some of its brokers.

    Args:
        bootstrap_servers: ``host:port,host:port``; any that answers will do.
        client_id: What the brokers see us as.
        timeout_s: How long each call may take, its retries included.
        security: TLS and SASL, for instance from `security.client_config.client_security`.

    Raises:
        ValueError: the servers are not written as ``host:port``.
        BootstrapError: none of them answers.
    """
    connector = partial(connect, security=security)
    admin = Admin(Router(parse_addresses(bootstrap_servers), client_id, timeout_s, connector))
    try:
        await admin.refresh()
        yield admin
    finally:
        await admin.close()
