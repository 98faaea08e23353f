"""The layout of the distribution, in which the repository's packages are subpackages of `ottla`.

    repository                       distribution
    wire/varints.py                  ottla/wire/varints.py
    cluster/broker/broker.py         ottla/cluster/broker/broker.py
    ottla/addresses.py               ottla/addresses.py

Only import statements are rewritten, in place, so that every line keeps its number:

    from wire.varints import x       from ottla.wire.varints import x
    import cluster.broker as b       import ottla.cluster.broker as b

Everything else that depends on a module's name has to be relative to ``__package__`` or ``__name__``; a string that
names one of our modules is refused.
"""

import ast
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

TOP: Final = "ottla"
MOVED: Final = ("wire", "timing", "host", "security", "storage", "cluster", "pipeline", "simulation")
"""The packages at the root of the repository, which are below `ottla` in the distribution."""
METADATA: Final = ("pyproject.toml", "README.md")


class LayoutError(Exception):
    """A source file cannot be laid out; the text names the file, the line and the remedy."""


def lay_out(repository: Path, target: Path) -> None:
    """Write the distribution's source tree.

    Args:
        repository: The root of the repository.
        target: An empty folder.

    Raises:
        LayoutError: a package is missing, two files would have the same path, or a source file cannot be rewritten.
    """
    packages = [(TOP, target / TOP), *((name, target / TOP / name) for name in MOVED)]
    modules = frozenset(_modules(repository))
    for name, folder in packages:
        if not (repository / name / "__init__.py").is_file():
            raise LayoutError(f"{repository / name}: the package is missing")
        if folder.exists():
            raise LayoutError(f"{TOP}/{name} exists, and {name}/ would be laid over it: rename one of them")
        shutil.copytree(repository / name, folder, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
    for path in sorted((target / TOP).rglob("*.py")):
        path.write_bytes(rewrite(path.read_bytes(), str(path.relative_to(target)), modules))
    for name in METADATA:
        shutil.copyfile(repository / name, target / name)


def rewrite(source: bytes, path: str, modules: Iterable[str]) -> bytes:
    """Return a module's source with its imports of moved packages rewritten.

    Args:
        source: The source in UTF-8.
        path: The name that errors use for it.
        modules: Every module of the moved packages by its name in the repository.

    Raises:
        LayoutError: it imports a moved package by a name that `ottla.` would change, or a string names a module.
    """
    tree = ast.parse(source, path)
    lines = source.splitlines(keepends=True)
    places = sorted(set(_places(tree, lines, path)), reverse=True)
    for line, column in places:
        text = lines[line - 1]
        lines[line - 1] = text[:column] + f"{TOP}.".encode() + text[column:]
    _refuse_module_strings(tree, path, frozenset(modules))
    rewritten = b"".join(lines)
    compile(rewritten, path, "exec", dont_inherit=True)
    return rewritten


def _places(tree: ast.AST, lines: list[bytes], path: str) -> Iterator[tuple[int, int]]:
    """Yield the line and the column, in bytes, of every imported name that moves."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and _moves(node.module or ""):
            name = (node.module or "").encode()
            column = lines[node.lineno - 1].find(name, node.col_offset + len("from"))
            if column < 0:
                raise LayoutError(f"{path}:{node.lineno}: write `from {node.module} import` on one line")
            yield node.lineno, column
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if not _moves(alias.name):
                    continue
                if alias.asname is None:
                    package, _, last = alias.name.rpartition(".")
                    better = f"from {package} import {last}" if package else f"from {last} import ..."
                    raise LayoutError(f"{path}:{node.lineno}: write `{better}`, not `import {alias.name}`")
                yield alias.lineno, alias.col_offset


def _moves(module: str) -> bool:
    return module.partition(".")[0] in MOVED


def _modules(repository: Path) -> Iterator[str]:
    for name in MOVED:
        for path in (repository / name).rglob("*.py"):
            parts = path.relative_to(repository).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _refuse_module_strings(tree: ast.AST, path: str, modules: frozenset[str]) -> None:
    """Refuse ``"pipeline.jobs.ingest"`` and ``f"pipeline.jobs.{name}"``; prose and other strings pass."""
    beginnings = {
        id(node.values[0]) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) and node.values
    }
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Constant) and isinstance(node.value, str) and "." in node.value):
            continue
        text = node.value
        if text in modules or (id(node) in beginnings and text.endswith(".") and text[:-1] in modules):
            raise LayoutError(
                f"{path}:{node.lineno}: {text!r} names a module of ours: build the name from __package__ or __name__"
            )
