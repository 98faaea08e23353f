"""Groups of foreign clients: their members as processes, what they report, and whether a group may do that."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

HERE = Path(__file__).parent
SETTLE_S = 60.0
_KCAT_ASSIGNMENT = re.compile(r"% Group \S+ rebalanced.*?(assign|revoke)[^:]*:(.*)")
_KCAT_PARTITION = re.compile(r"\[(\d+)\]")


@dataclass(frozen=True)
class Happened:
    """An event that a member reported."""

    member: str
    event: str
    at: float
    what: Mapping[str, Any]


@dataclass
class Ownership:
    """One member's ownership of a partition, from one moment to another."""

    member: str
    partition: int
    generation: int | None
    begin: float
    end: float | None = None


class Member:
    """A member of a group: a process, and the thread that listens to it."""

    def __init__(self, name: str, group: "Group", command: Sequence[str], *, kcat: bool) -> None:
        self.name = name
        self.group = group
        self.was_stopped = False
        self.is_gone = False
        self._errors = (group.directory / f"{name}.log").open("w+")
        self._process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if kcat else self._errors,
            text=True,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )
        listeners = [self._listen_to_kcat, self._listen_to_kcats_consumer] if kcat else [self._listen]
        self._threads = [threading.Thread(target=each, daemon=True) for each in listeners]
        for thread in self._threads:
            thread.start()

    def leave(self) -> None:
        """Make it leave cleanly. kcat cannot: when stopped it drops the message that it handles, and commits it."""
        if self.group.client == "kcat":
            self.kill()
            return
        self.is_gone = True
        self._process.terminate()
        assert self._process.wait(60) in (0, 143), self._errors.name

    def kill(self) -> None:
        """Kill it, as a crash would."""
        self.is_gone = True
        self._process.kill()
        self._process.wait(60)
        self.group.say(Happened(self.name, "killed", time.monotonic(), {}))

    def stop(self) -> None:
        """Pause it, heartbeats included."""
        self.was_stopped = True
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Resume it."""
        self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """Clean up, whatever state it is in."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(60)
        for thread in self._threads:
            thread.join()
        for stream in (self._process.stdout, self._process.stderr, self._errors):
            if stream is not None:
                stream.close()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said = json.loads(line)
            self.group.say(Happened(self.name, said.pop("event"), said.pop("at"), said))

    def _listen_to_kcat(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            found = _KCAT_ASSIGNMENT.match(line)
            if found is not None:
                partitions = [int(number) for number in _KCAT_PARTITION.findall(found[2])]
                what = {"partitions": partitions}
                event = "assigned" if found[1] == "assign" else "revoked"
                self.group.say(Happened(self.name, event, time.monotonic(), what))

    def _listen_to_kcats_consumer(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            partition, offset = map(int, line.split())
            what = {"partition": partition, "offsets": [offset]}
            self.group.say(Happened(self.name, "consumed", time.monotonic(), what))


@dataclass
class Group:
    """A group of one kind of client on one topic.

    Attributes:
        bootstrap: The brokers.
        group_id: The group.
        topic: What it reads.
        client: Which client its members are.
        strategy: How they assign.
        directory: The folder for their errors.
        java: How to run the Java member.
    """

    bootstrap: str
    group_id: str
    topic: str
    client: str
    strategy: str
    directory: Path
    java: Sequence[str] = ()
    session_ms: int = 2_000
    history: list[Happened] = field(default_factory=list)
    members: dict[str, Member] = field(default_factory=dict)
    _news: threading.Condition = field(default_factory=threading.Condition)

    def __enter__(self) -> "Group":
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.members.values():
            member.close()

    def say(self, happened: Happened) -> None:
        """Add an event of a member."""
        with self._news:
            self.history.append(happened)
            self._news.notify_all()

    def start(self, *names: str, static: bool = False) -> None:
        """Start members."""
        for name in names:
            if name in self.members:
                self.members[name].close()
            command = self._command(name if static else None)
            kcat = self.client == "kcat"
            self.members[name] = Member(f"{self.group_id}-{name}", self, command, kcat=kcat)

    def _command(self, instance: str | None) -> list[str]:
        session = str(self.session_ms)
        if self.client == "java":
            instances = [] if instance is None else [instance]
            return [*self.java, self.bootstrap, self.group_id, self.topic, self.strategy, session, *instances]
        if self.client == "kcat":
            settings = {
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": "100",
                "session.timeout.ms": session,
                "heartbeat.interval.ms": str(self.session_ms // 5),
                "partition.assignment.strategy": self.strategy,
                "topic.metadata.refresh.interval.ms": "500",
                "fetch.wait.max.ms": "50",
                "reconnect.backoff.max.ms": "200",
            }
            settings_given = [part for item in settings.items() for part in ("-X", "=".join(item))]
            return [
                *("kcat", "-b", self.bootstrap, "-G", self.group_id, "-u", "-f", "%p %o\n"),
                *settings_given,
                self.topic,
            ]
        return [
            *(sys.executable, str(HERE / "member_process.py"), "--client", self.client),
            *("--bootstrap", self.bootstrap, "--group", self.group_id, "--topic", self.topic),
            *("--strategy", self.strategy, "--session-ms", session),
            *(() if instance is None else ("--instance", instance)),
        ]

    # What has happened

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until a condition on the events so far holds; check it at each new event."""
        with self._news:
            held = self._news.wait_for(condition, SETTLE_S)
            assert held, f"{self.group_id}: not {what}: {self.owned()}, last {self.history[-12:]}"

    def ownerships(self) -> list[Ownership]:
        """Return who had which partition, and from when to when."""
        found: list[Ownership] = []
        present: dict[tuple[str, int], Ownership] = {}
        for happened in sorted(self.history, key=lambda each: each.at):
            name = happened.member
            if happened.event == "assigned":
                for partition in happened.what["partitions"]:
                    if (name, partition) not in present:
                        generation = happened.what.get("generation")
                        owned = Ownership(name, partition, generation, happened.at)
                        found.append(owned)
                        present[name, partition] = owned
            elif happened.event in ("revoked", "lost"):
                for partition in happened.what["partitions"]:
                    owned = present.pop((name, partition), None)
                    if owned is not None:
                        owned.end = happened.at
            elif happened.event in ("closed", "killed"):
                for key in [key for key in present if key[0] == name]:
                    present.pop(key).end = happened.at
        return found

    def owned(self) -> dict[str, set[int]]:
        """Return what each member that is still there owns now."""
        now: dict[str, set[int]] = {
            member.name: set() for member in self.members.values() if not member.is_gone
        }
        for ownership in self.ownerships():
            if ownership.end is None and ownership.member in now:
                now[ownership.member].add(ownership.partition)
        return now

    def wait_settled(self, partitions: int, *names: str) -> None:
        """Wait until these members (all that are there, if none is named) share all partitions among them."""
        wanted = {f"{self.group_id}-{name}" for name in names}

        def settled() -> bool:
            owned = {name: parts for name, parts in self.owned().items() if not wanted or name in wanted}
            every = [partition for parts in owned.values() for partition in parts]
            return all(owned.values()) and sorted(every) == list(range(partitions))

        self.wait(settled, f"settled with {sorted(wanted)} on {partitions} partitions")

    def consumed(self) -> dict[int, set[int]]:
        """Return the offsets that were consumed, by partition."""
        found: dict[int, set[int]] = {}
        for happened in tuple(self.history):
            if happened.event == "consumed":
                found.setdefault(happened.what["partition"], set()).update(happened.what["offsets"])
        return found

    def wait_consumed(self, ends: Mapping[int, int]) -> None:
        """Wait until every partition is consumed to its end."""
        whole = {partition: set(range(end)) for partition, end in ends.items() if end}

        def done() -> bool:
            consumed = self.consumed()
            return all(consumed.get(partition, set()) >= offsets for partition, offsets in whole.items())

        self.wait(
            done, f"at the ends {dict(ends)}, but at { ({p: len(o) for p, o in self.consumed().items()}) }"
        )

    def check(self) -> None:
        """Check that no partition was ever owned by two members of a generation, or by two running members at once."""
        stopped = {member.name for member in self.members.values() if member.was_stopped}
        for one, other in combinations(self.ownerships(), 2):
            if one.partition != other.partition or one.member == other.member:
                continue
            if one.generation is not None and one.generation >= 0:
                assert one.generation != other.generation, f"{one} and {other}"
            if self.client == "kcat" or {one.member, other.member} & stopped:
                # The times that kcat reports are not exact; a paused member did not know that it had lost everything.
                continue
            first, second = sorted((one, other), key=lambda each: each.begin)
            assert first.end is not None, f"{first} was never given up, {second}"
            assert first.end <= second.begin, f"{first} overlaps {second}"


class Load:
    """Produces at a modest rate until it is stopped, and counts what was acknowledged."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.ends: dict[int, int] = {}
        self._topic = topic
        self._enough = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "topic.metadata.refresh.interval.ms": 500,
                "retry.backoff.ms": 50,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        self._errors: list[str] = []
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> dict[int, int]:
        """Stop producing, and return each partition's end."""
        self._enough.set()
        self._thread.join()
        assert not self._errors, self._errors
        return self.ends

    def _run(self) -> None:
        number = 0
        while not self._enough.wait(0.02):
            for _ in range(10):
                number += 1
                self._producer.produce(
                    self._topic, b"%d" % number, b"%d" % number, on_delivery=self._delivered
                )
            self._producer.poll(0)
        self._producer.flush(60)

    def _delivered(self, error, message) -> None:
        if error is not None:
            self._errors.append(str(error))
            return
        partition = message.partition()
        self.ends[partition] = max(self.ends.get(partition, 0), message.offset() + 1)


class CommitWatch:
    """Polls the committed offsets of groups, which must never go back."""

    def __init__(self, bootstrap: str, groups: Sequence[Group], partitions: int) -> None:
        self._group_ids = [group.group_id for group in groups]
        # Consumers that never subscribe: they ask, and follow the coordinator when it moves.
        self._askers = [
            Consumer(
                {
                    "bootstrap.servers": bootstrap,
                    "group.id": group_id,
                    "reconnect.backoff.max.ms": 200,
                    "log_level": 0,
                }
            )
            for group_id in self._group_ids
        ]
        self._asked = [TopicPartition(groups[0].topic, partition) for partition in range(partitions)]
        self._seen: dict[tuple[str, int], int] = {}
        self._faults: list[str] = []
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "CommitWatch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        self._thread.join()
        for asker in self._askers:
            asker.close()

    def check(self) -> None:
        """Fail if any offset went back."""
        assert not self._faults, self._faults
        assert self._seen, "no committed offset was ever seen"

    def wait_at(self, ends: Mapping[int, int]) -> None:
        """Wait until every group has committed the ends."""
        deadline = time.monotonic() + SETTLE_S
        wanted = {(group_id, p): end for group_id in self._group_ids for p, end in ends.items()}
        while not all(self._seen.get(key, 0) >= end for key, end in wanted.items()):
            assert time.monotonic() < deadline, (self._seen, wanted)
            self._enough.wait(0.05)

    def _run(self) -> None:
        while not self._enough.wait(0.2):
            for group_id, asker in zip(self._group_ids, self._askers, strict=True):
                try:
                    found = asker.committed(self._asked, timeout=5)
                except KafkaException:
                    continue  # the coordinator is gone for the moment
                for each in found:
                    self._take(group_id, each)

    def _take(self, group_id: str, found: TopicPartition) -> None:
        before = self._seen.get((group_id, found.partition), 0)
        now = max(found.offset, 0)  # nothing committed counts as the beginning
        if now < before and found.error is None:
            self._faults.append(f"{group_id} {found.partition}: {now} after {before}")
        self._seen[group_id, found.partition] = now
