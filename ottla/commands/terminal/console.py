"""Tables and lines on the terminal."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_PIPE_WIDTH = 10_000
"""How wide output is that goes to a file or a program: nothing is cut or folded there."""


def open_console(*, stderr: bool = False) -> "Console":
    """Return the console to print on. Lines are never folded where nobody looks at a terminal."""
    from rich.console import Console

    console = Console(stderr=stderr, highlight=False)
    if not console.is_terminal:
        console.width = _PIPE_WIDTH
    return console


def new_table(*columns: str) -> "Table":
    """Return a table without lines, whose numbers stand below each other."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def numbers(values: object) -> str:
    """Write broker ids the way Kafka's tools do: ``1,2,3``; a dash for none."""
    return ",".join(map(str, values)) if isinstance(values, list | tuple) and values else "-"
