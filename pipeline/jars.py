"""Finding the jars that a job needs, and fetching them once.

They are looked for in a given folder, else where Spark's Ivy puts what it resolved. Ivy resolves what is missing there,
through a spark-submit that does nothing else; from then on no network is needed.
"""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from pipeline.failure import JobError
from pipeline.versions import Artifact, Bundle

IVY_FOLDER: Final = Path.home() / ".ivy2.5.2"
FETCH_TIMEOUT_S: Final = 300.0
_EMPTY_APPLICATION: Final = Path(__file__).with_name("empty_application.py")


def ivy_folder(conf: Mapping[str, str]) -> Path:
    """Return the folder of Spark's Ivy, by the job's Spark settings."""
    return Path(conf["spark.jars.ivy"]) if "spark.jars.ivy" in conf else IVY_FOLDER


def find_jars(bundles: Sequence[Bundle], folder: Path) -> tuple[list[Path], list[Artifact]]:
    """Return the jars that a folder has, and the artifacts that it lacks."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        names = []
    found: list[Path] = []
    missing: list[Artifact] = []
    for artifact in (artifact for bundle in bundles for artifact in bundle.jars):
        wanted = artifact.file_name
        name = next((name for name in names if name == wanted or name.endswith("_" + wanted)), None)
        if name is None:
            missing.append(artifact)
        else:
            found.append(folder / name)
    return found, missing


def require_jars(
    bundles: Sequence[Bundle],
    *,
    given: Path | None,
    conf: Mapping[str, str],
    submit: Sequence[str],
    environment: Mapping[str, str],
) -> list[Path]:
    """Return every jar of the bundles, fetched where need be.

    Args:
        bundles: The needed bundles.
        given: A folder that has them; nothing is fetched then.
        conf: The job's Spark settings; spark.jars.ivy, ivySettings and repositories apply.
        submit: The spark-submit command.
        environment: Its environment variables.

    Raises:
        JobError: naming the first artifact that is missing, and how to supply it.
    """
    if given is not None:
        found, missing = find_jars(bundles, given)
        if missing:
            raise JobError(
                f"{_names(missing)} missing in {given}: complete that folder, or leave --jars out to fetch jars"
            )
        return found
    folder = ivy_folder(conf) / "jars"
    found, missing = find_jars(bundles, folder)
    if not missing:
        return found
    output = _fetch([bundle.package for bundle in bundles], conf, submit, environment)
    found, missing = find_jars(bundles, folder)
    if missing:
        why = _reason(output)
        raise JobError(
            f"{_names(missing)} missing, and could not be fetched ({why}): "
            "put the jars into a folder and give it with --jars DIR, or set spark.jars.repositories with --conf"
        )
    return found


def _fetch(
    packages: Sequence[Artifact],
    conf: Mapping[str, str],
    submit: Sequence[str],
    environment: Mapping[str, str],
) -> str:
    settings = [
        part
        for key, value in conf.items()
        if key.startswith("spark.jars")
        for part in ("--conf", f"{key}={value}")
    ]
    command = [
        *submit,
        *("--master", "local[1]", *settings),
        *("--packages", ",".join(package.coordinate for package in packages)),
        str(_EMPTY_APPLICATION),
    ]
    try:
        done = subprocess.run(
            command,
            env=dict(environment),
            capture_output=True,
            text=True,
            check=False,
            timeout=FETCH_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {FETCH_TIMEOUT_S:g} s"
    return done.stderr + done.stdout


def _reason(output: str) -> str:
    for mark in ("unresolved dependency", "UnknownHostException", "not found", "Connection"):
        line = next((line.strip(": \t") for line in output.splitlines() if mark in line), None)
        if line:
            return line
    return "Ivy resolved the package without its dependencies: is its pom in the local Maven repository?"


def _names(missing: Sequence[Artifact]) -> str:
    names = ", ".join(artifact.coordinate for artifact in missing)
    return f"{names} {'is' if len(missing) == 1 else 'are'}"
