"""``ottla zookeeper-security-migration``: protect the znodes of a cluster, or open them again; Kafka's flags.

    1. Have every broker log in to ZooKeeper, with zookeeper.set.acl=false; restart them one by one.
    2. Set zookeeper.set.acl=true; restart them one by one. What they create is protected now.
    3. Run this: what was created before is protected, too.

Opening goes the other way round: false, restarts, this command, then without the login.
"""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import click

from ottla.commands.terminal.choice import json_option
from ottla.commands.terminal.failure import CommandError
from ottla.commands.terminal.zookeeper import CONFIG_FILE, connected, zookeeper_config_option
from security.zookeeper_access import JAAS_CONFIG, ZooKeeperAccess

if TYPE_CHECKING:
    from kazoo.client import KazooClient

_TIMEOUT_MS: Final = 30_000


@click.command("zookeeper-security-migration")
@click.option(
    "--zookeeper.acl",
    "acl",
    type=click.Choice(("secure", "unsecure")),
    required=True,
    help="secure: the cluster's user alone may change its znodes. unsecure: everybody may.",
)
@click.option(
    "--zookeeper.connect",
    "connect",
    metavar="HOST:PORT,...[/CHROOT]",
    default="localhost:2181",
    show_default=True,
    help="The cluster's ZooKeeper.",
)
@click.option("--zookeeper.session.timeout", "session_ms", type=int, default=_TIMEOUT_MS, metavar="MS")
@click.option("--zookeeper.connection.timeout", "connection_ms", type=int, default=_TIMEOUT_MS, metavar="MS")
@click.option("--enable.path.check", "checks_paths", is_flag=True, help="Fail where a path is missing.")
@zookeeper_config_option()
@json_option
def command(
    acl: str,
    connect: str,
    session_ms: int,
    connection_ms: int,
    checks_paths: bool,
    access: ZooKeeperAccess,
    as_json: bool,
) -> None:
    """Protect the znodes of a cluster that was made without zookeeper.set.acl, or open them again."""
    secures = acl == "secure"
    if not access.user and not (access.tls is not None and "ssl.keystore.key" in access.tls):
        raise CommandError(
            f"the znodes need an owner: give {CONFIG_FILE} a file with {JAAS_CONFIG}, or with a client's "
            "certificate for TLS"
        )
    wanted = ZooKeeperAccess(access.tls, access.user, access.password, protects=secures)
    with connected(connect, access, max(session_ms, connection_ms) / 1000) as client:
        if checks_paths:
            _require_paths(client)
        changed = sum(_protect(client, wanted, path) for path in _paths(client))
    if as_json:
        click.echo(json.dumps({"acl": acl, "znodes": changed}))
    else:
        click.echo(f"{changed} znodes are {'protected' if secures else 'open'}")


def _require_paths(client: "KazooClient") -> None:
    from cluster.zookeeper.protection import REQUIRED_ROOTS

    missing = [path for path in REQUIRED_ROOTS if not client.exists(path)]
    if missing:
        raise CommandError(f"{', '.join(missing)}: not there; is {client.chroot or '/'} the cluster's path?")


def _paths(client: "KazooClient") -> Iterator[str]:
    """Return the cluster's own paths, each before those below it."""
    from cluster.zookeeper.protection import ROOTS

    yield "/"
    for root in ROOTS:
        yield from _below(client, root)


def _below(client: "KazooClient", path: str) -> Iterator[str]:
    from kazoo.exceptions import NoNodeError

    try:
        names = client.get_children(path)
    except NoNodeError:
        return  # it is not made yet, or was removed meanwhile
    yield path
    for name in sorted(names):
        yield from _below(client, f"{path}/{name}")


def _protect(client: "KazooClient", access: ZooKeeperAccess, path: str) -> bool:
    """Set the list of one znode; False where it is gone."""
    from kazoo.exceptions import NoNodeError

    from cluster.zookeeper.kazoo_connection import access_list

    try:
        client.set_acls(path, access_list(access, path))
    except NoNodeError:
        return False
    return True
