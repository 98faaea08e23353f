"""The PEP 517 build backend: setuptools, on a source tree in which `ottla` is the only package.

Wheels are built from that tree, and their bytes depend on the sources alone: SOURCE_DATE_EPOCH is set where the
environment does not set it. The sdist is the repository's own layout with this backend in it, so a wheel
built from it is the same. An editable install needs no other layout: it maps the names of the repository.
"""

import gzip
import io
import os
import tarfile
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from setuptools import build_meta
from setuptools.build_meta import (
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
)

from build_backend.layout import lay_out

__all__ = [
    "build_wheel",
    "build_sdist",
    "build_editable",
    "prepare_metadata_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "get_requires_for_build_wheel",
    "get_requires_for_build_sdist",
    "get_requires_for_build_editable",
]

Settings = Mapping[str, Any] | None

EPOCH_DEFAULT: Final = "315532800"
"""1980-01-01, in seconds: the first moment that a zip can hold."""


def build_wheel(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """Build the wheel and return its file name, as PEP 517 has it.

    Raises:
        LayoutError: a source file cannot be laid out under `ottla`.
    """
    target = os.path.abspath(wheel_directory)
    metadata = None if metadata_directory is None else os.path.abspath(metadata_directory)
    with _distribution_tree():
        name: str = build_meta.build_wheel(target, config_settings, metadata)
    return name


def build_editable(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """Build the wheel that maps the repository's names, and return its file name, as PEP 660 has it."""
    with warnings.catch_warnings():
        # Setuptools always warns of folders with a package's name, and this install consists of such folders.
        warnings.filterwarnings("ignore", message=r"\s*Editable installation")
        name: str = build_meta.build_editable(wheel_directory, config_settings, metadata_directory)
    return name


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Settings = None) -> str:
    """Write the wheel's ``.dist-info`` and return its name, as PEP 517 has it.

    Raises:
        LayoutError: a source file cannot be laid out under `ottla`.
    """
    target = os.path.abspath(metadata_directory)
    with _distribution_tree():
        name: str = build_meta.prepare_metadata_for_build_wheel(target, config_settings)
    return name


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    """Build the sdist and return its file name, as PEP 517 has it."""
    name: str = build_meta.build_sdist(sdist_directory, config_settings)
    path = Path(sdist_directory, name)
    path.write_bytes(normalized_sdist(path.read_bytes(), _epoch()))
    return name


def normalized_sdist(archive: bytes, epoch: int) -> bytes:
    """Return a ``.tar.gz`` with the same files in a fixed order, without owners, and with one modification time.

    Args:
        archive: The ``.tar.gz``.
        epoch: The modification time in seconds since 1970.
    """
    plain = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(archive)) as source,
        tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as target,
    ):
        for member in sorted(source.getmembers(), key=lambda each: each.name):
            member.mtime = epoch
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            member.pax_headers = {}
            target.addfile(member, source.extractfile(member) if member.isfile() else None)
    return gzip.compress(plain.getvalue(), mtime=epoch)


def _epoch() -> int:
    return int(os.environ.get("SOURCE_DATE_EPOCH", EPOCH_DEFAULT))


@contextmanager
def _distribution_tree() -> Iterator[None]:
    """Lay the distribution out in a temporary folder, which is the working directory inside the block."""
    repository = Path.cwd()
    before = os.environ.get("SOURCE_DATE_EPOCH")
    with tempfile.TemporaryDirectory(prefix="ottla-build-") as folder:
        tree = Path(folder)
        lay_out(repository, tree)
        os.chdir(tree)
        os.environ["SOURCE_DATE_EPOCH"] = str(_epoch())
        try:
            yield
        finally:
            os.chdir(repository)
            if before is None:
                del os.environ["SOURCE_DATE_EPOCH"]
