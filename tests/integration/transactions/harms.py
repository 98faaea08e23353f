"""What is done to a cluster, and to its copiers, while they work. Each harm is over when it returns."""

import os
import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from ottla.testing import Cluster
from tests.integration.transactions.watched_copier import WatchedCopier
from tests.patience import until

SESSION_S = 4.0
CRASH_POINTS = (
    "ongoing_appended",
    "commit_appended",
    "abort_appended",
    "commit_replicated",
    "first_marker_written",
    "last_marker_written",
    "complete_appended",
    "marker_appended",
    "abort_marker_without_index",
    "offsets_held",
    "offsets_appended",
)
"""Of crashing/sitecustomize.py."""
_CRASHING = Path(__file__).with_name("crashing")
_CRASH_DIRECTORY = "CRASH_DIRECTORY"
Harm = Callable[[Cluster, Sequence[WatchedCopier], random.Random], None]


def kill(cluster: Cluster, copiers: Sequence[WatchedCopier], chance: random.Random) -> None:
    """Kill a broker, and start it again."""
    victim = any_broker(cluster, chance)
    cluster.kill(victim)
    cluster.start(victim)


def kill_host(cluster: Cluster, copiers: Sequence[WatchedCopier], chance: random.Random) -> None:
    """Kill a broker together with the process that would close its session."""
    victim = any_broker(cluster, chance)
    cluster.kill(victim, host=True)
    rest(chance.uniform(0, 1.5 * SESSION_S))
    cluster.start(victim)


def kill_controller(cluster: Cluster, copiers: Sequence[WatchedCopier], chance: random.Random) -> None:
    """Kill the controller, and start it again."""
    victim = cluster.wait(lambda seen: seen.controller_id >= 0).controller_id
    cluster.kill(victim, host=chance.random() < 0.5)
    cluster.start(victim)


def kill_all(cluster: Cluster, copiers: Sequence[WatchedCopier], chance: random.Random) -> None:
    """Kill every broker at once, and start them again."""
    victims = [each["id"] for each in cluster.describe_file()["brokers"]]
    cluster.kill(*victims, host=True)
    cluster.start(*victims)


def pause(cluster: Cluster, copiers: Sequence[WatchedCopier], chance: random.Random) -> None:
    """SIGSTOP a broker for less than its session, or for longer, so that it wakes up as a zombie."""
    pid = cluster.broker(any_broker(cluster, chance))["pid"]
    os.kill(pid, signal.SIGSTOP)
    rest(chance.uniform(0.2, 2.5 * SESSION_S))
    os.kill(pid, signal.SIGCONT)


def restart(cluster: Cluster, copiers: Sequence[WatchedCopier], chance: random.Random) -> None:
    """Stop a broker by a controlled shutdown, and start it again."""
    victim = any_broker(cluster, chance)
    cluster.stop(victim)
    cluster.start(victim)


def kill_copier(cluster: Cluster, copiers: Sequence[WatchedCopier], chance: random.Random) -> None:
    """Kill a copier, and replace it at once, while its transaction is open."""
    chance.choice(copiers).replace()


@contextmanager
def crash_points(directory: Path) -> Iterator[None]:
    """Let brokers that are started in this block die where `crash` arms a point.

    Args:
        directory: The folder in which points are armed; it is created.
    """
    directory.mkdir()
    before = {name: os.environ.get(name) for name in (_CRASH_DIRECTORY, "PYTHONPATH")}
    os.environ |= {_CRASH_DIRECTORY: str(directory), "PYTHONPATH": str(_CRASHING)}
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def crash(point: str, cluster: Cluster, copiers: Sequence[WatchedCopier], chance: random.Random) -> None:
    """Make the first broker that reaches a point of a transaction kill itself there; start it again.

    Raises:
        AssertionError: no broker reached the point.
    """
    armed = Path(os.environ[_CRASH_DIRECTORY]) / point
    brokers = {each["pid"]: each["id"] for each in cluster.describe_file()["brokers"]}
    armed.touch()

    def fired() -> list[Path]:
        # A copier that hangs in its client has to be replaced, or no broker ever reaches the point.
        for each in copiers:
            each.watch()
        return list(armed.parent.glob(f"{point}.*"))

    try:
        until(fired)
    except AssertionError as failure:
        armed.unlink()
        failure.add_note(f"no broker came to {point}: {[each.describe() for each in copiers]}")
        raise
    (left,) = fired()
    left.unlink()
    pid = int(left.suffix[1:])
    until(lambda: not Path(f"/proc/{pid}").exists())
    cluster.start(brokers[pid])


HARMS: dict[str, Harm] = {
    **{
        harm.__name__: harm
        for harm in (kill, kill_host, kill_controller, kill_all, pause, restart, kill_copier)
    },
    **{f"crash:{point}": partial(crash, point) for point in CRASH_POINTS},
}


def any_broker(cluster: Cluster, chance: random.Random) -> int:
    """Choose a broker."""
    return int(chance.choice(cluster.describe_file()["brokers"])["id"])


def rest(seconds: float) -> None:
    """Let a harm last."""
    time.sleep(seconds)  # noqa: TID251  # a fault has a duration, and there is no event to wait for
