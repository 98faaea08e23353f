"""The contract of `cluster.zookeeper.client.ZooKeeper`, checked on the fake and on kazoo with a real ensemble."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from cluster.zookeeper.client import ZooKeeper
from cluster.zookeeper.kazoo_client import KazooZooKeeper
from cluster.zookeeper.session_closer import close_session
from security.zookeeper_access import OPEN, ZooKeeperAccess
from simulation.zookeeper import FakeEnsemble, FakeZooKeeper
from tests.contract.conftest import RealZooKeeper
from tests.contract.zookeeper_checks import CHECKS, Check
from wire.types import MonotonicSeconds


class FakeSite:
    """The fake, under trio's virtual clock."""

    def __init__(self) -> None:
        self._ensemble = FakeEnsemble()
        self._sessions: list[FakeZooKeeper] = []

    @asynccontextmanager
    async def connect(self, timeout_s: float = 4.0) -> AsyncIterator[ZooKeeper]:
        zookeeper = FakeZooKeeper(self._ensemble, timeout_s, self.monotonic)
        zookeeper.connect()
        self._sessions.append(zookeeper)
        try:
            yield zookeeper
        finally:
            zookeeper.close()

    async def cut(self) -> None:
        for zookeeper in self._sessions:
            zookeeper.disconnect()

    async def silence(self) -> None:
        for zookeeper in self._sessions:
            zookeeper.disconnect(silently=True)

    async def restore(self) -> None:
        for zookeeper in self._sessions:
            zookeeper.reconnect()

    async def expire(self, zookeeper: ZooKeeper) -> None:
        self._ensemble.expire(zookeeper.session_id)

    def monotonic(self) -> MonotonicSeconds:
        return MonotonicSeconds(trio.current_time())


class RealSite:
    """Kazoo and a server in a process of its own."""

    def __init__(
        self, server: RealZooKeeper, hosts: str | None = None, access: ZooKeeperAccess = OPEN
    ) -> None:
        self._server = server
        self._hosts = server.hosts if hosts is None else hosts
        self._access = access
        self._paused = False

    @asynccontextmanager
    async def connect(self, timeout_s: float = 4.0) -> AsyncIterator[ZooKeeper]:
        zookeeper = KazooZooKeeper(self._hosts, timeout_s, self.monotonic, access=self._access)
        async with trio.open_nursery() as nursery:
            await nursery.start(zookeeper.run)
            yield zookeeper
            nursery.cancel_scope.cancel()

    async def cut(self) -> None:
        await trio.to_thread.run_sync(self._server.stop)

    async def silence(self) -> None:
        self._server.pause()
        self._paused = True

    async def restore(self) -> None:
        if self._server.is_running:
            self._server.resume()
        else:
            await trio.to_thread.run_sync(self._server.start)

    async def expire(self, zookeeper: ZooKeeper) -> None:
        assert isinstance(zookeeper, KazooZooKeeper)
        assert await trio.to_thread.run_sync(close_session, zookeeper.session_key, time.monotonic)

    def monotonic(self) -> MonotonicSeconds:
        return MonotonicSeconds(time.monotonic())


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_fake(check: Check) -> None:
    trio.run(check, FakeSite(), clock=trio.testing.MockClock(autojump_threshold=0))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_real(check: Check, real_zookeeper: RealZooKeeper) -> None:
    async def main() -> None:
        with trio.fail_after(60):
            await check(RealSite(real_zookeeper))

    trio.run(main)
