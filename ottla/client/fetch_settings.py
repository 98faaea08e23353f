"""How a reader fetches."""

from dataclasses import dataclass
from typing import Final

from ottla.client.positions import Endpoint

READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """How to fetch; sizes in bytes, times in seconds.

    Attributes:
        isolation: `READ_COMMITTED` or `READ_UNCOMMITTED`.
        min_bytes: A broker waits for this many, for ``max_wait`` at most.
        max_wait: How long it waits.
        max_bytes: The most bytes of an answer.
        partition_bytes: The most bytes of one partition in an answer; a first batch larger than this still comes.
        room: The most bytes fetched, decompressed, and not asked for yet, shared by the partitions.
        check_crcs: Whether checksums are compared.
        packed: Whether compressed records stay compressed until they are asked for.
        on_offset_lost: Where to go on when records are lost; None raises `OffsetLost`.
    """

    isolation: int = READ_UNCOMMITTED
    min_bytes: int = 1
    max_wait: float = 0.5
    max_bytes: int = 52_428_800
    partition_bytes: int = 1_048_576
    room: int = 67_108_864
    check_crcs: bool = True
    packed: bool = False
    on_offset_lost: Endpoint | None = None
