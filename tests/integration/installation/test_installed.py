"""Ottla installed from its wheel, beside a project whose own packages have the names of folders of our repository."""

import os
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from build_backend.layout import MOVED

ROOT = Path(__file__).parents[3]
DEPENDENCIES = Path(trio.__file__).parents[1]
_BUILD = "import sys; from build_backend import one_package; print(one_package.{hook}(sys.argv[1]))"

IMPORT_EVERYTHING = """
import importlib, pkgutil, ottla
names = [module.name for module in pkgutil.walk_packages(ottla.__path__, "ottla.")]
for name in names:
    importlib.import_module(name)
print(len(names))
"""
CLEAN = """
import sys
from ottla.storage.compaction.job import CleaningJob
from ottla.storage.compaction.worker_process import WorkerProcess
job = CleaningJob(directory=sys.argv[1], groups=(), dirty=(), first_dirty=0, end=0, now=0, delete_retention_ms=0,
                  legacy_horizon=0, index_interval=4096)
result = WorkerProcess().run(job, lambda group: None)
assert result.error is None, result.error
print(result.records_read)
"""
PRODUCE_AND_CONSUME = """
import sys
import cluster, pipeline, storage, wire
assert {m.__name__: m.OWNER for m in (cluster, pipeline, storage, wire)} == dict.fromkeys(
    ("cluster", "pipeline", "storage", "wire"), "the project")
from confluent_kafka import Consumer, Producer
from ottla.testing import Cluster
assert {m.__name__ for m in (cluster, pipeline, storage, wire)} <= set(sys.modules)
servers, count = sys.argv[1], int(sys.argv[2])
producer = Producer({"bootstrap.servers": servers, "acks": "all"})
for number in range(count):
    producer.produce("orders", str(number).encode())
assert producer.flush(60) == 0
consumer = Consumer({"bootstrap.servers": servers, "group.id": "g", "auto.offset.reset": "earliest"})
consumer.subscribe(["orders"])
read = set()
while len(read) < count:
    for message in consumer.consume(count, timeout=1.0):
        assert message.error() is None, message.error()
        read.add(int(message.value()))
consumer.close()
assert read == set(range(count))
"""


def build(project: Path, hook: str, target: Path) -> Path:
    """Run a hook of the build backend in a project, as pip does, and return what it built."""
    target.mkdir(exist_ok=True)
    command = [sys.executable, "-c", _BUILD.format(hook=hook), str(target)]
    environment = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
    done = subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return target / done.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("installation")


@pytest.fixture(scope="module")
def sdist(folder: Path) -> Path:
    return build(ROOT, "build_sdist", folder / "sdist")


@pytest.fixture(scope="module")
def wheel(folder: Path, sdist: Path) -> Path:
    """The wheel that is built from the sdist."""
    # Debian's Python 3.11.2 has no extraction filter; the archive is our own.
    shutil.unpack_archive(sdist, folder / "unpacked")
    (source,) = (folder / "unpacked").iterdir()
    return build(source, "build_wheel", folder / "wheel")


@pytest.fixture(scope="module")
def project(folder: Path) -> Path:
    """A user's project with packages of its own."""
    for name in ("cluster", "pipeline", "storage", "wire"):
        package = folder / "project" / name
        package.mkdir(parents=True)
        (package / "__init__.py").write_text('OWNER = "the project"\n')
    return folder / "project"


@pytest.fixture(scope="module")
def python(folder: Path, wheel: Path) -> Path:
    """The Python of an environment with Ottla from the wheel; the dependencies are this environment's."""
    venv.create(folder / "venv", with_pip=False)
    python = folder / "venv" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check"]
    subprocess.run(
        [*pip, "install", "--quiet", "--no-index", "--no-deps", str(wheel)], check=True, timeout=120
    )
    (site_packages,) = (folder / "venv" / "lib").glob("python3*/site-packages")
    (site_packages / "dependencies.pth").write_text(f"{DEPENDENCIES}\n")
    return python


class Project:
    """Runs programs in the user's project with the installed Ottla, and nothing of the repository in sight."""

    def __init__(self, project: Path, python: Path) -> None:
        self._project = project
        self._python = python

    def run(self, *command: str) -> str:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        done = subprocess.run(
            command,
            cwd=self._project,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )
        assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def python(self, program: str, *arguments: str) -> str:
        """Run a program that can import what is in the project's folder."""
        return self.run(str(self._python), "-c", program, *arguments)

    def ottla(self, *arguments: str) -> str:
        return self.run(str(self._python.parent / "ottla"), *arguments)

    def module(self, *arguments: str) -> str:
        return self.run(str(self._python), "-m", *arguments)


