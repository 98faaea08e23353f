"""The guardian and the session record against a real ZooKeeper: who ends a dead broker's session, and how soon."""

import fcntl
import json
import os
import pty
import signal
import stat
import subprocess
import sys
import termios
import textwrap
import threading
import time
from pathlib import Path

import pytest
import trio

from cluster.zookeeper.client import ZooKeeper
from cluster.zookeeper.guardian import Silence
from cluster.zookeeper.kazoo_client import KazooZooKeeper
from cluster.zookeeper.registration import BrokerIdTakenError, register
from cluster.zookeeper.session_closer import SessionKey, close_session, parse_hosts
from cluster.zookeeper.session_record import (
    FILE_NAME,
    close_former_session,
    erase_session_record,
    read_session_record,
    write_session_record,
)
from cluster.zookeeper.znodes import BrokerIdZnode, BrokerRegistration, RegisteredEndpoint
from tests.contract.conftest import RealZooKeeper
from wire.types import BrokerId, MonotonicSeconds

SESSION_TIMEOUT_S = 30.0
"""Long, so that no test passes because a session timed out."""

BROKER = textwrap.dedent(
    """
    import sys
    from cluster.zookeeper.guardian import run_guarded

    def main(link):
        import os, time, trio
        from pathlib import Path
        from cluster.zookeeper.kazoo_client import KazooZooKeeper
        from cluster.zookeeper.session_record import write_session_record

        async def beat(link):
            while True:
                await trio.sleep({limit} / 10)
                link.beat()
                if Path(sys.argv[3], "hang").exists():
                    os.read(os.pipe()[0], 1)  # never returns, as with a disk that does not answer

        async def serve():
            zookeeper = KazooZooKeeper(sys.argv[1], {timeout}, time.monotonic)
            async with trio.open_nursery() as nursery:
                await nursery.start(zookeeper.run)
                link.announce_session(zookeeper.session_key)
                write_session_record(Path(sys.argv[3]), zookeeper.session_key)
                await zookeeper.create(sys.argv[2], ephemeral=True)
                with trio.open_signal_receiver(15, 2) as signals:
                    if {limit}:
                        link.watch({limit})
                        nursery.start_soon(beat, link)
                    print(os.getpid(), flush=True)
                    async for _ in signals:
                        nursery.cancel_scope.cancel()
                        break
            link.announce_closed()
            return 7

        return trio.run(serve)

    guarded = {guarded}
    if guarded:
        sys.exit(run_guarded(main))
    from cluster.zookeeper.guardian import GuardianLink
    sys.exit(main(GuardianLink(None)))
    """
)


class Broker:
    """A process with a session and an ephemeral node, guarded or not."""

    def __init__(
        self, hosts: str, node: str, directory: Path, *, guarded: bool = True, limit: float = 0
    ) -> None:
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                BROKER.format(timeout=SESSION_TIMEOUT_S, guarded=guarded, limit=limit),
                hosts,
                node,
                str(directory),
            ],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent.parent)},
            text=True,
        )
        assert self.process.stdout is not None
        self.pid = int(self.process.stdout.readline())

    def __enter__(self) -> "Broker":
        return self

    def __exit__(self, *_: object) -> None:
        for pid in (self.pid, self.process.pid):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


def monotonic() -> MonotonicSeconds:
    return MonotonicSeconds(time.monotonic())


async def vanished(zookeeper: ZooKeeper, path: str) -> None:
    gone = trio.Event()
    if await zookeeper.exists(path, lambda _: gone.set()) is not None:
        await gone.wait()
    assert await zookeeper.exists(path) is None


def in_session(hosts: str, main: object) -> None:
    async def run() -> None:
        zookeeper = KazooZooKeeper(hosts, SESSION_TIMEOUT_S, monotonic)
        with trio.fail_after(120):
            async with trio.open_nursery() as nursery:
                await nursery.start(zookeeper.run)
                await main(zookeeper)  # type: ignore[operator]
                nursery.cancel_scope.cancel()

    trio.run(run)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_killed_broker_loses_its_session_at_once(
    real_zookeeper: RealZooKeeper, tmp_path: Path, number: signal.Signals
) -> None:
    node = f"/guarded-{number.name}"
    with Broker(real_zookeeper.hosts, node, tmp_path) as broker:

        async def main(zookeeper: ZooKeeper) -> None:
            assert await zookeeper.exists(node) is not None
            os.kill(broker.pid, number)
            with trio.fail_after(SESSION_TIMEOUT_S * 2 / 3):
                await vanished(zookeeper, node)

        in_session(real_zookeeper.hosts, main)
        assert broker.process.wait(60) == 128 + number


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_are_passed_on_and_the_status_is_the_childs(
    real_zookeeper: RealZooKeeper, tmp_path: Path, number: signal.Signals
) -> None:
    with Broker(real_zookeeper.hosts, f"/passed-{number.name}", tmp_path) as broker:
        broker.process.send_signal(number)
        assert broker.process.wait(60) == 7


