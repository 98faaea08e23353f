"""The user's folder for files that can be recreated. Only this user may write there, so its files are trusted."""

import os
import stat
import tempfile
from pathlib import Path


def user_cache() -> Path:
    """Create the folder if necessary and return it: in ``XDG_CACHE_HOME``, ``~/.cache`` or the temporary folder.

    Raises:
        OSError: none of them can be made, or the last belongs to another user.
    """
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ottla"
    try:
        home.mkdir(parents=True, exist_ok=True)
        if os.access(home, os.W_OK):
            return home
    except OSError:
        pass  # a service's user often has no home
    shared = Path(tempfile.gettempdir()) / f"ottla-{os.getuid()}"
    shared.mkdir(mode=0o700, exist_ok=True)
    status = shared.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise PermissionError(
            f"{shared} is not a folder that only user {os.getuid()} may write to: remove it"
        )
    return shared
