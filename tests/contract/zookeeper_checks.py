"""What every implementation of `cluster.zookeeper.client.ZooKeeper` must do, as checks over a site.

A site is an ensemble, fake or real, with the means to cut connections and end sessions.
"""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import pytest
import trio
import trio.testing

from cluster.zookeeper.client import (
    ANY_VERSION,
    BadVersionError,
    CheckVersion,
    ConnectionLossError,
    Create,
    Delete,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    OversizedWriteError,
    RolledBackError,
    SessionEvent,
    SessionExpiredError,
    SetData,
    WatchEvent,
    WatchKind,
    ZooKeeper,
)
from wire.types import MonotonicSeconds, ZkVersion


class Site(Protocol):
    """An ensemble under test."""

    def connect(self, timeout_s: float = 4.0) -> AbstractAsyncContextManager[ZooKeeper]:
        """Connect a session; it is closed at the end of the block."""
        ...

    async def cut(self) -> None:
        """Cut every connection."""
        ...

    async def silence(self) -> None:
        """Stop answering, but leave every connection open."""
        ...

    async def restore(self) -> None:
        """Undo `cut` or `silence`."""
        ...

    async def expire(self, zookeeper: ZooKeeper) -> None:
        """End a session."""
        ...

    def monotonic(self) -> MonotonicSeconds:
        """The clock that the sessions use."""
        ...


Check = Callable[[Site], Awaitable[None]]
CHECKS: list[Check] = []


def check(function: Check) -> Check:
    CHECKS.append(function)
    return function


class Recorder:
    """Notes the events it receives, and lets a task wait for one."""

    def __init__(self) -> None:
        self.seen: list[object] = []
        self._changed = trio.Event()

    def __call__(self, event: object) -> None:
        self.seen.append(event)
        self._changed.set()
        self._changed = trio.Event()

    async def wait_for(self, event: object) -> None:
        while event not in self.seen:
            await self._changed.wait()

    async def wait_kind(self, kind: WatchKind) -> None:
        while not any(isinstance(event, WatchEvent) and event.kind is kind for event in self.seen):
            await self._changed.wait()


@check
async def check_nodes(site: Site) -> None:
    async with site.connect() as zk:
        assert await zk.create("/nodes", b"one") == "/nodes"
        with pytest.raises(NodeExistsError):
            await zk.create("/nodes")
        with pytest.raises(NoNodeError):
            await zk.create("/nodes/a/b")
        assert await zk.create("/nodes/a/b", make_parents=True) == "/nodes/a/b"
        data, stat = await zk.get("/nodes")
        assert (data, stat.version, stat.child_count, stat.ephemeral_owner) == (b"one", 0, 1, 0)
        assert stat.czxid == stat.mzxid > 0
        written = await zk.set("/nodes", b"two", stat.version)
        assert (written.version, written.czxid) == (1, stat.czxid)
        assert written.mzxid > stat.mzxid
        assert zk.last_zxid >= written.mzxid
        with pytest.raises(BadVersionError):
            await zk.set("/nodes", b"three", ZkVersion(0))
        assert (await zk.set("/nodes", b"three", ANY_VERSION)).version == 2
        with pytest.raises(NoNodeError):
            await zk.set("/nodes/none", b"", ANY_VERSION)
        assert await zk.exists("/nodes/none") is None
        assert (await zk.get("/nodes/a/b"))[0] == b""
        with pytest.raises(NotEmptyError):
            await zk.delete("/nodes/a", ANY_VERSION)
        with pytest.raises(BadVersionError):
            await zk.delete("/nodes/a/b", ZkVersion(7))
        await zk.delete("/nodes/a/b", ZkVersion(0))
        with pytest.raises(NoNodeError):
            await zk.delete("/nodes/a/b", ANY_VERSION)
        with pytest.raises(NoNodeError):
            await zk.get("/nodes/a/b")
        with pytest.raises(NoNodeError):
            await zk.children("/nodes/a/b")
        assert await zk.children("/nodes") == ["a"]
        path, stat = await zk.create_with_stat("/nodes/c", b"x")
        assert (path, stat.version) == ("/nodes/c", 0)
        assert stat == await zk.exists("/nodes/c")


@check
async def check_sequence(site: Site) -> None:
    async with site.connect() as zk:
        await zk.create("/queue")
        first = await zk.create("/queue/n_", b"", sequence=True)
        assert first == "/queue/n_0000000000"
        await zk.delete(first, ANY_VERSION)
        second = await zk.create("/queue/n_", b"", sequence=True)
        assert second > first


@check
async def check_ephemerals_end_with_their_session(site: Site) -> None:
    async with site.connect() as watcher:
        gone = Recorder()
        async with site.connect() as owner:
            await owner.create("/ephemeral", b"here", ephemeral=True)
            with pytest.raises(NoChildrenForEphemeralsError):
                await owner.create("/ephemeral/child")
            stat = await watcher.exists("/ephemeral", gone)
            assert stat is not None
            assert stat.ephemeral_owner == owner.session_id != watcher.session_id
        await gone.wait_for(WatchEvent(WatchKind.DELETED, "/ephemeral"))
        assert await watcher.exists("/ephemeral") is None


