"""The pieces of a snapshot of ``__transaction_state``.

    [[transactional_id, ...], [value, ...]]     ids with their last values, as the log has them

All are from one moment: the map is copied, which is cheap because its ids and values are not.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Final

import msgpack

from cluster.coordinator.snapshot_bytes import PIECE, SnapshotError, SnapshotPlace
from cluster.coordinator.snapshots import SnapshotKind
from cluster.coordinator.transactions.state_records import peek_state
from cluster.coordinator.transactions.stored_transactions import StoredTransactions
from wire.errors import RemoteProtocolError

_FILE_NAME: Final = "ottla-transactions.msgpack"


def encode_pieces(stored: StoredTransactions) -> Iterator[bytes]:
    """Write the ids of a partition piece by piece, in their state when the first piece is requested."""
    pack = msgpack.Packer().pack
    values = stored.values.copy()
    ids = iter(values)
    while some := list(islice(ids, PIECE)):
        yield pack([some, [values[each] for each in some]])


def read_pieces(stored: StoredTransactions, pieces: msgpack.Unpacker) -> Iterator[int]:
    """Read the ids of a snapshot.

    Yields:
        After each piece how many ids it had, so that the caller can let other tasks run.

    Raises:
        SnapshotError: a piece is malformed, or has a value that is not a transaction's.
    """
    for piece in pieces:
        try:
            ids, values = piece
            found = dict(zip(ids, values, strict=True))
            for value in values:
                peek_state(value)
        except (ValueError, TypeError, RemoteProtocolError) as error:
            raise SnapshotError(f"a piece cannot be read: {error}") from error
        stored.values.update(found)
        yield len(found)


def _start(place: SnapshotPlace) -> StoredTransactions:
    return StoredTransactions(place.next_offset, place.epoch, snapshot_at=place.written_at)


def _count(stored: StoredTransactions) -> int:
    return len(stored.values)


TRANSACTIONS: Final = SnapshotKind(_FILE_NAME, _start, encode_pieces, read_pieces, _count)
