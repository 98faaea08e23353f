"""Tables as kafka-transactions prints them."""

from collections.abc import Iterator, Sequence


def table_lines(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    """Yield a table: each cell as wide as the widest of its column, and a tab behind each."""
    cells = [list(columns), *([str(value) for value in row] for row in rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(columns))]
    for row in cells:
        yield "".join(f"{cell.ljust(width)}\t" for cell, width in zip(row, widths, strict=True))