@check
async def check_multi(site: Site) -> None:
    async with site.connect() as zk:
        await zk.create("/multi", b"0")
        result = await zk.multi(
            [
                CheckVersion("/multi", ZkVersion(0)),
                Create("/multi/a", b"a"),
                Create("/multi/s", b"a", sequence=True),
                SetData("/multi", b"1", ZkVersion(0)),
                Delete("/multi/a", ZkVersion(0)),
            ]
        )
        assert result.ok
        assert result.results[0] is None
        assert result.results[1] == "/multi/a"
        assert result.stat(3).version == 1
        assert result.results[4] is None
        assert await zk.exists("/multi/a") is None
        failed = await zk.multi(
            [
                Create("/multi/b", b""),
                SetData("/multi", b"2", ZkVersion(0)),
                Create("/multi/c", b""),
            ]
        )
        assert not failed.ok
        assert [type(r) for r in failed.results] == [RolledBackError, BadVersionError, RolledBackError]
        assert failed.failure is not None
        assert failed.failure[0] == 1
        with pytest.raises(BadVersionError):
            failed.raise_failure()
        assert await zk.exists("/multi/b") is None
        assert (await zk.get("/multi"))[0] == b"1"
        fenced = await zk.multi([CheckVersion("/multi", ZkVersion(9)), Create("/multi/d")])
        assert fenced.failure is not None
        assert fenced.failure[0] == 0
        owned = await zk.multi([Create("/multi/e", ephemeral=True), SetData("/multi/e", b"x", ZkVersion(0))])
        assert owned.stat(1).ephemeral_owner == zk.session_id
        assert owned.stat(1).czxid == owned.stat(1).mzxid


@check
async def check_many(site: Site) -> None:
    count = 600
    async with site.connect() as zk:
        await zk.create("/many")
        results = await zk.multi_many([[Create(f"/many/{n}", str(n).encode())] for n in range(count)])
        assert [getattr(r, "results", r) for r in results] == [(f"/many/{n}",) for n in range(count)]
        answers = await zk.get_many([f"/many/{n}" for n in range(-1, count)])
        assert answers[0] is None
        assert [answer[0] for answer in answers if answer is not None] == [
            str(n).encode() for n in range(count)
        ]
        assert await zk.children_many(["/many/0", "/many/none"]) == [[], None]
        assert await zk.get_many([]) == []
        assert await zk.multi_many([]) == []
        again = await zk.multi_many([[Create("/many/0")], [Create("/many/new")]])
        assert [getattr(r, "ok", r) for r in again] == [False, True]


@check
async def check_watches_fire_once(site: Site) -> None:
    async with site.connect() as zk, site.connect() as other:
        await zk.create("/watched")
        data, missing, children, deleted = Recorder(), Recorder(), Recorder(), Recorder()
        await zk.get("/watched", data)
        await zk.exists("/watched/child", missing)
        await zk.children("/watched", children)
        await other.set("/watched", b"1", ANY_VERSION)
        await other.set("/watched", b"2", ANY_VERSION)
        await data.wait_for(WatchEvent(WatchKind.CHANGED, "/watched"))
        await other.create("/watched/child")
        await missing.wait_for(WatchEvent(WatchKind.CREATED, "/watched/child"))
        await children.wait_for(WatchEvent(WatchKind.CHILDREN, "/watched"))
        await other.create("/watched/another")
        await zk.get_many(["/watched/child", "/watched/none"], deleted)
        await other.delete("/watched/child", ANY_VERSION)
        await deleted.wait_for(WatchEvent(WatchKind.DELETED, "/watched/child"))
        assert [len(r.seen) for r in (data, missing, children, deleted)] == [1, 1, 1, 1]
        with pytest.raises(NoNodeError):
            await zk.get("/watched/none", data)
        await other.create("/watched/none")
        await zk.exists("/")
        assert len(data.seen) == 1


@check
async def check_a_disconnection_drops_watches_and_keeps_the_session(site: Site) -> None:
    async with site.connect() as zk:
        await zk.create("/kept", b"x", ephemeral=True)
        events, watch = Recorder(), Recorder()
        zk.subscribe(events)
        await zk.get("/kept", watch)
        session_id = zk.session_id
        await site.cut()
        await events.wait_for(SessionEvent.SUSPENDED)
        await watch.wait_for(WatchEvent(WatchKind.DROPPED, "/kept"))
        read: list[bytes] = []

        async def read_on() -> None:
            read.append((await zk.get("/kept"))[0])

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read_on)
            await trio.testing.wait_all_tasks_blocked()
            await site.restore()
        await events.wait_for(SessionEvent.RECONNECTED)
        assert read == [b"x"]
        assert zk.session_id == session_id
        await zk.set("/kept", b"y", ANY_VERSION)
        assert len(watch.seen) == 1
        assert SessionEvent.EXPIRED not in events.seen


