"""The `meta.properties` file: whose log directory this is, in Java's properties format.

#
#Sat Nov 21 10:00:00 UTC 2026
broker.id=1
cluster.id=4L6g3nShT-eMCtK--X86sw
ottla.formatted.zxid=25769803792
version=0

`ottla.formatted.zxid` is ours: the newest ZooKeeper transaction when the directory was first used. A partition that got
its leader later has never had a log in a directory that this one replaced. Apache Kafka ignores it.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from storage import names
from storage.disk import Disk
from storage.errors import InconsistentDirectoryError
from wire.types import BrokerId

_VERSION: Final = "version"
_CLUSTER_ID: Final = "cluster.id"
_BROKER_ID: Final = "broker.id"
_NODE_ID: Final = "node.id"
_FORMATTED: Final = "ottla.formatted.zxid"


class MetaProperties(NamedTuple):
    """A log directory's identity; a field is None where the file lacks it.

    `others` are properties that later versions of Kafka keep there; they are written back as they were.
    """

    cluster_id: str | None
    broker_id: BrokerId | None
    others: Mapping[str, str]

    @property
    def formatted_zxid(self) -> int | None:
        """The newest ZooKeeper transaction when the directory was first used; None where that was not noted."""
        value = self.others.get(_FORMATTED, "")
        return int(value) if value.isdecimal() else None

    def formatted_at(self, zxid: int) -> "MetaProperties":
        """Return the same with that transaction noted."""
        return self._replace(others={**self.others, _FORMATTED: str(zxid)})


def read_meta_properties(disk: Disk, directory: str) -> MetaProperties | None:
    """Read a log directory's identity; None where it has none yet.

    Raises:
        InconsistentDirectoryError: the file makes no sense, or was formatted for KRaft.
        OSError: the disk failed.
    """
    path = f"{directory}/{names.META_PROPERTIES}"
    try:
        text = disk.read(path).decode("latin-1")
    except FileNotFoundError:
        return None
    values = _parse(text)
    version = values.pop(_VERSION, None)
    if version != "0" or _NODE_ID in values:
        raise InconsistentDirectoryError(
            f"{path} has version {version}: the directory was not written by a broker in ZooKeeper mode"
        )
    cluster_id, broker_id = values.pop(_CLUSTER_ID, None), values.pop(_BROKER_ID, None)
    try:
        number = None if broker_id is None else BrokerId(int(broker_id))
    except ValueError:
        raise InconsistentDirectoryError(
            f"{path} has the broker id {broker_id!r}, expected a number"
        ) from None
    return MetaProperties(cluster_id, number, values)


def write_meta_properties(disk: Disk, directory: str, properties: MetaProperties) -> None:
    """Write a log directory's identity; it survives power loss on return.

    Raises:
        OSError: the disk failed.
    """
    values = {_VERSION: "0", **properties.others}
    if properties.cluster_id is not None:
        values[_CLUSTER_ID] = properties.cluster_id
    if properties.broker_id is not None:
        values[_BROKER_ID] = str(properties.broker_id)
    lines = [f"{name}={_escape(value)}\n" for name, value in sorted(values.items())]
    disk.replace(
        f"{directory}/{names.META_PROPERTIES}", "".join(lines).encode("latin-1", "replace"), sync=True
    )


def _parse(text: str) -> dict[str, str]:
    values: dict[str, str] = {}
    for line in text.splitlines():
        line = line.strip()
        if not line or line[0] in "#!":
            continue
        name, _, value = line.partition("=")
        values[_unescape(name.strip())] = _unescape(value.strip())
    return values


def _escape(text: str) -> str:
    return "".join(f"\\{char}" if char in "\\:=#!" else char for char in text)


def _unescape(text: str) -> str:
    out, escaped = [], False
    for char in text:
        if char == "\\" and not escaped:
            escaped = True
            continue
        out.append(char)
        escaped = False
    return "".join(out)