def test_a_terminals_ctrl_c_reaches_the_broker_once() -> None:
    code = textwrap.dedent(
        """
        import signal, sys
        from cluster.zookeeper.guardian import run_guarded

        def main(link):
            interrupts = 0
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGTERM])
            print("ready", flush=True)
            while signal.sigwait([signal.SIGINT, signal.SIGTERM]) == signal.SIGINT:
                interrupts += 1
                print("int", flush=True)
            return interrupts

        sys.exit(run_guarded(main))
        """
    )
    terminal, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=theirs,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: _take_terminal(theirs),
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent.parent)},
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        # Two pending signals of a kind count as one, so a single key press could hide a second signal.
        for _ in range(30):
            os.write(terminal, b"\x03")
            assert process.stdout.readline() == "int\n"
        # The guardian takes the lower number first, so it has handled the SIGINT when it passes the SIGTERM on.
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 30
    finally:
        process.kill()
        process.communicate()
        os.close(terminal)
        os.close(theirs)


def _take_terminal(descriptor: int) -> None:
    os.setsid()
    fcntl.ioctl(descriptor, termios.TIOCSCTTY, 0)


def test_a_broker_leaves_in_good_order_when_its_guardian_is_killed(
    real_zookeeper: RealZooKeeper, tmp_path: Path
) -> None:
    with Broker(real_zookeeper.hosts, "/orphan", tmp_path) as broker:

        async def main(zookeeper: ZooKeeper) -> None:
            assert await zookeeper.exists("/orphan")
            broker.process.kill()
            await vanished(zookeeper, "/orphan")

        in_session(real_zookeeper.hosts, main)


HANG_LIMIT_S = 1.0


@pytest.mark.parametrize("way", ["stopped", "blocked"])
def test_a_hung_broker_is_killed_and_loses_its_session(
    real_zookeeper: RealZooKeeper, tmp_path: Path, way: str
) -> None:
    with Broker(real_zookeeper.hosts, f"/hung-{way}", tmp_path, limit=HANG_LIMIT_S) as broker:

        async def main(zookeeper: ZooKeeper) -> None:
            assert await zookeeper.exists(f"/hung-{way}")
            if way == "stopped":
                os.kill(broker.pid, signal.SIGSTOP)
            else:
                (tmp_path / "hang").touch()
            await vanished(zookeeper, f"/hung-{way}")

        in_session(real_zookeeper.hosts, main)
        # A blocked loop already dies of the SIGQUIT: unlike a real broker, this process has no handler that prints.
        assert broker.process.wait(60) in (128 + signal.SIGKILL, 128 + signal.SIGQUIT)


def test_a_pause_of_broker_and_guardian_together_is_no_hang(
    real_zookeeper: RealZooKeeper, tmp_path: Path
) -> None:
    with Broker(real_zookeeper.hosts, "/paused", tmp_path, limit=HANG_LIMIT_S) as broker:
        both = (broker.process.pid, broker.pid)
        for pid in both:
            os.kill(pid, signal.SIGSTOP)
        threading.Event().wait(1.5 * HANG_LIMIT_S)
        for pid in both:
            os.kill(pid, signal.SIGCONT)
        threading.Event().wait(HANG_LIMIT_S / 2)
        broker.process.send_signal(signal.SIGTERM)
        assert broker.process.wait(60) == 7


def test_only_heartbeats_that_stay_away_while_we_are_awake_count() -> None:
    silence = Silence()
    assert not silence.look(1, 1.0, 100.0)
    assert not any(silence.look(1, 1.0, 100.0 + number / 10) for number in range(1, 8))
    # The machine slept: this look counts as a single one.
    assert not silence.look(1, 1.0, 5000.0)
    assert silence.look(1, 1.0, 5000.2)
    assert not silence.look(2, 1.0, 5000.3)
    assert not silence.look(2, 0.0, 6000.0)
    assert not silence.look(2, 0.0, 7000.0)


