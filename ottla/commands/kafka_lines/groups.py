"""The lines of kafka-consumer-groups."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from wire.errors import Error
from wire.types import Offset, TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin import Broker, GroupDescription, ListedGroup
    from ottla.commands.groups.positions import PositionRow

_WIDTH: Final = 15
_REBALANCING: Final = frozenset({"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"})


def state_note(group: "GroupDescription") -> tuple[str | None, str | None]:
    """Return what is noted of a group before its table: on stdout, and on stderr."""
    if group.state == "Dead":
        return f"\nError: Consumer group '{group.group_id}' does not exist.", None
    if group.state == "Empty":
        return None, f"\nConsumer group '{group.group_id}' has no active members."
    if group.state in _REBALANCING:
        return None, f"\nWarning: Consumer group '{group.group_id}' is rebalancing."
    return None, None


def listing_lines(groups: Sequence["ListedGroup"], *, types: bool, states: bool) -> Iterator[str]:
    """Yield the table of groups with their types, states, or both."""
    width = max([_WIDTH, *(len(group.group_id) for group in groups)]) + 10
    rows = [("GROUP", "TYPE", "STATE")]
    # A broker of 3.9 without the type of a group has classic ones only.
    rows += [(each.group_id, (each.group_type or "classic").capitalize(), each.state) for each in groups]
    for name, kind, state in rows:
        line = name.ljust(width)
        line += f" {kind.ljust(20)}" if types else ""
        line += f" {state.ljust(20)}" if states else ""
        yield line


def position_lines(rows: Sequence["PositionRow"]) -> Iterator[str]:
    """Yield a group's partitions: those of its members, the largest share first, then those without a member."""
    if not rows:
        return
    owned: dict[str, int] = {}
    for row in rows:
        if row.member is not None:
            owned[row.member.member_id] = owned.get(row.member.member_id, 0) + 1

    def rank(row: "PositionRow") -> tuple[int, str, str, int]:
        if row.member is None:
            return (1, "", row.topic, row.partition)
        return (-owned[row.member.member_id], row.member.member_id, row.topic, row.partition)

    cells = [
        (
            "GROUP",
            "TOPIC",
            "PARTITION",
            "CURRENT-OFFSET",
            "LOG-END-OFFSET",
            "LAG",
            "CONSUMER-ID",
            "HOST",
            "CLIENT-ID",
        )
    ]
    cells += [
        (
            row.group,
            row.topic,
            str(row.partition),
            _text(row.current_offset),
            _text(row.log_end_offset),
            _text(row.lag),
            row.member.member_id if row.member else "-",
            row.member.host if row.member else "-",
            row.member.client_id if row.member else "-",
        )
        for row in sorted(rows, key=rank)
    ]
    fixed = {2: 10, 3: _WIDTH, 4: _WIDTH, 5: _WIDTH, 8: 0}
    yield ""
    yield from _columns(cells, fixed)


def member_lines(group: "GroupDescription", *, verbose: bool) -> Iterator[str]:
    """Yield a group's members; ``verbose`` adds the partitions of each, topic by topic, without the topics' names."""
    has_static = any(member.instance_id for member in group.members)
    rows = [("GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS", "ASSIGNMENT")]
    rows += [
        (
            group.group_id,
            each.member_id,
            each.instance_id or "",
            each.host,
            each.client_id,
            str(len(each.assignment)),
            _assignment(each.assignment),
        )
        for each in group.members
    ]
    widths = [max([17 if at == 2 else _WIDTH, *(len(row[at]) for row in rows[1:])]) for at in range(5)]
    yield ""
    for row in rows:
        shown = [at for at in range(5) if at != 2 or has_static]
        line = " ".join(row[at].ljust(widths[at]) for at in shown) + f" {row[5].ljust(_WIDTH)} "
        yield line + row[6] if verbose else line


def state_lines(group: "GroupDescription", coordinator: "Broker") -> Iterator[str]:
    """Yield a group's coordinator, assignor, state and size."""
    where = f"{coordinator.host}:{coordinator.port}  ({coordinator.broker_id})"
    width = max(25, len(where))
    rows = [
        ("GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS"),
        (group.group_id, where, group.protocol, group.state, str(len(group.members))),
    ]
    yield ""
    for row in rows:
        yield f"{row[0].ljust(width)} {row[1].ljust(25)} {row[2].ljust(20)} {row[3].ljust(15)} {row[4]}"


def reset_lines(resets: Mapping[str, Mapping[TopicPartition, Offset]]) -> Iterator[str]:
    """Yield where each group is set. Kafka 3.9 puts all of it on one line; earlier ones and this, on a line each."""
    if not resets:
        return
    yield ""
    yield f"{'GROUP':<30} {'TOPIC':<30} {'PARTITION':<10} {'NEW-OFFSET':<15}"
    for group, offsets in resets.items():
        for partition, offset in sorted(offsets.items()):
            yield f"{group:<30} {partition.topic:<30} {partition.partition:<10} {offset:<15}"


def deletion_lines(outcomes: Mapping[str, Error]) -> Iterator[str]:
    """Yield what became of groups that were to be deleted."""
    deleted = [group for group, error in outcomes.items() if error is Error.NONE]
    if len(deleted) == len(outcomes):
        yield f"Deletion of requested consumer groups ('{', '.join(deleted)}') was successful."
        return
    yield "\nError: Deletion of some consumer groups failed:"
    for group, error in outcomes.items():
        if error is not Error.NONE:
            yield f"* Group '{group}' could not be deleted due to: {java_exception(error)}: {error.text}"
    if deleted:
        yield "\nThese consumer groups were deleted successfully: " + ", ".join(
            f"'{each}'" for each in deleted
        )


def offset_deletion_lines(
    group: str, topics: Sequence[str], outcomes: Mapping[TopicPartition, Error]
) -> Iterator[str]:
    """Yield what became of offsets that were to be deleted, a line for each partition."""
    if all(error is Error.NONE for error in outcomes.values()):
        yield f"Request succeed for deleting offsets with topic {', '.join(topics)} group {group}"
    else:
        yield "\nError: Encounter some partition level error, see the follow-up details:"
    yield ""
    yield f"{'TOPIC':<30} {'PARTITION':<15} {'STATUS':<15}"
    for partition, error in sorted(outcomes.items()):
        status = "Successful" if error is Error.NONE else f"Error: :{error.text}"
        yield f"{partition.topic:<30} {partition.partition:<15} {status:<15}"


def java_exception(error: Error) -> str:
    """Return the name of the Java class that stands for an error."""
    return f"org.apache.kafka.common.errors.{''.join(map(str.capitalize, error.name.split('_')))}Exception"


def _columns(rows: Sequence[Sequence[str]], fixed: Mapping[int, int]) -> Iterator[str]:
    widths = [fixed.get(at, max([_WIDTH, *(len(row[at]) for row in rows[1:])])) for at in range(len(rows[0]))]
    for row in rows:
        yield " ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))


def _assignment(partitions: Sequence[TopicPartition]) -> str:
    topics: dict[str, list[str]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(str(partition))
    return ", ".join(sorted(f"({','.join(sorted(numbers))})" for numbers in topics.values())) or "-"


def _text(number: int | None) -> str:
    return "-" if number is None else str(number)
