"""How long nothing is acknowledged when hosts die or brokers hang, and whether a living one is ever taken for dead.

    python -m bench.dead_hosts [--place processes,secured,hosts,containers] [--rounds 10] [--harm ...]

Three brokers, one partition with three replicas, and two idempotent producers with acks=all that send every few
milliseconds, librdkafka's and ours. For a death, measured is the longest pause between two acknowledgements, from
before the harm until a second after the partition is led again; `led` is when a living broker leads and one is the
controller.

    leader, controller, both       die with their guardians; their machines end their connections
    leader-cut, controller-cut     are cut off from the network first, so that nothing tells of it
    process                        the leader dies, and its guardian lives: what there is to come close to
    hung, blocked, frozen          the leader's process is stopped; its loop stands still; its disk answers nothing
    paused, slow, one-way, loss    a broker lives, and keeps its session
    busy, loading                  all live, with all the load they take, or a thousand partitions that come and go

Places: processes of this machine; the same with TLS and passwords; hosts in network namespaces (root); the containers
of deploy/docker-compose.yml (a Docker engine). What a place cannot do is left out there.
"""

import argparse
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from bench.dead_hosts.places import BROKERS, SESSION_TIMEOUT_MS, Containers, Hosts, Place, Processes, Roles
from bench.dead_hosts.producers import TOPIC, LibrdkafkaProducer, OttlaProducer, SteadyProducer, pass_time

HARMED_S: Final = 2.0
"""How long a broker is paused, slow, or on a bad network."""
BUSY_S: Final = 10.0
REQUEST_TIMEOUT_S: Final = 0.5
"""How long clients let a request hang: where no event reports a cut, only this time-out does."""

_DEATHS: Final = ("process", "leader", "controller", "both", "leader-cut", "controller-cut")
_HANGS: Final = ("hung", "blocked", "frozen")
_LIVING: Final = ("paused", "slow", "one-way", "loss", "busy", "loading")
_CAN: Final = {
    "processes": ("process", "leader", "controller", "both", *_HANGS, "paused", "slow", "busy", "loading"),
    "secured": ("leader", "controller", "both", "paused", "slow"),
    "hosts": ("leader", "controller", "both", "leader-cut", "controller-cut", *_LIVING[:4]),
    "containers": ("leader", "controller", "both"),
}


def death(place: Any, harm: str, producers: Sequence[SteadyProducer]) -> list[float]:
    """Let brokers die or hang, and mend them; return the longest pause of each producer, in seconds. After a death, the
    time until others led comes first.
    """
    roles = place.settled()
    dying = _dying(harm, roles, place.brokers)
    for each in producers:
        each.acknowledged.wait_more(50)
    began = time.monotonic()
    if harm == "process":
        os.kill(place.pids(roles.leader)[1], signal.SIGKILL)
    elif harm in _HANGS:
        {"hung": place.hang, "blocked": place.block, "frozen": place.freeze_disk}[harm](roles.leader)
    elif harm.endswith("-cut"):
        place.cut(*dying)
    else:
        place.kill(*dying)
    place.wait_led_without(dying)
    led_s = time.monotonic() - began
    for each in producers:
        each.acknowledged.wait_more(20)
    pass_time(1.0)
    pauses = [each.acknowledged.longest_pause_s(began) for each in producers]
    place.mend(*dying)
    # After a hang `led_s` is too long: the hung broker is asked too, and does not answer.
    return pauses if harm in _HANGS else [led_s, *pauses]


def survival(place: Any, harm: str, turn: int) -> int:
    """Harm a live broker, each in its turn; return how many lost their sessions, or were found to hang."""
    before, alarms = place.lives(), place.alarms()
    harms: dict[str, Callable[[int, float], None]] = {
        "paused": place.pause,
        "slow": place.slow,
        "one-way": getattr(place, "cut_one_way", place.pause),
        "loss": getattr(place, "lose_packets", place.pause),
        "busy": getattr(place, "busy", place.pause),
        "loading": getattr(place, "load", place.pause),
    }
    victim = place.brokers[turn % BROKERS]
    harms[harm](victim, HARMED_S if harm != "busy" else BUSY_S)
    pass_time(1.0)
    after = place.lives()
    if harm == "loading":
        before[victim] = after[victim]  # it was restarted on purpose
    lost = [broker for broker in before if before[broker] != after[broker]]
    return len(lost) + int(place.alarms()) - int(alarms)


