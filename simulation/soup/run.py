"""One run, from its plan to its outcome."""

import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final
from zlib import crc32

import trio
import trio.testing

from simulation.deterministic import run_deterministically
from simulation.soup.checks import Watcher, check_end, is_billed
from simulation.soup.clients import MEMBER_NAMES, PRODUCER_NAMES, Ledger, Sending, audit, copy, read
from simulation.soup.faults import FAULTS
from simulation.soup.operations import OPERATIONS
from simulation.soup.plan import ORDERS_PARTITIONS, Happening, Plan
from simulation.soup.violation import Violation
from simulation.soup.world import BILLS, BILLS_PARTITIONS, ORDERS, World
from wire.errors import Error
from wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

LOOK_EVERY_S: Final = 0.1
HEALED_WITHIN_S: Final = 120.0
ENDED_WITHIN_S: Final = 240.0
_STARTS_MAX: Final = 30
CALM_S: Final = 2.0
"""How long producers go on after everything has healed, in seconds."""


@dataclass(slots=True)
class Outcome:
    """The outcome of a run.

    Attributes:
        plan: The run.
        violation: What did not hold, in a line; empty where everything did.
        kind: The violated invariant's number, or a word.
        trace: Where it was found, for a bug.
        seconds: How long the run took in the simulation's time.
        acknowledged: How many records were acknowledged.
        seen: How often each kind of fault and operation was carried out, and of other things that the run met.
        log: The story: what happened when.
        digest: A number that is equal in all runs of one plan.
    """

    plan: Plan
    violation: str = ""
    kind: str = ""
    trace: str = ""
    seconds: float = 0.0
    acknowledged: int = 0
    seen: Counter[str] = field(default_factory=Counter)
    log: list[tuple[float, str]] = field(default_factory=list)
    digest: int = 0


def run_plan(plan: Plan) -> Outcome:
    """Carry out a plan, and return its outcome."""
    run = Run(plan)
    outcome = run.outcome
    try:
        run_deterministically(run.main, plan.seed)
    except* Violation as found:
        first = _first(found)
        outcome.violation, outcome.kind = str(first), getattr(first, "invariant", "")
    except* trio.TooSlowError:
        outcome.kind, outcome.violation = "hang", f"hang: {run.waiting_for}{run.missing}"
    except* Exception as bug:  # noqa: BLE001 - a bug is an outcome
        first = _first(bug)
        outcome.kind = f"bug {type(first).__name__}"
        outcome.violation = f"bug: {type(first).__name__}: {first}"
        outcome.trace = "".join(traceback.format_exception(first))
    return outcome


def _first(group: BaseException) -> BaseException:
    while isinstance(group, BaseExceptionGroup):
        group = group.exceptions[0]
    return group


