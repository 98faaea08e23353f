"""Brokers on real logs in temporary directories."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio

from storage.log_config import LogConfig
from tests.unit.coordinator.in_memory import OneLogReplicas, run
from tests.unit.coordinator.one_broker import Broker


@pytest.fixture
def on_a_log(tmp_path: Path):
    """Run a test's body with a broker whose log is in a temporary directory."""

    def start(
        body: Callable[[Broker], Awaitable[None]], config: LogConfig | None = None, **settings: int
    ) -> None:
        async def main() -> None:
            async with trio.open_nursery() as nursery:
                broker = Broker(OneLogReplicas(tmp_path / "data", config), nursery, **settings)
                await body(broker)
                nursery.cancel_scope.cancel()

        run(main)

    return start
