"""``ottla configs --entity-type users``: SCRAM credentials, through brokers or before there are any.

    --add-config 'SCRAM-SHA-512=[iterations=8192,password=secret]'
    --delete-config SCRAM-SHA-512

With ``--zookeeper`` the credential is written to the user's znode: brokers that authenticate to each other by SCRAM
need the first user before the first of them starts.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import click

from ottla.commands.terminal.failure import CommandError

if TYPE_CHECKING:
    from ottla.client.admin import Admin
    from security.scram import ScramMechanism
    from security.zookeeper_access import ZooKeeperAccess

_ITERATIONS: Final = 4096
_SALT_SIZE: Final = 16
_ATTEMPTS: Final = 10


def read_credentials(settings: Mapping[str, str]) -> "dict[ScramMechanism, tuple[str, int]]":
    """Return the password and the iterations of each mechanism that is to be set.

    Args:
        settings: By mechanism, ``iterations=N,password=TEXT``; a password may hold commas and equals signs.

    Raises:
        CommandError: it is written otherwise, or the iterations are too few or too many.
    """
    from security.scram import ITERATIONS_MAX, ITERATIONS_MIN

    found = {}
    for name, text in settings.items():
        mechanism = _mechanism(name)
        head, mark, password = text.partition("password=")
        iterations = _ITERATIONS
        if head.strip():
            key, _, number = head.strip().rstrip(",").partition("=")
            if key.strip() != "iterations" or not number.strip().isdecimal():
                raise CommandError(f"{name} is written [iterations=N,password=TEXT]")
            iterations = int(number)
        if not mark or not password:
            raise CommandError(f"{name} lacks its password: [password=TEXT]")
        if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
            raise CommandError(
                f"{name}: iterations are {ITERATIONS_MIN} to {ITERATIONS_MAX}, not {iterations}"
            )
        found[mechanism] = (password, iterations)
    return found


async def alter_through_brokers(
    admin: "Admin", user: str, settings: Mapping[str, str], removed: Sequence[str]
) -> None:
    """Set and remove a user's credentials through the cluster."""
    await admin.alter_scram_credentials(
        user, read_credentials(settings), [_mechanism(name) for name in removed]
    )


async def scram_users(admin: "Admin", user: str | None) -> dict[str, dict[str, int]]:
    """Return the iterations by mechanism of one user, or of all; a user without credentials is left out."""
    found = await admin.describe_scram_users([] if user is None else [user])
    return {name: {m.value: n for m, n in each.items()} for name, each in found.items() if each}


def scram_lines(users: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Return a line for each user, as Kafka's tool prints it."""
    lines = []
    for name, each in users.items():
        listed = ", ".join(f"{mechanism}=iterations={count}" for mechanism, count in each.items())
        lines.append(f"SCRAM credential configs for user-principal '{name}' are {listed}")
    return lines


def alter_in_zookeeper(
    connect: str,
    access: "ZooKeeperAccess",
    user: str,
    settings: Mapping[str, str],
    removed: Sequence[str],
) -> None:
    """Set and remove a user's credentials in ZooKeeper, and announce it to brokers that run.

    Args:
        connect: ``host:port[/chroot]``.
        access: How ZooKeeper is reached, and whether the user's znode is protected.
        user: Whose.
        settings: What is set, as `read_credentials` takes it.
        removed: The mechanisms that the user no longer has.

    Raises:
        CommandError: ZooKeeper is not reached or refuses, or something is to be removed that is not there.
    """
    from security.scram import make_credential

    stored = {}
    for mechanism, (password, iterations) in read_credentials(settings).items():
        salt = secrets.token_bytes(_SALT_SIZE)
        stored[mechanism.value] = make_credential(mechanism, password, salt, iterations).to_text()
    names = [_mechanism(name).value for name in removed]

    def changed(present: dict[str, str]) -> dict[str, str]:
        absent = [name for name in names if name not in present]
        if absent:
            raise CommandError(f"the user {user} has no {absent[0]} credential")
        return {name: value for name, value in present.items() if name not in names} | stored

    _change_znode(connect, access, user, changed)
    click.echo(f"Completed updating config for entity: user-principal '{user}'.")


def _change_znode(
    connect: str,
    access: "ZooKeeperAccess",
    user: str,
    changed: Callable[[dict[str, str]], dict[str, str]],
) -> None:
    """Change a user's configuration by compare-and-set, and leave the notification that brokers read."""
    from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

    from cluster.zookeeper.config_znodes import USERS, ConfigEntityZnode, sanitize
    from cluster.zookeeper.kazoo_connection import create_node
    from cluster.zookeeper.notification_znodes import ConfigChangeZnode
    from ottla.commands.terminal.zookeeper import connected

    path = ConfigEntityZnode.path(USERS, sanitize(user))
    with connected(connect, access) as client:
        for _ in range(_ATTEMPTS):
            try:
                data, stat = client.get(path)
                config = changed(ConfigEntityZnode.decode(data))
                client.set(path, ConfigEntityZnode.encode(config), version=stat.version)
            except NoNodeError:
                try:
                    create_node(client, access, path, ConfigEntityZnode.encode(changed({})))
                except NodeExistsError:
                    continue
            except BadVersionError:
                continue
            break
        else:
            raise CommandError(f"others keep changing the user {user}: try again")
        notification = ConfigChangeZnode.encode(f"{USERS}/{sanitize(user)}")
        create_node(client, access, ConfigChangeZnode.PREFIX, notification, sequence=True)


def _mechanism(name: str) -> "ScramMechanism":
    from security.scram import ScramMechanism

    try:
        return ScramMechanism(name)
    except ValueError:
        known = ", ".join(each.value for each in ScramMechanism)
        raise CommandError(f"{name} is no SCRAM mechanism; {known} are") from None
