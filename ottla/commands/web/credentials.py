"""Whether the page asks for a password, and which."""

import ipaddress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.commands.terminal.failure import CommandError

if TYPE_CHECKING:
    from ottla.client.settings import ConnectionSettings

_SIZE_MIN: Final = 8


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def needs_password(host: str, client: "ConnectionSettings", *, allow_changes: bool) -> bool:
    """Whether a page may be seen by nobody who has not logged in.

    Besides changes and other machines that is so where the page has credentials for the cluster: other users of this
    machine, who have none, would read through it what the cluster does not let them read.
    """
    return allow_changes or not is_loopback(host) or client.sasl is not None


def read_password(path: Path | None) -> str:
    """Return the password of a file, a new one without a file.

    Raises:
        CommandError: The one in the file is too short.
        OSError: The file cannot be read.
    """
    if path is None:
        from ottla.web.sessions import new_password

        return new_password()
    password = path.read_text(encoding="utf-8").strip()
    if len(password) < _SIZE_MIN:
        raise CommandError(f"the password in {path} has fewer than {_SIZE_MIN} characters")
    return password