class Run:
    """One run.

    Args:
        plan: What is to happen.

    Attributes:
        outcome: Its outcome so far.
        waiting_for: The condition it waits for, for the text of a hang.
        missing: What the cluster lacked then.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.outcome = Outcome(plan)
        self.waiting_for = ""
        self.missing = ""
        self._world = World(plan)
        self._ledger = Ledger()
        self._senders_left = len(PRODUCER_NAMES)
        self._watcher = Watcher(self._world)
        self.outcome.log = self._world.log

    async def main(self) -> None:
        """Start the cluster, let everything happen, heal it, and check the result.

        Raises:
            Violation: something does not hold.
            trio.TooSlowError: what `waiting_for` says does not come about.
        """
        cluster = self._world.cluster
        async with trio.open_nursery() as nursery:
            await nursery.start(cluster.run)
            await self._prepare()
            cluster.ensemble.on_write = self._watcher.written
            nursery.start_soon(self._watch)
            async with trio.open_nursery() as clients:
                await self._mix(clients)
                await self._heal(clients)
                await self._finish()
                clients.cancel_scope.cancel()
            check_end(self._world, self._ledger)
            self._conclude()
            nursery.cancel_scope.cancel()

    async def _prepare(self) -> None:
        world = self._world
        await world.cluster.start()
        await self._wait("the first controller", world.is_whole, HEALED_WITHIN_S)
        topics = [
            CreatableTopic(name=ORDERS, num_partitions=ORDERS_PARTITIONS, replication_factor=3),
            CreatableTopic(name=BILLS, num_partitions=BILLS_PARTITIONS, replication_factor=3),
        ]
        response = await world.ask_controller(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 5)
        if response is None or any(each.error_code != Error.NONE for each in response.topics):
            raise Violation("I12", f"topics cannot be created in a cluster without faults: {response}")
        await self._wait("the first leaders", world.is_whole, HEALED_WITHIN_S)
        world.begin()

    async def _mix(self, clients: trio.Nursery) -> None:
        """Let clients work while everything happens, until the time of faults is over."""
        world, ledger = self._world, self._ledger
        for name in PRODUCER_NAMES:
            clients.start_soon(self._send, Sending(world, ledger, name), name=f"producer {name}")
        for name in MEMBER_NAMES:
            clients.start_soon(copy, world, ledger, name, name=f"copier {name}")
            clients.start_soon(read, world, ledger, name, name=f"reader {name}")
        clients.start_soon(audit, world, ledger, name="auditor")
        with trio.move_on_after(self.plan.seconds):
            async with trio.open_nursery() as happenings:
                for each in self.plan.happenings:
                    happenings.start_soon(self._carry_out, each, name=str(each))
                happenings.start_soon(trio.sleep_forever)

    async def _carry_out(self, happening: Happening) -> None:
        await trio.sleep(happening.at)
        self._world.under_way += 1
        self.outcome.seen[happening.kind] += 1
        try:
            action = (FAULTS.get(happening.kind) or OPERATIONS[happening.kind])[0]
            await action(self._world, happening)
        finally:
            self._world.under_way -= 1

    async def _send(self, sender: Sending) -> None:
        await sender.run()
        self._senders_left -= 1

    async def _heal(self, clients: trio.Nursery) -> None:
        world = self._world
        world.note("everything is healed")
        world.cluster.heal()
        clients.start_soon(self._keep_up)
        await self._wait(
            "every partition led, with all its replicas in sync", world.is_whole, HEALED_WITHIN_S
        )
        world.note("the cluster is whole")

    async def _keep_up(self) -> None:
        """Start every broker that does not run, those included whose shutdown was under way when all was healed."""
        world = self._world
        failures: Counter[int] = Counter()
        while True:
            for number in world.broker_ids:
                machine = world.machine(number)
                if machine.broker is not None:
                    continue
                world.note(f"broker {number} is started")
                await world.cluster.start(number)
                failures[number] += machine.broker is None
                if failures[number] == _STARTS_MAX:
                    raise Violation("I12", f"broker {number} does not start: {machine.failure}")
            await trio.sleep(LOOK_EVERY_S)

    async def _finish(self) -> None:
        world = self._world
        before = len(self._ledger.acknowledged)
        await trio.sleep(CALM_S)
        await self._wait(
            "records acknowledged by a cluster that is whole",
            lambda: len(self._ledger.acknowledged) > before,
            ENDED_WITHIN_S,
        )
        self._ledger.stopping = True
        await self._wait("the producers' outcomes", lambda: self._senders_left == 0, ENDED_WITHIN_S)
        await self._wait("every order billed", partial(is_billed, world), ENDED_WITHIN_S)
        await self._wait("the cluster whole in the end", world.is_whole, HEALED_WITHIN_S)

    async def _wait(self, what: str, condition: Callable[[], bool], timeout_s: float) -> None:
        self.waiting_for = f"not within {timeout_s:g} s: {what}"
        try:
            await self._world.cluster.wait(condition, timeout_s)
        except trio.TooSlowError:
            missing = self._world.what_is_missing()
            self.missing = f"; {missing}" if missing else ""
            raise

    async def _watch(self) -> None:
        while True:
            await trio.sleep(LOOK_EVERY_S)
            self._watcher.look()

    def _conclude(self) -> None:
        outcome, ledger = self.outcome, self._ledger
        outcome.seconds = trio.current_time()
        outcome.acknowledged = len(ledger.acknowledged)
        outcome.seen["a client began anew"] = ledger.failures
        outcome.seen["epochs of leaders"] = self._watcher.leaderships
        outcome.seen["controllers"] = self._watcher.controllers
        outcome.digest = crc32(repr(sorted(ledger.acknowledged.items())).encode())
