"""Long lists, a page at a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

T = TypeVar("T")

ROWS: Final = 50


@dataclass(frozen=True, slots=True)
class PageOf(Generic[T]):
    """One page of a list; pages count from 1."""

    rows: Sequence[T]
    number: int
    pages: int
    total: int
    size: int = ROWS

    @property
    def first(self) -> int:
        """The place of its first row, from 1; 0 where there is none."""
        return (self.number - 1) * self.size + 1 if self.rows else 0

    @property
    def last(self) -> int:
        """The place of its last row."""
        return self.first + len(self.rows) - 1 if self.rows else 0


def page_of(rows: Sequence[T], wanted: str, size: int = ROWS) -> PageOf[T]:
    """Return the page that an address asks for, or the nearest one that exists."""
    pages = max(1, -(-len(rows) // size))
    number = min(max(1, int(wanted)), pages) if wanted.isascii() and wanted.isdigit() else 1
    return PageOf(rows[(number - 1) * size : number * size], number, pages, len(rows), size)