def _dying(harm: str, roles: Roles, brokers: Sequence[int]) -> list[int]:
    if harm.startswith("controller"):
        return [roles.controller]
    if harm != "both":
        return [roles.leader]
    others = [each for each in brokers if each != roles.leader]
    return [roles.leader, roles.controller if roles.controller in others else others[0]]


@contextmanager
def _place(name: str, settings: dict[str, str]) -> Iterator[Place]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        data = Path(folder)
        place: Place
        if name == "containers":
            place = Containers()
        elif name == "hosts":
            place = Hosts(data, settings)
        else:
            place = Processes(data, settings, secure=name == "secured")
        try:
            admin = AdminClient(
                {"bootstrap.servers": place.bootstrap, "log_level": 0, **place.client_settings}, logger=None
            )
            admin.create_topics([NewTopic(TOPIC, 1, BROKERS, config={"min.insync.replicas": "1"})])[
                TOPIC
            ].result()
            yield place
        finally:
            place.down()


def measure(name: str, harms: Sequence[str], rounds: int, settings: dict[str, str], seconds: float) -> None:
    """Harm one place in every way it can, and print a line for each."""
    with _place(name, settings) as place, ExitStack() as stack:
        made: list[SteadyProducer] = [
            LibrdkafkaProducer(place.bootstrap, REQUEST_TIMEOUT_S, place.client_settings)
        ]
        if not place.client_settings:
            made.append(OttlaProducer(place.bootstrap, REQUEST_TIMEOUT_S))
        producers = [stack.enter_context(each) for each in made]
        for each in producers:
            each.acknowledged.wait_more(50)
        until = time.monotonic() + seconds
        for harm in harms:
            if harm not in _CAN[name]:
                continue
            measured: list[list[float]] = []
            lost = count = 0
            while count < rounds and time.monotonic() < until:
                if harm in _LIVING:
                    lost += survival(place, harm, count)
                else:
                    measured.append(death(place, harm, producers))
                count += 1
            if count:
                columns = [*([] if harm in _HANGS else ["led"]), *(each.name for each in producers)]
                _print(name, harm, count, lost, measured, columns)


def _print(
    name: str, harm: str, count: int, lost: int, measured: list[list[float]], columns: list[str]
) -> None:
    line = f"| {name} | {harm} | {count} | "
    if harm in _LIVING:
        line += f"{lost} taken for dead |"
    else:
        texts = []
        for column, values in zip(columns, zip(*measured, strict=True), strict=True):
            texts.append(f"{column} {statistics.median(values):.2f} s, worst {max(values):.2f} s")
        line += " | ".join(texts) + " |"
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--place", default="processes,secured,hosts,containers")
    parser.add_argument("--harm", default=",".join((*_DEATHS, *_HANGS, *_LIVING)))
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument(
        "--seconds", type=float, default=1e9, help="begin no round after so many seconds in a place"
    )
    parser.add_argument("--peer-timeout-ms", type=int, default=1000)
    parser.add_argument("--hang-timeout-ms", type=int, default=5000)
    arguments = parser.parse_args()
    settings = {
        "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
        "ottla.peer.timeout.ms": str(arguments.peer_timeout_ms),
        "ottla.hang.timeout.ms": str(arguments.hang_timeout_ms),
        "auto.leader.rebalance.enable": "false",
    }
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what it started goes with it
    for name in arguments.place.split(","):
        measure(name, arguments.harm.split(","), arguments.rounds, dict(settings), arguments.seconds)


if __name__ == "__main__":
    main()
