"""What the distribution's layout does to imports, and what it refuses."""

import ast
import gzip
import io
import tarfile
import tomllib
from pathlib import Path

import pytest

from build_backend.layout import MOVED, TOP, LayoutError, lay_out, rewrite
from build_backend.one_package import normalized_sdist

ROOT = Path(__file__).parents[3]
MODULES = ("pipeline.jobs", "pipeline.jobs.ingest", "cluster.broker")


def rewritten(source: str) -> str:
    return rewrite(source.encode(), "module.py", MODULES).decode()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("from wire.varints import read\n", "from ottla.wire.varints import read\n"),
        ("from wire import varints\n", "from ottla.wire import varints\n"),
        ("from   timing.clock   import Clock as C\n", "from   ottla.timing.clock   import Clock as C\n"),
        ("from storage.log import (\n    Log,\n)\n", "from ottla.storage.log import (\n    Log,\n)\n"),
        ("import cluster.broker as b, os\n", "import ottla.cluster.broker as b, os\n"),
        ("import os, wire.apis as apis, storage as s\n", "import os, ottla.wire.apis as apis, ottla.storage as s\n"),
        ("\tfrom wire import x; from wire import y\n", "\tfrom ottla.wire import x; from ottla.wire import y\n"),
        ("ä = 'é'; from wire import x\n", "ä = 'é'; from ottla.wire import x\n"),
    ],
)  # fmt: skip
def test_imports_of_moved_packages_are_rewritten(before, after) -> None:
    assert rewritten(f"if True:\n\tpass\n{before}") == f"if True:\n\tpass\n{after}"


@pytest.mark.parametrize(
    "source",
    [
        "from ottla.addresses import Address\n",
        "from wires import x\nimport clusters\n",
        "from . import wire\nfrom .wire import x\n",
        "from concurrent import storage\n",
        '"""See `from wire.varints import read` in wire.varints."""\n# from wire import x\n',
        "cluster_id = properties['cluster.id']\nfile = 'cluster.json'\n",
    ],
)
def test_everything_else_stays_as_it_is(source) -> None:
    assert rewritten(source) == source


@pytest.mark.parametrize(
    ("source", "remedy"),
    [
        ("import wire.varints\n", "write `from wire import varints`"),
        ("import os, wire\n", "write `from wire import ...`"),
        ("from \\\n    wire.varints import x\n", "on one line"),
        ("run('-m', 'pipeline.jobs.ingest')\n", "from __package__"),
        ("name = f'pipeline.jobs.{job}'\n", "from __package__"),
    ],
)
def test_what_cannot_be_rewritten_is_refused_by_line(source, remedy) -> None:
    with pytest.raises(LayoutError, match=r"^module\.py:1: ") as refused:
        rewritten(source)
    assert remedy in str(refused.value)


def test_a_package_that_would_cover_another_is_refused(tmp_path) -> None:
    for name in (*MOVED, TOP, f"{TOP}/wire"):
        (tmp_path / "repository" / name).mkdir(parents=True)
        (tmp_path / "repository" / name / "__init__.py").touch()
    with pytest.raises(LayoutError, match="ottla/wire exists"):
        lay_out(tmp_path / "repository", tmp_path / "target")


def test_a_package_that_is_missing_is_named(tmp_path) -> None:
    with pytest.raises(LayoutError, match="the package is missing"):
        lay_out(tmp_path, tmp_path / "target")


def test_the_repository_lays_out_with_no_absolute_import_left(tmp_path) -> None:
    lay_out(ROOT, tmp_path)
    paths = sorted(tmp_path.rglob("*.py"))
    assert {path.relative_to(tmp_path).parts[0] for path in paths} == {TOP}
    for name in MOVED:
        assert (tmp_path / TOP / name / "__init__.py").is_file()
    for path in paths:
        for node in ast.walk(ast.parse(path.read_bytes())):
            names = [node.module] if isinstance(node, ast.ImportFrom) and node.level == 0 else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert not [name for name in names if name and name.partition(".")[0] in MOVED], path


def test_an_sdist_is_the_same_whoever_packed_it_and_when() -> None:
    def packed(names: list[str], mtime: int, owner: str) -> bytes:
        plain = io.BytesIO()
        with tarfile.open(fileobj=plain, mode="w") as archive:
            for name in names:
                member = tarfile.TarInfo(name)
                member.size, member.mtime, member.uname, member.uid = len(name), mtime, owner, mtime
                archive.addfile(member, io.BytesIO(name.encode()))
        return gzip.compress(plain.getvalue(), mtime=mtime)

    one = normalized_sdist(packed(["a/x", "a/y"], 1_700_000_000, "anna"), 315_532_800)
    other = normalized_sdist(packed(["a/y", "a/x"], 1_800_000_000, "bert"), 315_532_800)
    assert one == other
    with tarfile.open(fileobj=io.BytesIO(one)) as archive:
        assert archive.getnames() == ["a/x", "a/y"]
        assert archive.extractfile("a/y").read() == b"a/y"


def test_the_lists_of_packages_agree() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = {*MOVED, TOP}
    assert packages == {
        each.rstrip("*") for each in project["tool"]["setuptools"]["packages"]["find"]["include"]
    }
    assert packages < set(project["tool"]["mypy"]["packages"])
    assert packages < set(project["tool"]["importlinter"]["root_packages"])
    let_through = {
        line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")
    }
    assert packages | {"pyproject.toml", "MANIFEST.in", "README.md", "build_backend"} <= let_through


def test_every_package_of_the_repository_is_laid_out_or_stays_out_on_purpose() -> None:
    found = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert found == {*MOVED, TOP, "bench", "build_backend"}
