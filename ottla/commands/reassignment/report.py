"""Tables of a plan, and the line that shows the progress of its moves."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from ottla.commands.inspection.log_dirs import size_text
from ottla.commands.reassignment.directory_moves import MoveState, Replica
from ottla.commands.reassignment.progress import Progress
from ottla.commands.terminal.console import new_table, numbers, open_console
from ottla.placement import Plan
from wire.types import TopicPartition

_ROWS_MAX = 40
"""The most moves shown of a long plan; its JSON has all of them."""


def show_plan(plan: Plan, sizes: Mapping[TopicPartition, int]) -> None:
    """Print what moves, what each broker holds before and after, and how much has to be copied."""
    console = open_console()
    if not plan.after:
        console.print("Nothing has to be moved.")
        return
    table = new_table("Topic", "Partition", "Replicas", "Become", "Copies", "Bytes")
    for shown, (partition, replicas) in enumerate(sorted(plan.after.items())):
        if shown == _ROWS_MAX:
            table.add_row("...", "", "", "", "", "")
            break
        copies = plan.added(partition)
        table.add_row(
            partition.topic,
            str(partition.partition),
            numbers(plan.before[partition]),
            numbers(replicas),
            f"to {numbers(copies)}" if copies else "order only",
            size_text(len(copies) * sizes.get(partition, 0)),
        )
    console.print(table)
    console.print()
    before, after = plan.before.values(), plan.result.values()
    held = [Counter(broker for replicas in each for broker in replicas) for each in (before, after)]
    led = [Counter(replicas[0] for replicas in each if replicas) for each in (before, after)]
    brokers = new_table("Broker", "Replicas", "Leads")
    for broker in sorted({*held[0], *held[1]}):
        brokers.add_row(
            str(broker),
            _change(held[0][broker], held[1][broker]),
            _change(led[0][broker], led[1][broker]),
        )
    console.print(brokers)
    console.print(
        f"\n{len(plan.after)} partitions change, {plan.copies} replicas are copied: "
        f"{size_text(plan.copied_bytes(sizes))}"
    )


def show_directories(moves: Mapping[Replica, MoveState], wanted: Mapping[Replica, str]) -> None:
    """Print which replicas are in their log directories."""
    if not moves:
        return
    table = new_table("Topic", "Partition", "Broker", "Directory", "State")
    for replica, state in sorted(moves.items(), key=lambda item: item[0]):
        colour = {MoveState.DONE: "green", MoveState.MOVING: "yellow"}.get(state, "red")
        table.add_row(
            replica.partition.topic,
            str(replica.partition.partition),
            str(replica.broker),
            wanted[replica],
            f"[{colour}]{state.value}[/{colour}]",
        )
    open_console().print(table)


def directory_rows(
    moves: Mapping[Replica, MoveState], wanted: Mapping[Replica, str]
) -> list[dict[str, object]]:
    """Return the same for programs."""
    return [
        {
            "topic": replica.partition.topic,
            "partition": replica.partition.partition,
            "broker": replica.broker,
            "directory": wanted[replica],
            "state": state.value,
        }
        for replica, state in sorted(moves.items(), key=lambda item: item[0])
    ]


def _change(before: int, after: int) -> str:
    return str(after) if before == after else f"{before} → {after}"


@contextmanager
def progress_line(*, quiet: bool) -> Iterator[Callable[[Progress], None]]:
    """Return what shows progress: a line that changes on a terminal, a line each time one is done elsewhere."""
    if quiet:
        yield lambda _: None
        return
    console = open_console()
    if not console.is_terminal:
        shown = -1

        def tell(progress: Progress) -> None:
            nonlocal shown
            if progress.done != shown:
                shown = progress.done
                console.print(progress.text())

        yield tell
        return
    with console.status("beginning") as status:
        yield lambda progress: status.update(progress.text())
