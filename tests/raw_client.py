"""A client of single requests, in bytes that the test chooses, where no client library would send them."""

import socket
import struct
from typing import Any, Self

from wire.apis import API_TABLE
from wire.frames import decode_response, encode_request
from wire.schema import Request

CLIENT = "raw-client"


class RawClient:
    """One blocking connection, one request at a time. A context manager."""

    def __init__(self, address: str, timeout_s: float = 60) -> None:
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, request: Request, version: int) -> Any:
        """Send a request and return its decoded response, of which no byte is allowed to be left over."""
        self.socket.sendall(encode_request(request, version, 7, CLIENT))
        correlation_id, answer = decode_response(
            API_TABLE[request.__schema__.api_key].response, version, self.read_frame()
        )
        assert correlation_id == 7
        return answer

    def read_frame(self) -> bytes:
        """Read one frame, without its length."""
        (size,) = struct.unpack(">i", self.read(4))
        return self.read(size)

    def read(self, size: int) -> bytes:
        """Read exactly `size` bytes."""
        data = b""
        while len(data) < size:
            chunk = self.socket.recv(size - len(data))
            assert chunk, "the broker closed the connection"
            data += chunk
        return data

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()
