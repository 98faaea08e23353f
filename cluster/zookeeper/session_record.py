"""The session on disk: it lets a broker that was killed close its former session when it starts again.

The file is in one of the broker's log directories, whose lock the broker holds before it reads the file: the holder of
the lock is the only process of this broker, so the session in the file is dead or ours. A copy of the directory is
another matter: its broker must not close the session of the living original. The file therefore names its own inode,
which a copy does not have. It holds a password: mode 0600. It is written to the first directory that accepts it, so
that one dead or full disk does no harm.
"""

import json
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from cluster.zookeeper.session_closer import SessionKey, close_session
from security.zookeeper_access import OPEN, ZooKeeperAccess

logger = logging.getLogger(__name__)

FILE_NAME: Final = "zookeeper-session.json"


def write_session_record(directory: Path, key: SessionKey) -> None:
    """Record the session that is now ours, replacing the former one.

    Not flushed to the disk: after a loss of power, the host takes longer to start than the session to time out.

    Args:
        directory: One of the broker's log directories.
        key: The session.

    Raises:
        OSError: the directory cannot be written.
    """
    path = directory / FILE_NAME
    temporary = path.with_suffix(".tmp")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    value = {
        "version": 1,
        "inode": os.fstat(descriptor).st_ino,
        "hosts": key.hosts,
        "session_id": key.session_id,
        "password": key.password.hex(),
        "timeout_ms": int(key.timeout_s * 1000),
    }
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(value, file)
    temporary.replace(path)


def read_session_record(directory: Path) -> SessionKey | None:
    """Read the session that was recorded last; ``None`` if there is none, or it is unusable."""
    path = directory / FILE_NAME
    try:
        with path.open(encoding="utf-8") as file:
            value = json.load(file)
            inode = os.fstat(file.fileno()).st_ino
        if value.get("inode", inode) != inode:
            logger.warning(
                "%s was copied: its session may be that of a broker that lives, and is left alone", path
            )
            return None
        return SessionKey(
            str(value["hosts"]),
            int(value["session_id"]),
            bytes.fromhex(value["password"]),
            int(value["timeout_ms"]) / 1000,
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        logger.warning("%s is not usable (%r): waiting for the former session to time out", path, error)
        return None


def erase_session_record(directory: Path) -> None:
    """Forget the session, after it was closed in good order."""
    (directory / FILE_NAME).unlink(missing_ok=True)


def close_former_session(
    directory: Path, hosts: str, monotonic: Callable[[], float], access: ZooKeeperAccess = OPEN
) -> None:
    """Close the session of the broker's former process, if one is recorded; blocks, so call it in a thread.

    Call it with the directory's lock held and before registering. If ZooKeeper does not answer, or the record is lost,
    registering waits for the former node to vanish instead.

    Args:
        directory: One of the broker's log directories.
        hosts: The present `zookeeper.connect`: the ensemble may have moved since.
        monotonic: A clock that only goes forward, in seconds.
        access: How ZooKeeper is reached.
    """
    key = read_session_record(directory)
    if key is None:
        return
    key = SessionKey(hosts, key.session_id, key.password, key.timeout_s, access)
    if close_session(key, monotonic):
        logger.info("closed session 0x%x of the broker's former life", key.session_id & 0xFFFFFFFFFFFFFFFF)
        try:
            erase_session_record(directory)
        except OSError as error:
            logger.warning("the record of the closed session stays in %s: %s", directory, error)


class SessionRecords:
    """The record of the present session, in the first log directory that accepts it.

    Args:
        directories: Returns the log directories that are online; none if nothing is to be recorded.
    """

    def __init__(self, directories: Callable[[], Sequence[Path]]) -> None:
        self._directories = directories

    def write(self, key: SessionKey) -> None:
        """Record the session; if no directory accepts it, log that."""
        directories = self._directories()
        for directory in directories:
            try:
                write_session_record(directory, key)
            except OSError as error:
                logger.warning("the session is not recorded in %s: %s", directory, error)
            else:
                return
        if directories:
            logger.warning("no log directory records the session: it must time out should we die")

    def erase(self) -> None:
        """Forget the session, after it was closed in good order."""
        for directory in self._directories():
            try:
                erase_session_record(directory)
            except OSError as error:
                logger.warning("the record of the closed session stays in %s: %s", directory, error)

    def close_former(
        self, hosts: str, monotonic: Callable[[], float], access: ZooKeeperAccess = OPEN
    ) -> None:
        """Close the sessions of the broker's former processes; blocks, see `close_former_session`."""
        for directory in self._directories():
            close_former_session(directory, hosts, monotonic, access)
