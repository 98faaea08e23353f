"""What import-linter does not check: no two of our modules import each other, directly or through others."""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[2]
PACKAGES = ("wire", "timing", "host", "security", "storage", "cluster", "ottla", "pipeline", "simulation")


def circles(imports: Mapping[str, set[str]]) -> Iterator[list[str]]:
    """Yield the groups of modules that reach each other (Tarjan's strongly connected components)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []

    def visit(module: str) -> Iterator[list[str]]:
        number[module] = lowest[module] = len(number)
        stack.append(module)
        for imported in sorted(imports.get(module, ())):
            if imported not in number:
                yield from visit(imported)
                lowest[module] = min(lowest[module], lowest[imported])
            elif imported in stack:
                lowest[module] = min(lowest[module], number[imported])
        if lowest[module] == number[module]:
            group = stack[stack.index(module) :]
            del stack[stack.index(module) :]
            if len(group) > 1:
                yield sorted(group)

    for module in sorted(imports):
        if module not in number:
            yield from visit(module)


def test_a_circle_is_found() -> None:
    assert list(circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}})) == [["b", "c"]]


def test_no_module_imports_one_that_imports_it(monkeypatch) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)  # imports for type checking count, too
    assert (
        list(circles({module: graph.find_modules_directly_imported_by(module) for module in graph.modules}))
        == []
    )


def test_every_package_is_looked_at() -> None:
    found = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"bench", "build_backend", "tests"}
    assert found == set(PACKAGES)
