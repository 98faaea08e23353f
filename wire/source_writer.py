"""Writes the Python source of a generated function, and compiles it."""

import linecache
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from struct import Struct as Layout
from typing import Any, Final

_INLINE: Final = (int, str, bool, type(None))


class SourceWriter:
    """Lines of one function, and the objects that they refer to by name."""

    def __init__(self, scope: dict[str, Any]) -> None:
        self._lines: list[str] = []
        self._depth = 0
        self._scope = dict(scope)
        self._names: dict[int, str] = {}
        self._layouts: dict[tuple[str, str], str] = {}
        self._count = 0

    def line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        """Indent the lines written inside it below ``header``; a block that stays empty gets a ``pass``."""
        self.line(header + ":")
        self._depth += 1
        before = len(self._lines)
        yield
        if len(self._lines) == before:
            self.line("pass")
        self._depth -= 1

    def fresh(self, hint: str) -> str:
        """Return a local name that nothing else in the function uses."""
        self._count += 1
        return f"{hint}{self._count}"

    def constant(self, value: object) -> str:
        """Return an expression for ``value``: a literal where it is simple, else the name of a global."""
        if type(value) in _INLINE or value == ():
            return repr(value)
        name = self._names.get(id(value))
        if name is None:
            name = self._names[id(value)] = f"K{len(self._names)}"
            self._scope[name] = value  # which also keeps the object, and so its id, alive
        return name

    def layout(self, letters: str, method: str) -> tuple[str, int]:
        """Return the name of `struct` function ``method`` for big-endian ``letters``, and its size in bytes."""
        layout = Layout(">" + letters)
        name = self._layouts.get((letters, method))
        if name is None:
            name = self._layouts[letters, method] = f"{'P' if method == 'pack' else 'U'}{len(self._layouts)}"
            self._scope[name] = getattr(layout, method)
        return name, layout.size

    def source(self) -> str:
        return "\n".join(self._lines) + "\n"

    def compile(self, function: str, title: str) -> Callable[..., Any]:
        """Compile, and return the function of that name; tracebacks show its source under ``title``."""
        source = self.source()
        filename = f"<{title}>"
        linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
        exec(compile(source, filename, "exec"), self._scope)
        made: Callable[..., Any] = self._scope[function]
        return made
