"""The settings of the web page."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ottla.client.schema_registry import SchemaRegistry


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSettings:
    """What the page is allowed to do, and its sources besides the cluster.

    Attributes:
        bootstrap_servers: The cluster.
        command_config: The client's properties file; None without one.
        host: The address that the page listens on.
        port: The port of it.
        names: Other names that browsers may reach it by.
        allow_changes: Whether anything can be changed.
        password: The password of a login; None if no login is needed.
        data: The directory of a cluster on this machine, whose journals are shown; None without one.
        journals: Journals, or directories with them, besides.
        checkpoints: Directories with the checkpoints of Spark jobs.
        registry: Knows the schemas of Avro values; None without one.
        certificate: The page's certificate, for https; None without.
        key: The private key of it.
    """

    bootstrap_servers: str
    command_config: Path | None = None
    host: str = "127.0.0.1"
    port: int = 9080
    names: Sequence[str] = ()
    allow_changes: bool = False
    password: str | None = None
    data: Path | None = None
    journals: Sequence[Path] = ()
    checkpoints: Sequence[Path] = ()
    registry: SchemaRegistry | None = None
    certificate: Path | None = None
    key: Path | None = None

    @property
    def is_secure(self) -> bool:
        """Whether browsers reach the page by https."""
        return self.certificate is not None