@check
async def check_a_write_under_way_has_an_unknown_outcome(site: Site) -> None:
    async with site.connect() as zk:
        await zk.create("/written", b"0")
        outcomes: list[object] = []

        async def write() -> None:
            try:
                outcomes.append(await zk.set("/written", b"1", ZkVersion(0)))
            except ConnectionLossError as error:
                outcomes.append(error)

        async def write_many() -> None:
            outcomes.extend(await zk.multi_many([[SetData("/written", b"2", ZkVersion(7))]]))

        await site.silence()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(write)
            nursery.start_soon(write_many)
            await trio.testing.wait_all_tasks_blocked()
            await site.cut()
            await site.restore()
        assert [type(outcome) for outcome in outcomes] == [ConnectionLossError, ConnectionLossError]
        data, stat = await zk.get("/written")
        assert (data, stat.version) in ((b"0", 0), (b"1", 1))


@check
async def check_a_write_that_is_too_large_is_not_sent(site: Site) -> None:
    async with site.connect() as zookeeper:
        most = zookeeper.write_bytes_max
        assert most == 1_048_575
        largest = bytes(most - 100 - len("/large"))
        await zookeeper.create("/large", largest)
        await zookeeper.set("/large", largest, ANY_VERSION)
        assert (await zookeeper.multi([SetData("/large", largest, ANY_VERSION)])).ok
        session_id = zookeeper.session_id
        with pytest.raises(OversizedWriteError, match="/large"):
            await zookeeper.create("/large-2", bytes(most))
        with pytest.raises(OversizedWriteError, match="/large"):
            await zookeeper.create_with_stat("/large-2", bytes(most))
        with pytest.raises(OversizedWriteError, match="/large"):
            await zookeeper.set("/large", bytes(most), ANY_VERSION)
        half = [SetData("/large", bytes(most // 2), ANY_VERSION)] * 2
        for writing in (zookeeper.multi(half), zookeeper.multi_many([half])):
            with pytest.raises(OversizedWriteError, match="/large"):
                await writing
        assert await zookeeper.exists("/large-2") is None
        assert zookeeper.session_id == session_id


async def check_an_expired_session_is_shut_until_renewed(site: Site) -> None:
    async with site.connect() as zk, site.connect() as other:
        events, gone = Recorder(), Recorder()
        zk.subscribe(events)
        await zk.create("/mine", ephemeral=True)
        await other.exists("/mine", gone)
        session_id = zk.session_id
        await site.expire(zk)
        await events.wait_for(SessionEvent.EXPIRED)
        await gone.wait_kind(WatchKind.DELETED)
        with pytest.raises(SessionExpiredError):
            await zk.get("/")
        with pytest.raises(SessionExpiredError):
            await zk.create("/mine", ephemeral=True)
        await events.wait_for(SessionEvent.CONNECTED)
        with pytest.raises(SessionExpiredError):
            await zk.multi_many([[Create("/mine", ephemeral=True)]])
        with pytest.raises(SessionExpiredError):
            await zk.get_many(["/", "/mine"])
        await zk.renew_session()
        assert zk.session_id != session_id
        assert zk.session_is_live(site.monotonic())
        await zk.create("/mine", ephemeral=True)
        await zk.renew_session()
        stat = await zk.exists("/mine")
        assert stat is not None
        assert stat.ephemeral_owner == zk.session_id


@check
async def check_silence_ends_the_known_life_of_a_session(site: Site) -> None:
    async with site.connect(timeout_s=1.0) as zk:
        assert zk.session_is_live(site.monotonic())
        granted_s = zk.session_timeout_s
        await site.silence()
        silent_at = site.monotonic()
        seen_live_at = silent_at
        while zk.session_is_live(now := site.monotonic()):
            seen_live_at = now
            await trio.sleep(granted_s / 20)
        # At most one timeout after the silence began: that is what the fence is for.
        assert seen_live_at - silent_at <= granted_s
        await site.restore()
        while not zk.session_is_live(site.monotonic()):
            await zk.renew_session()
            await trio.sleep(granted_s / 20)


@check
async def check_a_session_is_probed_on_after_an_outage(site: Site) -> None:
    """An outage is reported as a suspension first and as an expiry later: the probes have to outlive both."""
    async with site.connect(timeout_s=1.0) as zk:
        granted_s = zk.session_timeout_s
        await site.silence()
        await trio.sleep(granted_s * 3)
        await site.restore()
        while not zk.session_is_live(site.monotonic()):
            await zk.renew_session()
            await trio.sleep(granted_s / 20)
        await trio.sleep(granted_s * 2)
        while not zk.session_is_live(site.monotonic()):  # noqa: ASYNC110 - depends on a clock alone
            await trio.sleep(granted_s / 20)


@check
async def check_a_cancelled_call_leaves_the_session_usable(site: Site) -> None:
    async with site.connect(timeout_s=30.0) as zk:
        await zk.create("/usable")
        await site.silence()
        with trio.move_on_after(0.05) as scope:
            await zk.get("/usable")
        assert scope.cancelled_caught
        with trio.move_on_after(0.05) as scope:
            await zk.get_many(["/usable"] * 300)
        assert scope.cancelled_caught
        await site.restore()
        await zk.renew_session()
        assert (await zk.get("/usable"))[1].version == 0
        assert len(await zk.get_many(["/usable"] * 300)) == 300
