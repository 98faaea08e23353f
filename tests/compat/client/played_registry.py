"""A schema registry for tests: it answers the few requests that serialisers make like Confluent's, over real HTTP."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class PlayedRegistry:
    """Schemas by id and subject.

    Attributes:
        url: Its address.
        asked: The requests so far.
        is_down: Whether every answer is status 503.
    """

    def __init__(self) -> None:
        self.url = ""
        self.asked: list[str] = []
        self.is_down = False
        self.schemas: list[dict[str, Any]] = []
        self.subjects: dict[str, list[int]] = {}

    def add(self, subject: str, schema: dict[str, Any]) -> int:
        """Register a schema; return its id."""
        if schema not in self.schemas:
            self.schemas.append(schema)
        schema_id = self.schemas.index(schema) + 1
        versions = self.subjects.setdefault(subject, [])
        if schema_id not in versions:
            versions.append(schema_id)
        return schema_id

    def answer(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Return the HTTP status and the body of an answer."""
        self.asked.append(f"{method} {path}")
        if self.is_down:
            return 503, {"message": "down for a test"}
        match path.strip("/").split("/"):
            case ["schemas", "ids", number] if 0 < int(number) <= len(self.schemas):
                return 200, self.schemas[int(number) - 1]
            case ["subjects", subject, "versions"] if method == "POST":
                if "incompatible" in body["schema"]:
                    return 409, {"message": "Schema being registered is incompatible"}
                return 200, {"id": self.add(subject, body)}
            case ["subjects", subject, "versions", version] if subject in self.subjects:
                versions = self.subjects[subject]
                schema_id = versions[-1 if version == "latest" else int(version) - 1]
                return 200, {"id": schema_id, **self.schemas[schema_id - 1]}
            case ["subjects", subject] if method == "POST" and body in self.schemas:
                schema_id = self.schemas.index(body) + 1
                if schema_id in self.subjects.get(subject, ()):
                    return 200, {"id": schema_id, **body}
        return 404, {"error_code": 40403, "message": "not found"}


@contextmanager
def registry() -> Iterator[PlayedRegistry]:
    """Serve a registry on a free port."""
    played = PlayedRegistry()

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, found = played.answer(self.command, self.path, json.loads(body) if body else {})
            data = json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = _answer

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    played.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield played
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
