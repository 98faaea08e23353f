"""Listeners and links: over TCP on the loopback, and on the simulated network."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing

from cluster.network.connection import Dispatch
from cluster.network.dialling import dial_tcp
from cluster.network.endpoints import Endpoint
from cluster.network.listener import Listeners
from simulation.network import SimulatedNetwork
from simulation.network_faults import NetworkFaults
from tests.contract.network_checks import CHECKS

Check = Callable[[Any], Awaitable[None]]
TIMEOUT_S = 30.0


class TcpWorld:
    """The machine's own loopback."""

    host = "127.0.0.1"
    dial = staticmethod(dial_tcp)

    def listeners(self, dispatch: Dispatch, port: int = 0, **options: Any) -> Listeners:
        return Listeners([Endpoint("A", self.host, port)], dispatch, **options)


class SimulatedWorld:
    """Two machines of a simulated network."""

    host = "server"

    def __init__(self, network: SimulatedNetwork) -> None:
        self._server = network.host("server")
        self.dial = network.host("client").dial

    def listeners(self, dispatch: Dispatch, port: int = 0, **options: Any) -> Any:
        return self._server.listeners([Endpoint("A", self.host, port)], dispatch, **options)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_tcp(check: Check) -> None:
    async def main() -> None:
        with trio.fail_after(TIMEOUT_S):
            await check(TcpWorld())

    trio.run(main)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_simulated(check: Check, seed: int) -> None:
    network = SimulatedNetwork(seed, NetworkFaults(split_chance=0.5, stall_chance=0.05, stall_s=(0.0, 0.01)))

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(network.run)
            with trio.fail_after(3600):
                await check(SimulatedWorld(network))
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
