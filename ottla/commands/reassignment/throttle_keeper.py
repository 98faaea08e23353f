"""The keeper of a throttle: a process that takes it away when the moves are over, whatever became of the command.

`ottla reassign-partitions --execute` starts it, in a session of its own, before it sets the throttle. So neither
Ctrl-C nor a kill of the command leaves a throttle behind, nor lets moves go on without one. It looks once a second
whether moves of its partitions go on. The rates of brokers go when nothing at all is moved any more: another
reassignment may rely on them. One may also begin in the moment in which they go: who begins moves looks afterwards
whether the rate is still there (`ensure_rate`), and a keeper that has taken rates away looks whether moves go on now,
and puts them back.
"""

import json
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from ottla.commands.reassignment.throttle import (
    Throttle,
    clear_rates,
    clear_replicas,
    own_rates,
    restore_rates,
)
from wire.types import TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin import Admin

CALL_TIMEOUT_S: Final = 30.0
LOOK_AGAIN_S: Final = 1.0
PATIENCE_S: Final = 600.0
"""How long a cluster that does not answer is asked again before the keeper ends without having cleared."""


def start_keeper(
    bootstrap_server: str,
    command_config: Path | None,
    partitions: Collection[TopicPartition],
    throttle: Throttle,
) -> "subprocess.Popen[bytes]":
    """Start the keeper of a throttle that is about to be set; it waits for `release_keeper`."""
    keeper = subprocess.Popen(
        [sys.executable, "-m", f"{__package__}.throttle_keeper"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    order = {
        "bootstrap_server": bootstrap_server,
        "command_config": None if command_config is None else str(command_config.absolute()),
        "partitions": sorted(partitions),
        "throttle": throttle.to_text(),
    }
    if keeper.stdin is not None:
        keeper.stdin.write(json.dumps(order).encode() + b"\n")
        keeper.stdin.flush()
    return keeper


def release_keeper(keeper: "subprocess.Popen[bytes]") -> None:
    """Signal the keeper that the moves have begun or were abandoned: it clears the throttle once there are none.

    The end of this process has the same effect.
    """
    if keeper.stdin is not None:
        keeper.stdin.close()


async def keep(
    admin: "Admin",
    partitions: Collection[TopicPartition],
    throttle: Throttle,
    look_again_s: float = LOOK_AGAIN_S,
) -> None:
    """Wait until no move of some partitions goes on, and take their throttle away.

    Cancelled, it may leave the throttle in place.

    Raises:
        ClientError: the cluster refuses.
        BrokerUnreachable: it did not answer for a long time.
    """
    own = set(partitions)
    while True:
        if not own & await _patiently(admin):
            break
        await trio.sleep(look_again_s)
    await clear_replicas(admin, throttle)
    await clear_rates_of_ended_moves(admin, throttle.brokers, look_again_s)


async def clear_rates_of_ended_moves(admin: "Admin", brokers: Collection[int], look_again_s: float) -> None:
    """Take rates away once nothing is moved; what is not set, and is not a second later either, others took away.

    Cancelled, it may leave rates in place.

    Raises:
        ClientError: the cluster refuses.
        BrokerUnreachable: it did not answer for a long time.
    """
    left = set(brokers)
    unset: set[int] = set()
    give_up_at = trio.current_time() + PATIENCE_S
    while True:
        rates = await own_rates(admin, sorted(left))
        if await _patiently(admin):
            unset.clear()
            give_up_at = trio.current_time() + PATIENCE_S
        else:
            found = {broker: own for broker, own in rates.items() if own}
            if found:
                unreached = await clear_rates(admin, found)
                if await _patiently(admin):
                    await restore_rates(admin, found)
                    continue
                left.difference_update(found.keys() - set(unreached))
            none = rates.keys() - found.keys()
            left -= none & unset
            unset |= none
            # A broker that is down keeps its setting until it is back.
            if not left or trio.current_time() > give_up_at:
                return
        await trio.sleep(look_again_s)


async def _patiently(admin: "Admin") -> set[TopicPartition]:
    """Return what is being moved, asked again for a while where the cluster does not answer."""
    from ottla.client.errors import BrokerUnreachable

    with trio.move_on_after(PATIENCE_S):
        while True:
            try:
                return set(await admin.list_reassignments())
            except BrokerUnreachable:
                await trio.sleep(LOOK_AGAIN_S)
    raise BrokerUnreachable("the cluster does not answer")


def main() -> None:
    """Read what to keep, wait until the command has set it up or is gone, and keep it."""
    from ottla.client.kafka import Kafka
    from ottla.commands.terminal.connecting import client_settings, settings_of

    order = json.loads(sys.stdin.readline())
    sys.stdin.read()
    file = order["command_config"]
    settings = client_settings(None if file is None else Path(file))
    connection_settings = settings_of(settings, "ottla-throttle-keeper", CALL_TIMEOUT_S)

    async def run() -> None:
        async with Kafka(order["bootstrap_server"], connection_settings) as kafka:
            partitions = [TopicPartition(topic, number) for topic, number in order["partitions"]]
            await keep(kafka.admin, partitions, Throttle.from_text(order["throttle"]))

    trio.run(run)


if __name__ == "__main__":
    main()
