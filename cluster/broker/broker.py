"""The composition root: a configuration in, a running broker out.

A broker starts in this order, each step failing with one message of its own (`exit_codes`): settings,
ZooKeeper, cluster id and dynamic settings, log directories (locked, recovered, their identity checked),
listeners bound, registration; only then does it serve. It stops in the reverse order: leaders given away,
requests answered, logs closed, the session closed.

Everything long-lived is a named task of one nursery. A task that dies of a bug takes the broker down with a
traceback; the logs are then left as a crash leaves them.
"""

import base64
import logging
import os
import sys
from enum import Enum
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final

import trio

from cluster.broker.addresses import addresses_of
from cluster.broker.assembly import assemble, registration_of
from cluster.broker.components import Components, describe_components, partition_descriptions
from cluster.broker.controlled_shutdown import ControlledShutdown
from cluster.broker.exit_codes import BrokerStopError, ExitCode
from cluster.broker.gauges import add_gauges
from cluster.broker.live_configuration import LiveConfiguration
from cluster.broker.live_quotas import LiveQuotas, client_quotas
from cluster.broker.management import management_methods
from cluster.broker.registration import Registration
from cluster.broker.state_change_publisher import StateChangePublisher
from cluster.broker.state_changes import StateChanges
from cluster.broker.token_upkeep import follow_tokens, sweep_tokens
from cluster.environment.ports import Environment
from cluster.journal.writer import StateJournal
from cluster.metrics.catalogue import BrokerMetrics
from cluster.network.connection_limits import ConnectionLimits
from cluster.network.management import ManagementServer
from cluster.security.scram_credentials import ScramCredentials
from cluster.zookeeper.broker_store import BrokerStore
from cluster.zookeeper.config_changes import ConfigChanges
from cluster.zookeeper.znodes import DEFAULT_ENTITY, USERS, desanitize
from storage.loading import LoadProgress
from storage.meta_properties import read_meta_properties
from storage.store import LogStore
from wire.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from wire.types import BrokerId

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cluster.broker.addresses import Addresses
    from cluster.broker.loop_monitor import LoopMonitor
    from cluster.configuration.broker_config import BrokerConfig
    from cluster.zookeeper.guardian import GuardianLink
    from cluster.zookeeper.stored_acls import StoredAcls
    from storage.log_config import LogConfig

logger = logging.getLogger(__name__)

ANSWER_GRACE_S: Final = 1.0
"""How long a stopping broker waits for the answers to requests that it has begun."""
LEADERSHIP_GRACE_S: Final = 1.0
"""How long a stopping controller waits for the brokers to acknowledge the new leaders."""
MANAGEMENT_SOCKET: Final = "management.sock"


class State(Enum):
    """What a broker is doing; the value is what the management socket shows."""

    STARTING = "starting"
    RECOVERING = "recovering"  # opening its logs, and checking those that were not closed cleanly
    RUNNING = "running"
    STOPPING = "stopping"


