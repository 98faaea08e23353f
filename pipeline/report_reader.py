"""The launcher's end of a job's channel: JSON lines in, a request to stop out."""

import json
import socket
from collections.abc import Callable, Mapping
from typing import Any, Final

_CHUNK: Final = 65536


class ReportReader:
    """Reads the messages of one job."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._rest = b""
        self._open = True

    def read(self, show: Callable[[str, Mapping[str, Any]], None]) -> bool:
        """Receive what has arrived, pass on each whole message, and return whether more may come."""
        try:
            data = self._connection.recv(_CHUNK)
        except OSError:
            data = b""
        if not data:
            self._open = False
            return False
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            values = json.loads(line)
            show(values.pop("kind"), values)
        return True

    def drain(self, show: Callable[[str, Mapping[str, Any]], None]) -> None:
        """Read all that is left after the job has ended."""
        while self._open and self.read(show):
            pass

    def ask_to_stop(self) -> None:
        """Ask the job to stop."""
        try:
            self._connection.sendall(b"\n")
        except OSError:
            pass  # it is gone already

    def close(self) -> None:
        """Close the connection; a job that still runs takes it as a request to stop."""
        self._connection.close()