def test_a_restarted_broker_closes_the_session_of_its_former_life(
    real_zookeeper: RealZooKeeper, tmp_path: Path
) -> None:
    with Broker(real_zookeeper.hosts, "/former", tmp_path, guarded=False) as broker:
        mode = (tmp_path / FILE_NAME).stat().st_mode
        assert stat.S_IMODE(mode) == 0o600
        os.kill(broker.pid, signal.SIGKILL)
        broker.process.wait()

        async def main(zookeeper: ZooKeeper) -> None:
            assert await zookeeper.exists("/former") is not None
            await trio.to_thread.run_sync(
                close_former_session, tmp_path, real_zookeeper.hosts, time.monotonic
            )
            assert await zookeeper.exists("/former") is None

        in_session(real_zookeeper.hosts, main)
    assert read_session_record(tmp_path) is None


def test_a_session_is_closed_only_with_its_password(real_zookeeper: RealZooKeeper) -> None:
    async def main(zookeeper: ZooKeeper) -> None:
        assert isinstance(zookeeper, KazooZooKeeper)
        key = zookeeper.session_key
        wrong = SessionKey(key.hosts, key.session_id, bytes(16), key.timeout_s)
        assert await trio.to_thread.run_sync(close_session, wrong, time.monotonic)
        assert await zookeeper.exists("/") is not None
        # Closing a session that is gone is not an error.
        gone = SessionKey(key.hosts, key.session_id + 1, key.password, key.timeout_s)
        assert await trio.to_thread.run_sync(close_session, gone, time.monotonic)

    in_session(real_zookeeper.hosts, main)


def test_registering_waits_for_another_session_and_then_gives_up(real_zookeeper: RealZooKeeper) -> None:
    registration = BrokerRegistration(
        BrokerId(77), (RegisteredEndpoint("PLAINTEXT", "localhost", 1, "PLAINTEXT"),)
    )

    async def main(zookeeper: ZooKeeper) -> None:
        assert isinstance(zookeeper, KazooZooKeeper)
        other = KazooZooKeeper(real_zookeeper.hosts, 1.0, monotonic)
        path = BrokerIdZnode.path(BrokerId(77))
        await zookeeper.create(path, b"{}", ephemeral=True, make_parents=True)
        async with trio.open_nursery() as nursery:
            await nursery.start(other.run)
            with pytest.raises(BrokerIdTakenError):
                await register(other, registration)

            async def free() -> None:
                await zookeeper.delete(path, 0)  # type: ignore[arg-type]

            nursery.start_soon(free)
            epoch = await register(other, registration)
            found = await zookeeper.exists(path)
            assert found is not None
            assert found.czxid == epoch
            # Once more in the same session: the node is ours, and stays.
            assert await register(other, registration) == epoch
            nursery.cancel_scope.cancel()

    in_session(real_zookeeper.hosts, main)


def test_an_ensemble_that_does_not_answer_is_given_up() -> None:
    key = SessionKey("127.0.0.1:1,[::1]:1", 5, bytes(16), 0.3)
    began = time.monotonic()
    assert not close_session(key, time.monotonic)
    assert time.monotonic() - began < 60, "it is not tried for ever"


def test_session_records(tmp_path: Path) -> None:
    assert read_session_record(tmp_path) is None
    key = SessionKey("a:1,b:2/chroot", -5, bytes(range(16)), 18.0)
    write_session_record(tmp_path, key)
    write_session_record(tmp_path, key)
    assert read_session_record(tmp_path) == key
    for damaged in ("", "{}", "[]", json.dumps({"hosts": 1, "session_id": "x"})):
        (tmp_path / FILE_NAME).write_text(damaged)
        assert read_session_record(tmp_path) is None
    erase_session_record(tmp_path)
    erase_session_record(tmp_path)


@pytest.mark.parametrize(
    ("hosts", "addresses"),
    [
        ("a:1", [("a", 1)]),
        ("a", [("a", 2181)]),
        ("a:1, b:2/kafka/x", [("a", 1), ("b", 2)]),
        ("[::1]:5,[fe80::1]", [("::1", 5), ("fe80::1", 2181)]),
        ("", []),
    ],
)
def test_hosts(hosts: str, addresses: list[tuple[str, int]]) -> None:
    assert parse_hosts(hosts) == addresses


def test_the_guardian_imports_nothing_large() -> None:
    large = "{'trio', 'kazoo', 'msgpack', 'ssl', 'asyncio'}"
    code = f"import sys, cluster.zookeeper.guardian; print({large} & sys.modules.keys() or [])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
