"""The environment of a broker that runs on this machine."""

from functools import partial
from random import SystemRandom
from typing import TYPE_CHECKING, Final

import trio

from cluster.environment.ports import Environment, Session
from cluster.network.dialling import dial_tcp
from cluster.network.listener import Listeners
from cluster.network.offloads import in_threads
from cluster.zookeeper.kazoo_client import KazooZooKeeper
from cluster.zookeeper.session_closer import close_session
from storage.disk import RealDisk
from timing.clock import SystemClock

if TYPE_CHECKING:
    from cluster.configuration.broker_config import BrokerConfig
    from cluster.zookeeper.session_closer import SessionKey

_SESSIONS_CLOSED_AT_ONCE: Final = 4


def real_environment() -> Environment:
    """Return the machine that this process runs on."""
    clock = SystemClock()

    def open_session(config: "BrokerConfig") -> Session:
        return KazooZooKeeper(
            config.zookeeper_connect,
            config.zookeeper_session_timeout_ms / 1000,
            clock.monotonic,
            connect_timeout_s=config.zookeeper_connection_timeout_ms / 1000,
            boottime=clock.boottime,
            write_bytes_max=config.ottla_zookeeper_write_bytes_max,
            access=config.zookeeper_access,
        )

    closers = trio.CapacityLimiter(_SESSIONS_CLOSED_AT_ONCE)

    async def end_session(key: "SessionKey") -> bool:
        work = partial(close_session, key, clock.monotonic)
        return await trio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=closers)

    return Environment(
        clock=clock,
        disk=RealDisk(),
        open_session=open_session,
        dial=dial_tcp,
        close_session=end_session,
        make_listeners=Listeners,
        offloads=in_threads(),
        offload_abandoned=partial(trio.to_thread.run_sync, abandon_on_cancel=True),
        random=SystemRandom(),
    )
