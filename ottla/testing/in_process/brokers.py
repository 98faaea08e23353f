"""The brokers of an in-process cluster and what can be done to them, in the loop that they all share."""

import errno
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import trio

from cluster.environment.machine import real_environment
from cluster.network.broker_client import BrokerClient
from cluster.network.dialling import Link, dial_tcp
from cluster.zookeeper.session_closer import SessionKey
from ottla.testing.in_process.front import HOST
from ottla.testing.in_process.gates import CLIENTS, ZOOKEEPER, Gates
from ottla.testing.in_process.links import GatedLink
from ottla.testing.in_process.site import Site
from ottla.testing.view import ClusterError
from simulation.zookeeper import FakeEnsemble
from wire.errors import Error
from wire.internal_topics import INTERNAL_TOPICS
from wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from wire.messages.delete_topics import DeleteTopicsRequest
from wire.messages.find_coordinator import FindCoordinatorRequest
from wire.schema import Request

SESSION_TIMEOUT_MS: Final = 1_000
"""Short, because only a fault can silence a session's owner: no process or network is between."""
LOOK_AGAIN_S: Final = 0.002
ADMIN_TIMEOUT_S: Final = 30.0
_CREATE_TOPICS_VERSION: Final = 5
_DELETE_TOPICS_VERSION: Final = 4
_CLIENT_ID: Final = "ottla-testing"
_FIND_COORDINATOR_VERSION: Final = 3
_GROUP: Final = 0
_TRANSACTION: Final = 1
_TOPICS: Final = "/brokers/topics"
_PENDING_DELETIONS: Final = "/admin/delete_topics"
_REMEMBERED: Final = (
    *(
        "/config/brokers",
        "/config/users",
        "/config/clients",
        "/config/ips",
        "/kafka-acl",
        "/kafka-acl-extended",
    ),
    *("/delegation_token/tokens",),
)
"""Znodes of state other than topics: if a test has left any, a reset begins with an empty cluster."""

