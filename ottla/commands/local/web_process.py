"""The web page of ``ottla up``: a process of its own, which ends with the command however that ends."""

import subprocess
import sys
from typing import TYPE_CHECKING, Final

import click

from ottla.commands.terminal.failure import CommandError

if TYPE_CHECKING:
    from ottla.commands.local.cluster_directory import ClusterDirectory

HOST: Final = "127.0.0.1"
PORT: Final = 9080
END_TIMEOUT_S: Final = 5.0


class WebProcess:
    """A running web page; close it, or let this process end.

    Args:
        directory: The cluster.
        port: The page's port.
    """

    def __init__(self, directory: "ClusterDirectory", port: int) -> None:
        command = [sys.executable, "-m", __package__.partition(".")[0], "web", "--data", str(directory.path)]
        # In a session of its own: Ctrl-C is for the command, and the end of its input ends the page.
        self._log = directory.path / "web.log"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "--host", HOST, "--port", str(port), "--end-with-input"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )

    def first_lines(self) -> str:
        """Wait until the page is served, and return what it says of itself: its address, and a password if it has one.

        Of one that cannot be served it returns where the reason is.
        """
        assert self._process.stdout is not None
        lines = []
        while line := self._process.stdout.readline().decode(errors="replace").rstrip():
            lines.append(line)
        return "\n".join(lines) or f"no web page: {self._log} says why"

    def close(self) -> None:
        """End the page, and wait for its end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        try:
            self._process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def start_web(directory: "ClusterDirectory", port: int | None) -> WebProcess | None:
    """Start the page, and print its address; where its packages are missing, print that instead.

    Args:
        directory: The cluster, which runs.
        port: The page's port; None for the usual one, or a free one where that is taken.
    """
    from ottla.commands.web.web import require_packages
    from ottla.zookeeper_server import ZooKeeperStartError, free_port, require_free_port

    try:
        require_packages()
    except CommandError as error:
        click.echo(error.message)
        return None
    if port is None:
        try:
            require_free_port(HOST, PORT, "the web page")
            port = PORT
        except ZooKeeperStartError:
            port = free_port(HOST)
    page = WebProcess(directory, port)
    click.echo(page.first_lines())
    return page
