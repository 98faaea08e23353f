"""One offset in the files of one replica: the batch that holds it, and how safe it is there."""

from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from ottla.log_dump.batches import StoredBatch, read_batches
from storage.checkpoints import decode_lines
from storage.names import HIGH_WATERMARKS, LEADER_EPOCHS, RECOVERY_POINTS

_INDEX_ENTRY: Final = Struct(">ii")


class ReplicaRecord(NamedTuple):
    """An offset at one replica.

    Attributes:
        directory: The replica's directory.
        segment: The .log that holds the offset; None where none does.
        batch: The batch there; None likewise.
        log_end: Where the log ends, as far as its last segment can be read.
        epoch_start: Where the batch's leader epoch began here; None where the cache does not have it.
        recovery_point: Everything below it was on disk when the broker last noted it; None if it never did.
        high_watermark: As the broker last noted it; None if it never did.
    """

    directory: Path
    segment: Path | None
    batch: StoredBatch | None
    log_end: int
    epoch_start: int | None
    recovery_point: int | None
    high_watermark: int | None

    @property
    def is_synced(self) -> bool:
        """Whether the batch is known to survive a loss of power."""
        return self.batch is not None and (self.recovery_point or 0) > self.batch.last_offset


def read_replica(directory: Path, topic: str, partition: int, offset: int) -> ReplicaRecord:
    """Look up an offset in a replica's files; its broker can run meanwhile.

    Args:
        directory: The replica's, within a log directory.
        topic: Its topic.
        partition: Its partition.
        offset: Of the record.

    Raises:
        DumpError: a batch before it has an impossible size.
        OSError: a file cannot be read.
        ValueError: a checkpoint file is malformed.
    """
    segments = sorted(directory.glob("[0-9]*.log"), key=lambda path: int(path.stem))
    holding = [path for path in segments if int(path.stem) <= offset]
    batch = _find(holding[-1], offset) if holding else None
    log_end = 0
    if segments:
        log_end = int(segments[-1].stem)
        for each in read_batches(segments[-1], _start(segments[-1], 1 << 62)):
            log_end = each.last_offset + 1
    epoch_start = None
    if batch is not None and batch.header is not None:
        epoch_start = _epochs(directory).get(batch.header.partition_leader_epoch)
    name = (topic, str(partition))
    return ReplicaRecord(
        directory,
        holding[-1] if batch is not None else None,
        batch,
        log_end,
        epoch_start,
        _checkpoint(directory.parent / RECOVERY_POINTS, name),
        _checkpoint(directory.parent / HIGH_WATERMARKS, name),
    )


def _find(log: Path, offset: int) -> StoredBatch | None:
    for batch in read_batches(log, _start(log, offset)):
        if batch.last_offset >= offset:
            first = batch.last_offset if batch.header is None else batch.header.base_offset
            return batch if first <= offset else None
    return None


def _start(log: Path, offset: int) -> int:
    """Return the position of a batch at or before an offset, from the offset index."""
    base, found, last = int(log.stem), 0, -1
    try:
        data = log.with_suffix(".index").read_bytes()
    except FileNotFoundError:
        return 0
    for relative, position in _INDEX_ENTRY.iter_unpack(data[: len(data) // 8 * 8]):
        # The preallocated rest after the last entry holds zeros.
        if relative <= last or base + relative > offset:
            break
        last, found = relative, position
    return found


def _epochs(directory: Path) -> dict[int, int]:
    try:
        lines = decode_lines((directory / LEADER_EPOCHS).read_bytes())
    except FileNotFoundError:
        return {}
    return {int(epoch): int(start) for epoch, start in lines}


def _checkpoint(path: Path, name: tuple[str, str]) -> int | None:
    try:
        lines = decode_lines(path.read_bytes())
    except FileNotFoundError:
        return None
    return next((int(offset) for *key, offset in lines if tuple(key) == name), None)