class Broker:
    """One broker, from its start to its end.

    Args:
        config: Its settings.
        environment: Time, disk, network, ZooKeeper and randomness.
        link: To the guardian that watches over its process, if there is one.

    Attributes:
        config: Its settings.
        metrics: What it counts.
        changes: What happens to it.
        ready: Set once it serves.
        state: What it is doing.
        loop_monitor: Measures the turns of the loop; None where the broker shares its process.
    """

    def __init__(
        self, config: "BrokerConfig", environment: Environment, link: "GuardianLink | None" = None
    ) -> None:
        self.config = config
        self.metrics = BrokerMetrics()
        self.changes = StateChanges()
        self.ready = trio.Event()
        self.state = State.STARTING
        self.loop_monitor: LoopMonitor | None = None
        self._link = link
        self._environment = environment
        self._addresses: Addresses = addresses_of(config)
        self._stopping = trio.Event()
        self._connecting_scope = trio.CancelScope()
        self._starting_scope = trio.CancelScope()
        self._leaving_scope = trio.CancelScope()
        self._locked = trio.Event()
        self._zookeeper = environment.open_session(config)
        self._store = BrokerStore(self._zookeeper)
        self._live = LiveConfiguration(
            config, self._store, ConfigChanges(self._zookeeper, environment.clock.wall_ms)
        )
        self._scram = ScramCredentials()
        self._live.follow_entities(USERS, self._users_changed)
        self._limits = ConnectionLimits(config, environment.offload_abandoned)
        self._quotas = LiveQuotas(client_quotas(config), self._limits)
        self._quotas.follow(self._live)
        self._registration: Registration | None = None
        self._logs: LogStore | None = None
        self._components: Components | None = None
        self._load_progress: LoadProgress | None = None
        self._metrics_port: int | None = None
        self._loop: trio.lowlevel.TrioToken | None = None

    async def run(self) -> None:
        """Start, serve until asked to stop, and leave in good order.

        Cancelled or failing, it leaves as a crash would: the next start recovers the logs.
        """
        self._loop = trio.lowlevel.current_trio_token()
        async with trio.open_nursery() as outer:
            with self._connecting_scope:
                await outer.start(self._zookeeper.run)
            if self._connecting_scope.cancelled_caught:
                logger.info("stopped before ZooKeeper was reached")
                return
            async with trio.open_nursery() as service:
                with self._starting_scope:
                    await self._start(service)
                    await self._stopping.wait()
                await self._leave()
                service.cancel_scope.cancel()
            await self._close_logs()
            outer.cancel_scope.cancel()
        if self._registration is not None:
            self._registration.left()
        logger.info("the broker has stopped")

    def stop(self) -> None:
        """Stop the broker in good order; a second call while it moves its leaders away makes it hurry."""
        if self.state is State.STOPPING:
            self._leaving_scope.cancel()
        elif self.state is State.RUNNING:
            self._stopping.set()
        else:
            self._connecting_scope.cancel()
            self._starting_scope.cancel()

    # Starting

    async def _start(self, service: trio.Nursery) -> None:
        await self._store.create_persistent_paths()
        cluster_id = await self._store.cluster_id(_new_cluster_id(self._environment.random))
        await self._settle_broker_id()
        configs = await self._live.load()
        self._set_state(State.RECOVERING)
        service.start_soon(self._serve_management, name="management socket")
        logs = await self._open_logs(cluster_id, configs)
        self._live.attach(logs)
        self._set_state(State.STARTING)
        registration = self._registration = Registration(
            self._zookeeper, self._store, self._online_directories, self._link, self._environment.clock
        )
        components = self._components = await self._assemble(service, cluster_id, logs, registration)
        self._bind(components)
        if self.config.ottla_session_reattach:
            await registration.close_former_session(
                self.config.zookeeper_connect, self.config.zookeeper_access
            )
        await self._run_replicas(service, components, registration)
        await self._serve_metrics(service)
        await self._join_and_serve(service, components, registration)
        self._set_state(State.RUNNING)
        self.ready.set()
        served = ", ".join(str(each) for each in self._addresses.advertised)
        logger.info("broker %d serves %s", self.config.broker_id, served)

    async def _assemble(
        self, service: trio.Nursery, cluster_id: str, logs: LogStore, registration: Registration
    ) -> Components:
        """Make and connect the components; state changes are published from now on."""
        config, environment = self.config, self._environment
        if environment.has_files:
            self.changes.journal = StateJournal(
                self._online_directories,
                config.broker_id,
                environment.clock.wall_ms,
                environment.offloads.tidying,
            )
            service.start_soon(self.changes.journal.run, name="state-change journal")
        await self._limits.resolve()
        components = assemble(
            config,
            environment,
            addresses=self._addresses,
            cluster_id=cluster_id,
            zookeeper=self._zookeeper,
            store=self._store,
            logs=logs,
            registration=registration,
            connection_limits=self._limits,
            metrics=self.metrics,
            publisher=StateChangePublisher(self.changes),
            scram=self._scram,
            nursery=service,
        )
        self._quotas.attach(
            components.context, components.listeners.quotas, environment.clock, components.timer, service
        )
        add_gauges(self.metrics, components)
        self._quotas.add_probes(self.metrics)
        self._live.on_unclean_election = components.context.controller.unclean_election_enabled
        if components.context.key_stores is not None:
            self._live.on_broker_change = components.key_stores.refresh
        return components

    def _bind(self, components: Components) -> None:
        """Bind the listeners, and note the ports that the system chose."""
        components.listeners.bind()
        self._addresses = self._addresses.with_bound_ports(components.listeners.bound_port)
        components.context.endpoints = {each.listener_name: each for each in self._addresses.advertised}

    async def _run_replicas(
        self, service: trio.Nursery, components: Components, registration: Registration
    ) -> None:
        """Start the tasks that work on the logs; nothing is served yet."""
        context = components.context
        service.start_soon(components.timer.run, name="timer")
        tokens = context.tokens
        if tokens.tokens.settings is not None:
            await registration.in_session(tokens.load)
            service.start_soon(follow_tokens, tokens, registration, name="delegation tokens")
            service.start_soon(sweep_tokens, context, name="expiry of delegation tokens")
        acls = context.acls
        if acls is not None:
            await registration.in_session(acls.load)
            service.start_soon(self._follow_acls, registration, acls, name="access rules")
        groups = await registration.in_session(partial(self._store.read_topic, CONSUMER_OFFSETS))
        context.groups.found(None if groups is None else len(groups[0].partitions))
        transactions = await registration.in_session(partial(self._store.read_topic, TRANSACTION_STATE))
        context.transactions.found(None if transactions is None else len(transactions[0].partitions))
        service.start_soon(context.replicas.run, name="replicas")
        service.start_soon(context.groups.run, name="groups")
        service.start_soon(context.transactions.run, name="transactions")

    async def _join_and_serve(
        self, service: trio.Nursery, components: Components, registration: Registration
    ) -> None:
        """Register, then serve: a broker needs its new epoch to recognise requests for its former registration."""
        now = self._environment.clock.wall_ms()
        await registration.join(registration_of(self.config, self._addresses, now))
        await service.start(components.listeners.serve, name="listeners")
        await service.start(components.context.controller.run, name="controller")
        service.start_soon(registration.keep, name="registration")
        if components.handover is not None and components.context.session_watch is not None:
            service.start_soon(components.context.session_watch.run, name="session watch")
            service.start_soon(components.handover.run, name="session handover")
        service.start_soon(self._follow_configuration, registration, name="configuration changes")
        if components.context.key_stores is not None:
            service.start_soon(components.key_stores.follow_files, name="key stores")

    def _users_changed(self, configs: "Mapping[str, Mapping[str, str]]", complete: bool) -> None:
        """Apply credentials that were written to ZooKeeper."""
        users = {
            desanitize(path): config
            for path, config in configs.items()
            if "/" not in path and path != DEFAULT_ENTITY
        }
        if complete:
            self._scram.replace_all(users)
        else:
            for user, config in users.items():
                self._scram.replace(user, config)

    async def _open_logs(self, cluster_id: str, configs: "dict[str, LogConfig]") -> LogStore:
        """Lock, recover and check the log directories."""
        # Recovery can be long: a broker that is stopped in the middle repeats it at its next start.
        logs = self._logs = await self._environment.offload_abandoned(
            partial(
                LogStore.open,
                self.config.log_directories,
                self.config.log_config_defaults(),
                configs,
                self._environment.clock,
                self._environment.disk,
                progress=self._loading,
                recovery_threads=self.config.num_recovery_threads_per_data_dir,
                producer_expiration_ms=self.config.producer_id_expiration_ms,
            )
        )
        self._locked.set()
        logs.identity.check(cluster_id, self.config.broker_id)
        logs.identity.write(cluster_id, self.config.broker_id, self._zookeeper.last_zxid)
        return logs

    async def _settle_broker_id(self) -> None:
        """Take the id that is configured, else the one this broker was given before, else a new one."""
        if self.config.broker_id >= 0:
            return
        for directory in self.config.log_directories:
            try:
                properties = read_meta_properties(self._environment.disk, str(directory))
            except OSError:
                continue  # opening the directory reports the error
            if properties is not None and properties.broker_id is not None:
                self.config.assign_broker_id(properties.broker_id)
                return
        number = await self._store.generate_broker_id()
        self.config.assign_broker_id(BrokerId(self.config.reserved_broker_max_id + number))
        logger.info("this broker gets the id %d", self.config.broker_id)

    def _loading(self, progress: LoadProgress) -> None:
        """Note the progress of recovery; called from its threads, with the directories locked."""
        self._load_progress = progress
        if self._loop is not None:
            self._loop.run_sync_soon(self._locked.set, idempotent=True)

    async def _serve_management(self) -> None:
        """Serve the management socket, once the lock says that no other broker serves on it."""
        path = self.config.ottla_management_socket
        if path == "" or not self._environment.has_files:
            return
        await self._locked.wait()
        if path is not None:
            try:
                await ManagementServer(Path(path), management_methods(self)).serve()
            except OSError as error:
                raise BrokerStopError(
                    ExitCode.CONFIGURATION, f"ottla.management.socket={path}: {error.strerror}"
                ) from error
        for directory in self.config.log_directories:
            try:
                await ManagementServer(directory / MANAGEMENT_SOCKET, management_methods(self)).serve()
            except OSError as error:
                logger.warning("no management socket in %s: %s", directory, error)

    def _online_directories(self) -> list[Path]:
        """Return the log directories that are online; none on a simulated disk."""
        if self._logs is None or not self._environment.has_files:
            return []
        return [Path(each.path) for each in self._logs.directories if not each.is_offline]

    async def _serve_metrics(self, service: trio.Nursery) -> None:
        """Open the metrics endpoint, if one is configured."""
        port = self.config.ottla_metrics_port
        if port < 0:
            return
        from cluster.metrics.exposition import MetricsEndpoint  # what it imports costs start-up time

        endpoint = MetricsEndpoint(
            self.metrics.registry, self._addresses.bound[0].host, port, is_ready=self.ready.is_set
        )
        try:
            await service.start(endpoint.serve)
        except OSError as error:
            raise BrokerStopError(ExitCode.PORT, f"ottla.metrics.port={port}: {error.strerror}") from error
        self._metrics_port = endpoint.port
        logger.info("metrics are read from port %d", endpoint.port)

    async def _follow_configuration(self, registration: Registration) -> None:
        while True:
            await registration.wait_member()
            await self._live.follow()
            await trio.lowlevel.checkpoint()

    async def _follow_acls(self, registration: Registration, acls: "StoredAcls") -> None:
        await acls.follow(reload=False)
        while True:
            await trio.lowlevel.checkpoint()
            await registration.wait_member()
            await acls.follow(reload=True)

    # Stopping

    async def _leave(self) -> None:
        """Move the leaders away, answer what was begun, and stop."""
        components = self._components
        serving = self.state is State.RUNNING
        self._set_state(State.STOPPING)
        if components is None:
            return
        if serving:
            with self._leaving_scope:
                await ControlledShutdown(
                    components.context, self._addresses.inter_broker, components.connect
                ).depart()
                await components.context.groups.stop()
                await components.context.transactions.stop()
            with trio.move_on_after(LEADERSHIP_GRACE_S):
                await components.context.controller.wait_told()
            if self._zookeeper.session_is_live(self._environment.clock.monotonic()):
                with trio.move_on_after(self.config.zookeeper_session_timeout_ms / 1000):
                    await components.context.controller.resign()
        if components.handover is not None:
            await components.handover.withdraw()
        await components.listeners.stop(ANSWER_GRACE_S)

    async def _close_logs(self) -> None:
        logs, registration = self._logs, self._registration
        if logs is None or registration is None:
            return
        await self._environment.offloads.syncs(
            partial(logs.close, clean=True, broker_epoch=registration.epoch)
        )

    # Describing

    def describe(self) -> dict[str, Any]:
        """Describe the broker: a fresh value of plain types."""
        description: dict[str, Any] = {
            "broker_id": self.config.broker_id,
            "state": self.state.value,
            "pid": os.getpid(),
            "python": sys.version.split()[0],
            "metrics_port": self._metrics_port,
            "listeners": [str(each) for each in self._addresses.advertised],
            "zookeeper": {
                "connect": self.config.zookeeper_connect,
                "session_id": f"0x{self._zookeeper.session_id & 0xFFFFFFFFFFFFFFFF:x}",
                "live": self._zookeeper.session_is_live(self._environment.clock.monotonic()),
            },
        }
        if self.loop_monitor is not None:
            description["loop"] = self.loop_monitor.describe()
        if self._load_progress is not None:
            description["recovery"] = self._load_progress._asdict()
        if self._components is not None:
            description |= describe_components(self._components)
        return description

    @property
    def logs(self) -> LogStore | None:
        """Its logs; None until the directories are open."""
        return self._logs

    def partition_descriptions(self) -> "Iterator[dict[str, Any]]":
        """Describe the replicas that this broker hosts, one by one; other tasks can run in between."""
        return (
            iter(())
            if self._components is None
            else partition_descriptions(self._components.context.replicas)
        )

    def _set_state(self, state: State) -> None:
        self.state = state
        self.changes.publish("state", state=state.value)


def _new_cluster_id(random: Random) -> str:
    """Return a random id in Kafka's form, for a cluster that has none."""
    return base64.urlsafe_b64encode(random.randbytes(16)).decode().rstrip("=")
