"""Commands' connections to ZooKeeper itself, with TLS and a user where a file says so."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from ottla.commands.terminal.failure import CommandError
from security.zookeeper_access import OPEN, ZooKeeperAccess, zookeeper_access

if TYPE_CHECKING:
    from kazoo.client import KazooClient

CONNECT_TIMEOUT_S: Final = 10.0
CONFIG_FILE: Final = "--zk-tls-config-file"
_Command = TypeVar("_Command", bound=Callable[..., Any])


def zookeeper_config_option(*aliases: str) -> Callable[[_Command], _Command]:
    """Add `CONFIG_FILE` to a command; its function gets a `ZooKeeperAccess` called ``access``."""
    return click.option(
        CONFIG_FILE,
        *aliases,
        "access",
        type=click.Path(path_type=Path, exists=True, dir_okay=False),
        callback=_read_access,
        help="How ZooKeeper is reached: the keys zookeeper.ssl.*, zookeeper.set.acl and "
        "ottla.zookeeper.jaas.config; a broker's server.properties will do.",
    )


def _read_access(_context: click.Context, _option: click.Parameter, path: Path | None) -> ZooKeeperAccess:
    if path is None:
        return OPEN
    from security.client_config import read_client_properties
    from security.errors import SecurityConfigError

    try:
        return zookeeper_access(read_client_properties(path).get)
    except (SecurityConfigError, OSError) as error:
        raise CommandError(f"{path}: {error}") from None


@contextmanager
def connected(
    connect: str, access: ZooKeeperAccess = OPEN, timeout_s: float = CONNECT_TIMEOUT_S
) -> "Iterator[KazooClient]":
    """Connect to a ZooKeeper, and leave it again.

    Args:
        connect: ``host:port,...[/chroot]``.
        access: How it is reached.
        timeout_s: How long the connection may take, and the session timeout.

    Raises:
        CommandError: it is not reached, or it refuses what is asked.
    """
    import logging
    import warnings

    from kazoo.exceptions import KazooException
    from kazoo.handlers.threading import KazooTimeoutError

    from cluster.zookeeper import kazoo_connection

    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    kazoo_connection.logger.setLevel(logging.CRITICAL)  # the failure is shown below
    # What a missing chroot means is for the command to say.
    warnings.filterwarnings("ignore", "No chroot path exists", UserWarning)
    client = kazoo_connection.blocking_client(connect, timeout_s, access)
    try:
        client.start(timeout=timeout_s)
        yield client
    except KazooTimeoutError:
        reason = kazoo_connection.failure_of(client)
        text = f"no ZooKeeper answers at {connect}"
        raise CommandError(text if reason is None else f"{text}: {reason}") from None
    except KazooException as error:
        raise CommandError(f"ZooKeeper: {type(error).__name__} {error}") from None
    finally:
        client.stop()
        client.close()
