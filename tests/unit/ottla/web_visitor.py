"""A browser without sockets, and a web page of a cluster that consists of plain values."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import urlencode

import trio
import trio.testing

from ottla.client.admin import Broker, ClusterDescription, PartitionDescription, TopicDescription
from ottla.client.settings import ConnectionSettings
from ottla.web.application import make_application
from ottla.web.server import make_web
from ottla.web.settings import WebSettings
from ottla.web.visit import Web
from wire.types import NO_TOPIC_ID, BrokerId, LeaderEpoch, MonotonicSeconds, WallMs

PASSWORD = "correct-horse"


class TrioClock:
    """The clock of the test's loop, which jumps over waits."""

    def wall_ms(self) -> WallMs:
        return WallMs(1_767_225_600_000 + int(trio.current_time() * 1000))

    def monotonic(self) -> MonotonicSeconds:
        return MonotonicSeconds(trio.current_time())


class FakeAdmin:
    """A cluster of brokers 0 and 1 with some topics; it answers only what tests need."""

    def __init__(self) -> None:
        brokers = {BrokerId(each): Broker(BrokerId(each), "kafka", 9092 + each, None) for each in (0, 1)}
        self.cluster = ClusterDescription("the-cluster", BrokerId(1), brokers)
        self.topics = [topic("orders", 2), topic("<script>", 1)]
        self.calls: list[tuple[str, Any]] = []

    async def refresh(self) -> ClusterDescription:
        await trio.lowlevel.checkpoint()
        return self.cluster

    async def describe_topics(self, names: object = None, **options: object) -> list[TopicDescription]:
        await trio.lowlevel.checkpoint()
        return self.topics


def topic(name: str, partitions: int) -> TopicDescription:
    both = (BrokerId(0), BrokerId(1))
    return TopicDescription(
        name,
        NO_TOPIC_ID,
        False,
        tuple(
            PartitionDescription(number, BrokerId(number % 2), LeaderEpoch(0), both, both, ())
            for number in range(partitions)
        ),
    )


class FakeKafka:
    def __init__(self, admin: Any) -> None:
        self.admin = admin


@dataclass
class Answered:
    """A response."""

    status: int
    headers: Mapping[str, str]
    text: str


@dataclass
class Visitor:
    """A browser: it keeps cookies, and sends the Host that it was given."""

    application: Any
    web: Web
    admin: Any
    host: str = "127.0.0.1:9080"
    cookies: dict[str, str] = field(default_factory=dict)

    async def get(self, path: str, **headers: str) -> Answered:
        return await self._ask("GET", path, b"", headers)

    async def post(self, path: str, fields: Mapping[str, object], **headers: str) -> Answered:
        headers = {"content-type": "application/x-www-form-urlencoded"} | headers
        return await self._ask("POST", path, urlencode(fields).encode(), headers)

    async def log_in(self) -> str:
        """Log in, and return the token of forms."""
        answer = await self.post("/login", {"password": PASSWORD})
        assert answer.status == 303, answer.text
        return (await self.get("/topics")).text.partition('name="csrf" value="')[2].partition('"')[0]

    async def _ask(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> Answered:
        raw, _, query = path.partition("?")
        sent: list[dict[str, Any]] = []
        incoming = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> dict[str, Any]:
            if incoming:
                return incoming.pop()
            await trio.sleep_forever()
            raise AssertionError

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        given = {"host": self.host} | headers
        if self.cookies:
            given["cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
            "path": raw, "raw_path": raw.encode(), "query_string": query.encode(), "root_path": "",
            "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in given.items()],
            "client": ("127.0.0.1", 5), "server": ("127.0.0.1", 9080),
        }  # fmt: skip
        await self.application(scope, receive, send)
        start = sent[0]
        answered = {name.decode().lower(): value.decode() for name, value in start["headers"]}
        for name, morsel in SimpleCookie(answered.get("set-cookie", "")).items():
            self.cookies[name] = morsel.value
        text = b"".join(message.get("body", b"") for message in sent[1:]).decode()
        return Answered(start["status"], answered, text)


def visit(
    story: Callable[[Visitor], Awaitable[None]],
    *,
    admin: Any = None,
    connected: bool = True,
    allow_changes: bool = False,
    password: str | None = None,
    **settings: Any,
) -> None:
    """Run a story with a page of a fake cluster, on a clock that jumps."""

    async def main() -> None:
        wanted = WebSettings(
            bootstrap_servers="kafka:9092",
            allow_changes=allow_changes,
            password=PASSWORD if allow_changes else password,
            **settings,
        )
        web = make_web(wanted, ConnectionSettings(), TrioClock())
        faked = admin or FakeAdmin()
        if connected:
            web.connection.use(FakeKafka(faked))  # type: ignore[arg-type]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(web.watch.run)
            await story(Visitor(make_application(web), web, faked))
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