@pytest.fixture(scope="module")
def in_project(project: Path, python: Path) -> Project:
    return Project(project, python)


@pytest.fixture(scope="module")
def bootstrap_servers(in_project: Project, folder: Path) -> Iterator[str]:
    """A broker that the installed `ottla up` started from the project's folder, with a topic."""
    data = str(folder / "data")
    in_project.ottla(
        "up", "--detach", "--data", data, "--brokers", "1", "--port", "0", "--zookeeper-port", "0"
    )
    try:
        program = (
            "import json, sys; print(json.load(open(sys.argv[1] + '/cluster.json'))['bootstrap_servers'])"
        )
        yield in_project.python(program, data).strip()
    finally:
        in_project.ottla("stop", "--data", data)


def test_the_wheel_has_one_name_and_no_test(wheel) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        top_level = archive.read(next(n for n in names if n.endswith(".dist-info/top_level.txt")))
    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == {"ottla"}
    assert top_level.split() == [b"ottla"]
    assert "ottla/py.typed" in names
    assert {"ottla/web/templates/page.html", "ottla/web/static/style.css"} <= set(names)
    assert "ottla/web/static/vendor/htmx.LICENSE" in names
    assert not [
        n for n in names if "/test_" in n or "/tests/" in n or "conftest" in n or "build_backend" in n
    ]
    for name in MOVED:
        assert f"ottla/{name}/__init__.py" in names


def test_a_wheel_of_the_repository_is_the_one_of_the_sdist_byte_by_byte(wheel, folder) -> None:
    again = build(ROOT, "build_wheel", folder / "again")
    assert again.name == wheel.name
    assert again.read_bytes() == wheel.read_bytes()


def test_an_sdist_is_the_same_when_it_is_built_again(sdist, folder) -> None:
    assert build(ROOT, "build_sdist", folder / "sdist-again").read_bytes() == sdist.read_bytes()


def test_every_module_of_the_wheel_imports(in_project, wheel) -> None:
    with zipfile.ZipFile(wheel) as archive:
        sources = [name for name in archive.namelist() if name.endswith(".py")]
    # The top package is not among its own modules.
    assert int(in_project.python(IMPORT_EVERYTHING)) == len(sources) - 1


def test_the_command_is_a_module_too(in_project) -> None:
    assert in_project.module("ottla", "--version") == in_project.ottla("--version")


def test_a_project_with_our_folders_names_uses_its_own_and_ours(in_project, bootstrap_servers) -> None:
    topic = ("--topic", "orders", "--partitions", "2", "--replication-factor", "1")
    in_project.ottla("topics", "--bootstrap-server", bootstrap_servers, "--create", *topic)
    in_project.python(PRODUCE_AND_CONSUME, bootstrap_servers, "100")


def test_a_compaction_worker_starts_from_the_wheel(in_project, folder) -> None:
    (folder / "empty-0").mkdir()
    assert in_project.python(CLEAN, str(folder / "empty-0")).strip() == "0"


def test_the_zip_for_sparks_workers_has_all_that_the_archive_source_imports(in_project) -> None:
    archive = in_project.python(
        "from ottla.pipeline.package_zip import package_zip; print(package_zip())"
    ).strip()
    with zipfile.ZipFile(archive) as opened:
        assert {name.partition("/")[0] for name in opened.namelist()} == {"ottla"}
    # This Python finds the repository's packages, and no installed `ottla.pipeline`.
    program = "import sys; sys.path.insert(0, sys.argv[1]); from ottla.pipeline.archive import segment_reader, source"
    done = subprocess.run([sys.executable, "-c", program, archive], cwd=Path(archive).parent, check=False)
    assert done.returncode == 0


def test_a_pipeline_job_runs_from_the_project(in_project, bootstrap_servers, folder) -> None:
    topic = ("--topic", "jobs", "--partitions", "1", "--replication-factor", "1")
    in_project.ottla("topics", "--bootstrap-server", bootstrap_servers, "--create", *topic)
    program = (
        "import sys; from confluent_kafka import Producer; p = Producer({'bootstrap.servers': sys.argv[1]});"
        "[p.produce('jobs', b'v') for _ in range(7)]; sys.exit(p.flush(60))"
    )
    in_project.python(program, bootstrap_servers)
    table = folder / "table"
    done = in_project.ottla(
        *(
            "pipeline",
            "ingest",
            "--bootstrap-server",
            bootstrap_servers,
            "--topic",
            "jobs",
            "--once",
            "--json",
        ),
        *("--table", str(table), "--master", "local[1]"),
    )
    assert '"rows": 7' in done.splitlines()[-1]
    assert list(table.rglob("*.parquet"))