_HIDDEN: Final = frozenset(
    {"listeners", "advertised.listeners", "log.dirs", "broker.id", "zookeeper.connect"}
)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a cluster is to be.

    Attributes:
        directory: Where its data lies.
        ports: The brokers' public ports, by id from 0 on; 0 for free ones.
        settings: Settings of all brokers, over the defaults.
    """

    directory: Path
    ports: Sequence[int]
    settings: Mapping[str, str]


class InProcessBrokers:
    """Brokers of one loop.

    Args:
        plan: What the cluster is to be.

    Raises:
        ClusterError: a setting is not the user's to choose here.
    """

    def __init__(self, plan: Plan) -> None:
        for name in sorted(_HIDDEN & plan.settings.keys()):
            raise ClusterError(f"{name} is the in-process cluster's own to set")
        self._plan = plan
        self._gates = Gates()
        self._environment = real_environment()
        self._ensemble = self._new_ensemble()
        self._generation = 0
        self._nursery: trio.Nursery | None = None
        self._ensemble_scope = trio.CancelScope()
        self.sites = {number: self._site(number, port) for number, port in enumerate(plan.ports)}

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Start every broker, call ``task_status.started()``, and run until cancelled.

        Raises:
            ClusterError: a broker cannot start, or ended by itself.
        """
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            nursery.start_soon(self._follow_gates)
            self._ensemble_scope = await nursery.start(self._keep_ensemble)
            await self.start(*self.sites)
            await self._make_internal_topics()
            task_status.started()
            await trio.sleep_forever()

    @property
    def bootstrap_servers(self) -> str:
        """The addresses for a client's ``bootstrap.servers``."""
        return ",".join(f"{HOST}:{site.front.port}" for site in self.sites.values())

    def site(self, broker_id: int) -> Site:
        """Return a broker's site.

        Raises:
            ClusterError: there is no such broker.
        """
        try:
            return self.sites[broker_id]
        except KeyError:
            known = ", ".join(map(str, self.sites))
            raise ClusterError(f"the cluster has no broker {broker_id}; it has {known}") from None

    # Lives

    async def start(self, *broker_ids: int) -> None:
        """Start brokers that are not running, all at once, and wait until they serve."""
        assert self._nursery is not None
        async with trio.open_nursery() as starting:
            for site in map(self.site, broker_ids):
                if site.broker is None:
                    starting.start_soon(self._nursery.start, partial(site.live, self._ensemble))

    async def stop(self, *broker_ids: int) -> None:
        """Stop brokers by controlled shutdowns, one after the other."""
        for site in map(self.site, broker_ids):
            await site.stop()

    async def kill(self, *broker_ids: int, host: bool = False) -> None:
        """Kill brokers; with `host`, their hosts die with them, so that nothing closes their ZooKeeper sessions."""
        for site in map(self.site, broker_ids):
            session = site.session
            await site.kill()
            if not host and session is not None and self._ensemble.is_alive(session.session_id):
                self._ensemble.close_session(session.session_id, session.session_password)

    # Faults

    async def pause(self, *broker_ids: int) -> None:
        """Pause brokers, as SIGSTOP does: connections stay open, nothing is answered."""
        for site in map(self.site, broker_ids):
            self._gates.pause(site.end)

    async def resume(self, *broker_ids: int) -> None:
        """Let paused brokers go on."""
        for site in map(self.site, broker_ids):
            self._gates.resume(site.end)

    async def cut(
        self, broker_id: int, others: Sequence[int] | None, *, zookeeper: bool, clients: bool
    ) -> None:
        """Cut a broker off from other brokers (all of them if None), from ZooKeeper and from clients."""
        end = self.site(broker_id).end
        for other in [number for number in self.sites if number != broker_id] if others is None else others:
            self._gates.cut(end, self.site(other).end)
        if zookeeper:
            self._gates.cut(end, ZOOKEEPER)
        if clients:
            self._gates.cut(end, CLIENTS)

    async def heal(self, *broker_ids: int) -> None:
        """Undo every pause, cut and full disk of some brokers; of all, if none is named."""
        for site in map(self.site, broker_ids or tuple(self.sites)):
            site.volume.is_full = False
            self._gates.resume(site.end)
            self._gates.heal(site.end)

    async def fill_disk(self, broker_id: int) -> None:
        """Leave no space on a broker's disk."""
        self.site(broker_id).volume.is_full = True

    async def expire_session(self, broker_id: int) -> None:
        """Expire a broker's ZooKeeper session; the broker learns of it when it next reaches ZooKeeper.

        Raises:
            ClusterError: it has none.
        """
        session = self.site(broker_id).session
        if session is None or not self._ensemble.is_alive(session.session_id):
            raise ClusterError(f"broker {broker_id} has no session")
        self._ensemble.expire(session.session_id)

    # Contents

    def describe(self) -> dict[int, dict[str, Any]]:
        """Return what the brokers that answer say of themselves, by id."""
        found = {number: site.describe() for number, site in self.sites.items()}
        return {number: described for number, described in found.items() if described is not None}

    async def create_topic(
        self, name: str, partitions: int, replicas: int, configs: Mapping[str, str]
    ) -> None:
        """Create a topic, and wait until the controller knows a leader of each of its partitions.

        Raises:
            ClusterError: it cannot be created.
        """
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replicas,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
        )
        timeout_ms = int(ADMIN_TIMEOUT_S * 1000)
        response = await self._ask_controller(
            lambda: CreateTopicsRequest(topics=[topic], timeout_ms=timeout_ms), _CREATE_TOPICS_VERSION
        )
        answer = response.topics[0]
        if answer.error_code:
            reason = answer.error_message or Error.from_code(answer.error_code).name
            raise ClusterError(f"topic {name} is not created: {reason}")

    async def delete_topics(self, names: Iterable[str]) -> None:
        """Delete topics, and wait until nothing is left of them. Missing topics are no error."""
        await self._delete(sorted(names))

    async def _delete(self, wanted: list[str]) -> None:
        if not wanted:
            return
        timeout_ms = int(ADMIN_TIMEOUT_S * 1000)
        response = await self._ask_controller(
            lambda: DeleteTopicsRequest(topic_names=wanted, timeout_ms=timeout_ms), _DELETE_TOPICS_VERSION
        )
        for answer in response.responses:
            if answer.error_code not in (Error.NONE, Error.UNKNOWN_TOPIC_OR_PARTITION):
                raise ClusterError(
                    f"topic {answer.name} is not deleted: {Error.from_code(answer.error_code).name}"
                )
        await self._until(
            lambda: not any(self._nodes_below(_PENDING_DELETIONS)), "topics are still being deleted"
        )

    async def reset(self) -> None:
        """Return the cluster to its initial state: all brokers up, no fault, no topic, no group, no setting."""
        await self.heal()
        for site in self.sites.values():
            site.front.drop_clients()
        if any(self._nodes_below(path) for path in _REMEMBERED):
            await self._begin_anew()
            return
        await self.start(*self.sites)
        topics = self._nodes_below(_TOPICS)
        if not self._has_records(INTERNAL_TOPICS):
            await self._delete([name for name in topics if name not in INTERNAL_TOPICS])
            return
        await self._delete(topics)
        await self._make_internal_topics()

    async def _begin_anew(self) -> None:
        await self.kill(*self.sites)
        self._ensemble_scope.cancel()
        self._ensemble = self._new_ensemble()
        assert self._nursery is not None
        self._ensemble_scope = await self._nursery.start(self._keep_ensemble)
        self._generation += 1
        for site in self.sites.values():
            site.directory = self._directory(site.broker_id)
        await self.start(*self.sites)
        await self._make_internal_topics()

    async def _make_internal_topics(self) -> None:
        """Create the coordinators' topics while all brokers are live: later there may be too few for their replicas."""
        port = next(site.private_port for site in self.sites.values() if site.private_port is not None)
        client = BrokerClient(HOST, port, _CLIENT_ID, request_timeout_s=ADMIN_TIMEOUT_S)
        try:
            with trio.fail_after(ADMIN_TIMEOUT_S):
                for kind in (_GROUP, _TRANSACTION):
                    request = FindCoordinatorRequest(key="ottla-testing", key_type=kind)
                    while (await client.request(request, _FIND_COORDINATOR_VERSION)).error_code:  # noqa: ASYNC110
                        await trio.sleep(LOOK_AGAIN_S)
        finally:
            client.close()

    async def _ask_controller(self, request: Callable[[], Request], version: int) -> Any:
        """Ask the current controller, until one answers."""
        with trio.move_on_after(ADMIN_TIMEOUT_S):
            while True:
                site = self._controller()
                if site is not None and (port := site.private_port) is not None:
                    client = BrokerClient(HOST, port, _CLIENT_ID, request_timeout_s=ADMIN_TIMEOUT_S)
                    try:
                        response = await client.request(request(), version)
                    except OSError:
                        response = None
                    finally:
                        client.close()
                    answers = (
                        [] if response is None else getattr(response, "topics", None) or response.responses
                    )
                    if answers and all(each.error_code != Error.NOT_CONTROLLER for each in answers):
                        return response
                await trio.sleep(LOOK_AGAIN_S)
        raise ClusterError(f"no controller answers within {ADMIN_TIMEOUT_S:g} s")

    def _controller(self) -> Site | None:
        for described in self.describe().values():
            number = described.get("controller_id", -1)
            if number in self.sites and not self._gates.is_paused(self.sites[number].end):
                return self.sites[number]
        return None

    async def _until(self, condition: Callable[[], bool], problem: str) -> None:
        with trio.move_on_after(ADMIN_TIMEOUT_S):
            while not condition():  # noqa: ASYNC110 - the tree has no events for those who are not its sessions
                await trio.sleep(LOOK_AGAIN_S)
            return
        raise ClusterError(f"{problem} after {ADMIN_TIMEOUT_S:g} s")

    # The world

    def _new_ensemble(self) -> FakeEnsemble:
        return FakeEnsemble(wall_ms=self._environment.clock.wall_ms)

    async def _keep_ensemble(self, *, task_status: trio.TaskStatus[trio.CancelScope]) -> None:
        with trio.CancelScope() as scope:
            task_status.started(scope)
            await self._ensemble.run()

    async def _follow_gates(self) -> None:
        while True:
            await self._gates.change()
            for site in self.sites.values():
                site.follow_gates()

    def _nodes_below(self, path: str) -> list[str]:
        node = self._ensemble.tree.nodes.get(path)
        return [] if node is None else sorted(node.children)

    def _has_records(self, topics: Collection[str]) -> bool:
        return any(
            partition["topic"] in topics and (partition["log_end"] or 0) > 0
            for described in self.describe().values()
            for partition in described["partitions"]
        )

    def _directory(self, number: int) -> Path:
        return self._plan.directory / f"{self._generation}" / f"broker-{number}"

    def _site(self, number: int, port: int) -> Site:
        return Site(
            number,
            self._directory(number),
            replace(self._environment, close_session=self._close_session, has_files=False),
            partial(self._dial, str(number)),
            self._gates,
            port,
            self._settings,
        )

    def _settings(self, number: int, port: int, directory: Path) -> dict[str, str]:
        count = len(self._plan.ports)
        return {
            "broker.id": str(number),
            "listeners": f"PLAINTEXT://{HOST}:0",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
            "log.dirs": str(directory),
            "zookeeper.connect": "in-process:2181",
            "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
            "offsets.topic.replication.factor": str(min(3, count)),
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": str(min(3, count)),
            "transaction.state.log.min.isr": str(min(2, count)),
            "transaction.state.log.num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",
            "ottla.session.reattach": "false",
            **self._plan.settings,
        }

    async def _dial(self, source: str, host: str, port: int) -> Link:
        for site in self.sites.values():
            if site.front.port == port and host == HOST:
                await self._gates.dialable(source, site.end)
                if site.private_port is None:
                    raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
                return GatedLink(await dial_tcp(HOST, site.private_port), self._gates, source, site.end)
        return await dial_tcp(host, port)

    async def _close_session(self, key: SessionKey) -> bool:
        await trio.lowlevel.checkpoint()
        self._ensemble.close_session(key.session_id, key.password)
        return True
