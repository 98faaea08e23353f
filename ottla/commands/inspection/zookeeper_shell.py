"""``ottla zookeeper-shell``: look at, and change, the znodes of a cluster.

With a command it does that one; without, it reads commands from the terminal or a pipe, one a line.
"""

import json
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from ottla.commands.terminal.failure import CommandError
from ottla.commands.terminal.zookeeper import connected, zookeeper_config_option
from security.zookeeper_access import ZooKeeperAccess

if TYPE_CHECKING:
    from kazoo.client import KazooClient

_USAGE: Final = "ls [-s] [-R] PATH | get [-s] PATH | stat PATH | set [-v VERSION] PATH DATA | quit"


@click.command("zookeeper-shell", context_settings={"ignore_unknown_options": True})
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs; with a command.")
@zookeeper_config_option("-zk-tls-config-file")
@click.argument("connect", metavar="HOST:PORT[/CHROOT]")
@click.argument("words", metavar="[COMMAND]...", nargs=-1, type=click.UNPROCESSED)
def command(as_json: bool, access: ZooKeeperAccess, connect: str, words: Sequence[str]) -> None:
    """Look at the znodes of a cluster: ls, get, stat; or set one.

    \b
    ls [-s] [-R] PATH         names below, -R all the way down, -s with the znode's statistics
    get [-s] PATH             the data, JSON indented
    stat PATH                 versions, times, owner
    set [-v VERSION] PATH DATA
    """
    with connected(connect, access) as client:
        if words:
            _run(client, words, as_json=as_json)
            return
        for line in _lines():
            try:
                words = shlex.split(line)
                if words and words[0] in ("quit", "exit"):
                    return
                if words:
                    _run(client, words, as_json=False)
            except ValueError as error:
                click.echo(f"not understood: {error}", err=True)
            except CommandError as error:
                click.echo(error.message, err=True)


def _lines() -> Iterator[str]:
    prompt = "zk> " if sys.stdin.isatty() else ""
    while True:
        try:
            yield input(prompt)
        except EOFError:
            return


def _run(client: "KazooClient", words: Sequence[str], *, as_json: bool) -> None:
    name, *arguments = words
    action = _ACTIONS.get(name)
    if action is None:
        raise CommandError(f"{name!r} is none of: {_USAGE}")
    from kazoo.exceptions import BadVersionError, NoNodeError

    try:
        result = action(client, arguments)
    except NoNodeError:
        raise CommandError(f"there is no such znode: {' '.join(arguments)}") from None
    except BadVersionError:
        raise CommandError("the znode has another version") from None
    click.echo(json.dumps(result) if as_json else _text(result))


def _text(result: Any) -> str:
    """Write a result for people: lines of names, indented JSON, or fields below each other."""
    if isinstance(result, list):
        return "\n".join(result)
    if not isinstance(result, dict):
        return str(result)
    lines = []
    if "data" in result:
        data = result["data"]
        lines.append(data if isinstance(data, str) else _indented(data))
    lines += result.get("children", [])
    lines += [f"{name} = {value}" for name, value in result.get("stat", {}).items()]
    return "\n".join(lines)


def _indented(data: Any, indent: str = "") -> str:
    """Write JSON with each member of an object on a line, and lists of plain values on one."""
    inner = indent + "  "
    if isinstance(data, dict) and data:
        members = [f"{inner}{json.dumps(name)}: {_indented(value, inner)}" for name, value in data.items()]
        return "{\n" + ",\n".join(members) + f"\n{indent}}}"
    if isinstance(data, list) and any(isinstance(value, dict | list) for value in data):
        return "[\n" + ",\n".join(inner + _indented(value, inner) for value in data) + f"\n{indent}]"
    return json.dumps(data)


def _options(arguments: Sequence[str], flags: str, count: int) -> tuple[dict[str, str], list[str]]:
    """Split arguments into flags and the rest; a flag followed by ``:`` has a value.

    Raises:
        CommandError: a flag is unknown, or the rest has another length.
    """
    given: dict[str, str] = {}
    rest = list(arguments)
    while rest and rest[0].startswith("-") and len(rest[0]) == 2:
        flag = rest.pop(0)[1]
        place = flags.find(flag)
        if place < 0 or flag == ":":
            raise CommandError(f"-{flag} is not known here: {_USAGE}")
        has_value = flags[place + 1 : place + 2] == ":"
        given[flag] = rest.pop(0) if has_value and rest else ""
    if len(rest) != count:
        raise CommandError(_USAGE)
    return given, rest


def _get(client: "KazooClient", arguments: Sequence[str]) -> dict[str, Any]:
    flags, (path,) = _options(arguments, "s", 1)
    data, stat = client.get(path)
    result: dict[str, Any] = {"data": readable(data)}
    return result | ({"stat": _stat_fields(stat)} if "s" in flags else {})


def _ls(client: "KazooClient", arguments: Sequence[str]) -> dict[str, Any] | list[str]:
    flags, (path,) = _options(arguments, "sR", 1)
    if "R" in flags:
        return list(_below(client, path))
    children = sorted(client.get_children(path))
    if "s" not in flags:
        return children
    return {"children": children, "stat": _stat_fields(client.get(path)[1])}


def _below(client: "KazooClient", path: str) -> Iterator[str]:
    yield path
    for name in sorted(client.get_children(path)):
        yield from _below(client, f"{path.rstrip('/')}/{name}")


def _stat(client: "KazooClient", arguments: Sequence[str]) -> dict[str, Any]:
    _, (path,) = _options(arguments, "", 1)
    return {"stat": _stat_fields(client.get(path)[1])}


def _set(client: "KazooClient", arguments: Sequence[str]) -> dict[str, Any]:
    flags, (path, data) = _options(arguments, "v:s", 2)
    try:
        version = int(flags.get("v", "-1"))
    except ValueError:
        raise CommandError("a version is a number") from None
    return {"stat": _stat_fields(client.set(path, data.encode(), version))}


def readable(data: bytes) -> Any:
    """Return the data of a znode as what it is: JSON, text, or bytes in hexadecimal."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return "0x" + data.hex()
    try:
        found = json.loads(text)
    except ValueError:
        return text
    return found if isinstance(found, dict | list) else text


def _stat_fields(stat: Any) -> dict[str, Any]:
    return {
        "version": stat.version,
        "cversion": stat.cversion,
        "czxid": stat.czxid,
        "mzxid": stat.mzxid,
        "ctime": _time(stat.ctime),
        "mtime": _time(stat.mtime),
        "ephemeralOwner": hex(stat.ephemeralOwner) if stat.ephemeralOwner else None,
        "dataLength": stat.dataLength,
        "numChildren": stat.numChildren,
    }


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")


_ACTIONS: Final[Mapping[str, Callable[["KazooClient", Sequence[str]], Any]]] = {
    "ls": _ls,
    "get": _get,
    "stat": _stat,
    "set": _set,
}
