"""The zip of our own packages that goes to Spark's driver and workers with --py-files."""

import hashlib
import tempfile
import zipfile
from pathlib import Path
from typing import Final

from host.user_cache import user_cache

PACKAGES: Final = ("host", "pipeline", "storage", "timing", "wire")
_TOP: Final = Path(__file__).parents[__name__.count(".")]
"""The folder of our top-level packages: the repository, or site-packages with `ottla` in it."""
_PARENT: Final = Path(__file__).parent.parent
"""The folder of `PACKAGES`: the repository, or `ottla` in site-packages."""


def package_zip(folder: Path | None = None) -> Path:
    """Write the zip, once for each state of the sources, and return its path.

    It holds the packages that the jobs import on a worker, under their names here: the pipeline, and for the archive
    source wire and storage.

    Args:
        folder: Where it goes; the user's cache by default.
    """
    sources = sorted(path for package in PACKAGES for path in (_PARENT / package).rglob("*.py"))
    if _PARENT != _TOP:
        sources.insert(0, _PARENT / "__init__.py")
    digest = hashlib.sha256()
    for path in sources:
        digest.update(f"{path.relative_to(_TOP)}\0".encode())
        digest.update(path.read_bytes())
    target = (folder or user_cache()) / f"ottla-pipeline-{digest.hexdigest()[:16]}.zip"
    if target.exists():
        return target
    with tempfile.NamedTemporaryFile(dir=target.parent, suffix=".zip", delete=False) as scratch:
        with zipfile.ZipFile(scratch, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sources:
                archive.write(path, str(path.relative_to(_TOP)))
        Path(scratch.name).chmod(0o644)
        Path(scratch.name).replace(target)
    return target
