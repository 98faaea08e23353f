"""The records of a fetch as columns: lists of offsets, timestamps, keys and values. No I/O."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import chain, pairwise
from struct import iter_unpack
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from wire.records.record import Header

if TYPE_CHECKING:
    from wire.records.columns import RecordFields


_RUN_MIN: Final = 8
"""The average length of a run of like fields from which `struct` patterns are faster."""


class Columns(Protocol):
    """The records of some batches as lists of equal length; headers by index, where a record has some."""

    @property
    def offsets(self) -> Sequence[int]: ...
    @property
    def timestamps(self) -> Sequence[int]: ...
    @property
    def keys(self) -> Sequence[bytes | None]: ...
    @property
    def values(self) -> Sequence[bytes | None]: ...
    @property
    def headers(self) -> Mapping[int, Sequence[Header]]: ...
    @property
    def value_views(self) -> Sequence[memoryview | None]: ...


class ListColumns(NamedTuple):
    """Columns that were decoded record by record."""

    offsets: Sequence[int]
    timestamps: Sequence[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    headers: Mapping[int, Sequence[Header]]

    @property
    def value_views(self) -> Sequence[memoryview | None]:
        """The values as views."""
        return [None if value is None else memoryview(value) for value in self.values]


class FieldColumns:
    """Columns that are cut out of the bytes when they are asked for: who reads values pays for values."""

    def __init__(
        self,
        data: bytes | memoryview,
        fields: "RecordFields",
        offsets: Any,
        timestamps: Any,
        headers: Mapping[int, Sequence[Header]],
        skip: int,
    ) -> None:
        self.headers = headers
        self._data = data
        self._fields = fields
        self._offsets = offsets
        self._timestamps = timestamps
        self._skip = skip

    @cached_property
    def _bytes(self) -> bytes:
        return self._data if isinstance(self._data, bytes) else bytes(self._data)

    def _whole(self) -> bytes:
        return self._bytes

    @cached_property
    def offsets(self) -> Sequence[int]:
        """The offsets."""
        found: list[int] = self._offsets[self._skip :].tolist()
        return found

    @cached_property
    def timestamps(self) -> Sequence[int]:
        """The timestamps, in milliseconds."""
        found: list[int] = self._timestamps[self._skip :].tolist()
        return found

    @cached_property
    def keys(self) -> Sequence[bytes | None]:
        """The keys."""
        fields, skip = self._fields, self._skip
        sizes = fields.key_size[skip:]
        if not len(sizes) or int(sizes.max()) < 0:
            return [None] * len(sizes)
        return _cut(self._data, self._whole, fields.key_start[skip:], sizes)

    @cached_property
    def values(self) -> Sequence[bytes | None]:
        """The values."""
        fields, skip = self._fields, self._skip
        return _cut(self._data, self._whole, fields.value_start[skip:], fields.value_size[skip:])

    @cached_property
    def value_views(self) -> Sequence[memoryview | None]:
        """The values as views into the fetched bytes, without a copy."""
        fields, skip = self._fields, self._skip
        view = memoryview(self._data)
        return _slices(view, fields.value_start[skip:], fields.value_size[skip:])


def _cut(data: bytes | memoryview, whole: Callable[[], bytes], starts: Any, sizes: Any) -> list[bytes | None]:
    """Cut fields out of bytes; those of size -1 are null.

    Fields of one size at equal distances, as in a batch of records alike, are cut by one `struct` pattern: a fifth of
    what a slice each costs, and without the copy of everything that slices of a view would need first.

    Args:
        data: The bytes, or a view of them.
        whole: Returns all of them as bytes.
        starts: Where the fields begin.
        sizes: How long they are.
    """
    count = len(starts)
    if count < 2 * _RUN_MIN:
        return _slices(whole(), starts, sizes)
    strides = starts[1:] - starts[:-1]
    # A run: fields of one size, each as far from its successor. The last one has none, and is cut by itself.
    changes = (sizes[1:-1] != sizes[:-2]) | (strides[1:] != strides[:-1])
    bounds = [0, *(changes.nonzero()[0] + 1).tolist(), count - 1]
    if len(bounds) * _RUN_MIN > count:
        return _slices(whole(), starts, sizes)
    found: list[bytes | None] = []
    view = memoryview(data)
    for begin, end in pairwise(bounds):
        size, stride = int(sizes[begin]), int(strides[begin])
        if size < 0:
            found += [None] * (end - begin)
        else:
            region = view[starts[begin] : starts[begin] + stride * (end - begin)]
            found += chain.from_iterable(iter_unpack(f"{size}s{stride - size}x", region))
    start, size = int(starts[-1]), int(sizes[-1])
    found.append(None if size < 0 else bytes(view[start : start + size]))
    return found


def _slices(data: Any, starts: Any, sizes: Any) -> list[Any]:
    """Cut fields out of bytes or a view, one by one."""
    found = list(map(data.__getitem__, map(slice, starts.tolist(), (starts + sizes).tolist())))
    for index in (sizes < 0).nonzero()[0].tolist():
        found[index] = None
    return found


def from_offset(columns: ListColumns, first: int) -> ListColumns:
    """Drop the records before an offset: of the batch that the position lies in."""
    offsets = columns.offsets
    skip = 0
    while skip < len(offsets) and offsets[skip] < first:
        skip += 1
    if not skip:
        return columns
    headers = {index - skip: each for index, each in columns.headers.items() if index >= skip}
    return ListColumns(
        offsets[skip:], columns.timestamps[skip:], columns.keys[skip:], columns.values[skip:], headers
    )
