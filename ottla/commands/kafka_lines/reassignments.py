"""The lines of kafka-reassign-partitions."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ottla.client.errors import ClientError
from wire.types import TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin import Reassignment
    from ottla.commands.reassignment.directory_moves import MoveState, Replica

VERIFY_WARNING: Final = (
    "Warning: You must run --verify periodically, until the reassignment completes, "
    "to ensure the throttle is removed."
)


def rollback_lines(current: str) -> Iterator[str]:
    """Yield the present assignment, as JSON, for the way back."""
    yield "Current partition replica assignment"
    yield ""
    yield current
    yield ""
    yield "Save this to use as the --reassignment-json-file option during rollback"


def throttle_lines(rate: int | None, directory_rate: int | None) -> Iterator[str]:
    """Yield the throttles that were set, in bytes a second."""
    if rate is not None:
        yield f"The inter-broker throttle limit was set to {rate} B/s"
    if directory_rate is not None:
        yield f"The replica-alter-dir throttle limit was set to {directory_rate} B/s"


def started_lines(partitions: Iterable[TopicPartition], replicas: Iterable["Replica"]) -> Iterator[str]:
    """Yield which moves have begun."""
    begun = sorted(partitions)
    yield f"Successfully started partition reassignment{_s(begun)} for {','.join(map(str, begun))}"
    moved = sorted(replicas)
    if moved:
        names = ",".join(_replica(each) for each in moved)
        yield f"Successfully started log directory move{_s(moved)} for: {names}"


def failed_lines(errors: Mapping[TopicPartition, ClientError]) -> Iterator[str]:
    """Yield which moves were refused, and why."""
    yield "Error reassigning partition(s):"
    for partition, error in sorted(errors.items()):
        yield f"{partition}: {error}"


def status_lines(
    ongoing: Iterable[TopicPartition],
    present: Mapping[TopicPartition, Sequence[int]],
    targets: Mapping[TopicPartition, Sequence[int]],
) -> Iterator[str]:
    """Yield the state of each reassignment."""
    yield "Status of partition reassignment:"
    moving = set(ongoing)
    for partition, target in sorted(targets.items()):
        replicas = present.get(partition, ())
        if partition in moving:
            yield f"Reassignment of partition {partition} is still in progress."
        elif tuple(replicas) == tuple(target):
            yield f"Reassignment of partition {partition} is completed."
        else:
            yield (
                f"There is no active reassignment of partition {partition}, "
                f"but replica set is {_ids(replicas)} rather than {_ids(target)}."
            )


def directory_lines(
    states: Mapping["Replica", "MoveState"], wanted: Mapping["Replica", str]
) -> Iterator[str]:
    """Yield the state of each replica that was to go to another log directory."""
    from ottla.commands.reassignment.directory_moves import MoveState

    if not states:
        yield ""
    for replica, state in sorted(states.items()):
        name = _replica(replica)
        match state:
            case MoveState.DONE:
                yield f"Reassignment of replica {name} completed successfully."
            case MoveState.MOVING:
                yield f"Reassignment of replica {name} is still in progress."
            case _:
                yield (
                    f"Partition {replica.partition} on broker {replica.broker} is not being moved to "
                    f"{wanted[replica]}: {state.value}."
                )


def cleared_lines(brokers: Sequence[int], topics: Sequence[str]) -> Iterator[str]:
    """Yield where throttles were taken away."""
    yield f"Clearing broker-level throttles on broker{_s(brokers)} {_ids(brokers)}"
    yield f"Clearing topic-level throttles on topic{_s(topics)} {','.join(topics)}"


def cancelled_lines(partitions: Sequence[TopicPartition]) -> Iterator[str]:
    """Yield which moves were cancelled."""
    if partitions:
        names = ",".join(map(str, sorted(partitions)))
        yield f"Successfully cancelled partition reassignment{_s(partitions)} for: {names}"
    else:
        yield "None of the specified partition reassignments are active."
    yield "None of the specified partition moves are active."


def ongoing_lines(ongoing: "Mapping[TopicPartition, Reassignment]") -> Iterator[str]:
    """Yield what is being moved."""
    if not ongoing:
        yield "No partition reassignments found."
        return
    yield "Current partition reassignments:"
    for partition, move in sorted(ongoing.items()):
        line = f"{partition}: replicas: {_ids(move.replicas)}."
        if move.adding:
            line += f" adding: {_ids(move.adding)}."
        if move.removing:
            line += f" removing: {_ids(move.removing)}."
        yield line


def _replica(replica: "Replica") -> str:
    partition = replica.partition
    return f"{partition.topic}-{partition.partition}-{replica.broker}"


def _ids(ids: Iterable[int]) -> str:
    return ",".join(map(str, ids))


def _s(items: Sequence[object]) -> str:
    return "" if len(items) == 1 else "s"
