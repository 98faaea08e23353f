"""The guardian: a broker's small parent process, which closes the broker's session the moment the broker is dead.

A process that dies by a signal leaves its ZooKeeper session behind, and its partitions have no leader until
the session times out. The guardian knows the session's id and password, reaps its child, whatever killed it,
and closes the session then, over a connection of its own. Because the child is reaped first, no thread of it
can still act under the session. If the guardian dies as well, the session times out as without it; if only the guardian
dies, the kernel sends the broker SIGTERM, and it shuts down in good order: the process's supervisor sees the guardian's
end, and must not start a second broker beside the first.

A broker whose event loop hangs is dead, too, but kazoo's thread would keep its session alive for ever. So the loop
counts heartbeats in memory that both share, and when they stop for longer than a limit, the guardian kills the process
and closes the session. A process that does not die at once waits for its disk in the kernel: it executes no more
instructions, so its session is closed all the same.

It forks before anything large is imported, so it stays a few megabytes: this module and what it imports must
not pull in trio, kazoo or the rest of the broker. From then on it only waits.

Signals sent to the guardian are passed on to the child. A terminal's Ctrl-C reaches both processes and is still passed
on: to the child a repeated SIGINT must mean the same as the first.
"""

import json
import logging
import mmap
import os
import select
import signal
import sys
import threading
from collections.abc import Callable
from struct import Struct
from typing import Any, Final

from cluster.zookeeper.session_closer import SessionKey, close_session
from security.zookeeper_access import OPEN, ZooKeeperAccess
from timing.clock import SystemClock

logger = logging.getLogger(__name__)

_FORWARDED: Final = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
_BLOCKED: Final = (*_FORWARDED, signal.SIGCHLD)
_SENT_BY_KERNEL: Final = 0x80
"""Linux's SI_KERNEL."""
_READ_BYTES: Final = 65536
_SIGNAL_EXIT_BASE: Final = 128
_PR_SET_PDEATHSIG: Final = 1
BEATS_PER_LIMIT: Final = 10
"""How many heartbeats are due within the time limit."""
_DUMP_S: Final = 0.2
"""How long a hung process has to print where its threads are."""
_DEATH_S: Final = 0.5
"""How long to wait for a killed process before its session is closed although it has not been reaped."""


class Heartbeats:
    """A counter that the child raises and the guardian reads, in memory that both share.

    +-------+--------+  limit: milliseconds that the counter may stand still, 0 while it is not watched
    | count | uint64 |
    | limit | uint32 |
    +-------+--------+
    """

    _LAYOUT = Struct("=QI")

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, mmap.PAGESIZE)
        self._count = 0
        self._limit_ms = 0

    def beat(self) -> None:
        """Count one more; the child's."""
        self._count += 1
        self._LAYOUT.pack_into(self._memory, 0, self._count, self._limit_ms)

    def set_limit(self, limit_s: float) -> None:
        """Set the limit, in seconds, and be watched from now on; 0 ends the watch. The child's."""
        self._limit_ms = int(limit_s * 1000)
        self.beat()

    def read(self) -> tuple[int, float]:
        """Return the count, and the limit in seconds; the guardian's."""
        count, limit_ms = self._LAYOUT.unpack_from(self._memory)
        return count, limit_ms / 1000


class SharedSecrets:
    """The settings and secrets for reaching ZooKeeper, in shared memory: they may not fit into a pipe at once."""

    def __init__(self) -> None:
        self._descriptor = _anonymous_file()

    def write(self, access: ZooKeeperAccess) -> int:
        """Replace it, and return its size; the child's."""
        if access == OPEN:
            return 0
        data = json.dumps(access.to_json()).encode()
        os.pwrite(self._descriptor, data, 0)
        return len(data)

    def read(self, size: int) -> ZooKeeperAccess:
        """Return what was written, of the size that `write` returned; the guardian's."""
        if not size:
            return OPEN
        return ZooKeeperAccess.from_json(json.loads(os.pread(self._descriptor, size, 0)))


def _anonymous_file() -> int:
    """Return the descriptor of an anonymous file, in memory if the system can."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("ottla-zookeeper-access", os.MFD_CLOEXEC)
    import tempfile

    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


class Silence:
    """How long heartbeats have been missing, counting only time in which this process itself was awake.

    A pause of the whole machine or container pauses us, too: a look that it delays counts as two intervals at most.
    """

    def __init__(self) -> None:
        self._count = -1
        self._looked_at = 0.0
        self.lasted_s = 0.0

    def look(self, count: int, limit_s: float, now: float) -> bool:
        """Compare the counter with the last look; return whether it has stood still for longer than the limit.

        Args:
            count: The counter.
            limit_s: How long it may stand still, in seconds; looks are due ten times within it.
            now: A monotonic clock.
        """
        since, self._looked_at = now - self._looked_at, now
        if count != self._count or limit_s == 0:
            self._count = count
            self.lasted_s = 0.0
            return False
        self.lasted_s += min(since, 2 * limit_s / BEATS_PER_LIMIT)
        return self.lasted_s > limit_s


class GuardianLink:
    """The child's end of the pipe to its guardian. Without a guardian everything is a no-op."""

    def __init__(
        self,
        descriptor: int | None,
        heartbeats: Heartbeats | None = None,
        secrets: SharedSecrets | None = None,
    ) -> None:
        self._descriptor = descriptor
        self._heartbeats = heartbeats
        self._secrets = secrets

    @property
    def has_guardian(self) -> bool:
        """Whether there is a guardian, as far as we know."""
        return self._descriptor is not None

    def announce_session(self, key: SessionKey) -> None:
        """Announce the session to close if we die; it replaces the earlier one. Never blocks."""
        self._send(
            {
                "hosts": key.hosts,
                "session_id": key.session_id,
                "password": key.password.hex(),
                "timeout_s": key.timeout_s,
                "access": 0 if self._secrets is None else self._secrets.write(key.access),
            }
        )

    def announce_closed(self) -> None:
        """Announce that the session was closed in good order, and nothing is left to do."""
        self._send({})

    def watch(self, limit_s: float) -> None:
        """Have the guardian kill this process when it has not called `beat` for a time.

        Args:
            limit_s: That time, in seconds; 0 ends the watch. Call `beat` ten times within it.
        """
        if self._heartbeats is not None:
            self._heartbeats.set_limit(limit_s)
            self._send({"watch": limit_s})

    def beat(self) -> None:
        """Record that the loop turns. Never blocks."""
        if self._heartbeats is not None:
            self._heartbeats.beat()

    def _send(self, message: dict[str, object]) -> None:
        if self._descriptor is None:
            return
        try:
            os.write(self._descriptor, json.dumps(message).encode() + b"\n")
        except BlockingIOError:
            logger.warning("the guardian does not listen; if we die, the session must time out")
        except BrokenPipeError:
            logger.warning("the guardian is dead; if we die, the session must time out")
            os.close(self._descriptor)
            self._descriptor = None


def run_guarded(child_main: Callable[[GuardianLink], int]) -> int:
    """Fork; run ``child_main`` in the child and guard it from the parent.

    Call it first thing in the process: only one thread may be running.

    Args:
        child_main: The broker. It receives the link on which to announce its session, and returns the exit status.

    Returns:
        In the parent, what the process should exit with: the child's status, or 128 and the number of the signal
        that killed it. In the child this does not return: the child exits.

    Raises:
        RuntimeError: other threads are running: a fork would keep their locks, but not the threads.
    """
    if threading.active_count() != 1:
        raise RuntimeError("the guardian must fork before any thread is started")
    reader, writer = os.pipe()
    heartbeats = Heartbeats()
    secrets = SharedSecrets()
    sys.stdout.flush()
    sys.stderr.flush()
    # The parent takes them one by one, and the child unblocks them: none is lost in between.
    signal.pthread_sigmask(signal.SIG_BLOCK, _BLOCKED)
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        _end_with(parent)
        os.close(reader)
        os.set_blocking(writer, False)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _BLOCKED)
        sys.exit(child_main(GuardianLink(writer, heartbeats, secrets)))
    os.close(writer)
    guardian = _Guardian(child, reader, heartbeats, secrets)
    status = guardian.wait()
    guardian.close_session_of_the_dead()
    exit_code = os.waitstatus_to_exitcode(status)
    return exit_code if exit_code >= 0 else _SIGNAL_EXIT_BASE - exit_code


def _end_with(parent: int) -> None:
    """Have the kernel send this process SIGTERM when its parent dies, where the kernel can."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes  # not needed, and not loaded, in the guardian

    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGTERM)


class _Guardian:
    """The parent's side: waits for the child's death, its messages, and signals to pass on.

    The signals stay blocked. A thread takes them one at a time, which is the only way to learn the sender of each; it
    reports a death to the main thread by a byte in a pipe.
    """

    def __init__(self, child: int, reader: int, heartbeats: Heartbeats, secrets: SharedSecrets) -> None:
        self._child = child
        self._reader = reader
        self._heartbeats = heartbeats
        self._secrets = secrets
        self._silence = Silence()
        self._clock = SystemClock()
        self._ending: list[tuple[float, Callable[[], None]]] = []
        self._buffer = b""
        self._key: SessionKey | None = None
        self._reaping = threading.Lock()
        self._is_reaped = False
        self._deaths, self._tell_death = os.pipe()
        os.set_blocking(reader, False)
        threading.Thread(target=self._take_signals, name="guardian-signals", daemon=True).start()

    def wait(self) -> int:
        """Wait until the child is dead and reaped; return its wait status."""
        poll = select.poll()
        poll.register(self._deaths, select.POLLIN)
        poll.register(self._reader, select.POLLIN)
        while True:
            # A death after this look is in the pipe by the time we poll.
            status = self._reap()
            if status is not None:
                self._read_messages()
                return status
            for descriptor, _ in poll.poll(self._look_after_child()):
                if descriptor == self._deaths:
                    os.read(self._deaths, _READ_BYTES)
                elif not self._read_messages():
                    poll.unregister(self._reader)

    def _look_after_child(self) -> float | None:
        """Check whether the child hangs, and if so end it step by step.

        Returns:
            After how many milliseconds to look again, None if there is nothing to watch.
        """
        now = self._clock.monotonic()
        if self._ending:
            while self._ending and self._ending[0][0] <= now:
                self._ending.pop(0)[1]()
            return 1 + 1000 * (self._ending[0][0] - now) if self._ending else None
        count, limit_s = self._heartbeats.read()
        if not self._silence.look(count, limit_s, now):
            return 1000 * limit_s / BEATS_PER_LIMIT or None
        self._say(
            f"the event loop of process {self._child} has not turned for {self._silence.lasted_s:.1f} s "
            "(ottla.hang.timeout.ms): killing it"
        )
        os.kill(self._child, signal.SIGQUIT)  # it prints the stacks of its threads, which show what hangs
        self._ending = [
            (now + _DUMP_S, lambda: os.kill(self._child, signal.SIGKILL)),
            (now + _DUMP_S + _DEATH_S, self.close_session_of_the_dead),
        ]
        return 1000 * _DUMP_S

    def close_session_of_the_dead(self) -> None:
        """Close the session that the child announced last, unless the child announced that it closed it."""
        if self._key is None:
            return
        key, self._key = self._key, None
        closed = close_session(key, self._clock.monotonic)
        self._say(
            f"process {self._child} is dead; its ZooKeeper session "
            f"0x{key.session_id & 0xFFFFFFFFFFFFFFFF:x} {'is closed' if closed else 'must time out'}"
        )

    def _say(self, text: str) -> None:
        # To stderr directly: nothing configures logging in this process.
        sys.stderr.write(f"guardian: {text}\n")
        sys.stderr.flush()

    def _reap(self) -> int | None:
        with self._reaping:
            pid, status = os.waitpid(self._child, os.WNOHANG)
            self._is_reaped = pid != 0
        return status if pid else None

    def _take_signals(self) -> None:
        while True:
            number, sent_by_kernel = _wait_signal()
            if number == signal.SIGCHLD:
                os.write(self._tell_death, b"\0")
                continue
            # Not after it is reaped: its number may belong to another process by then.
            with self._reaping:
                if self._is_reaped:
                    return
                if not (sent_by_kernel and os.getpgid(self._child) == os.getpgrp()):
                    os.kill(self._child, number)

    def _read_messages(self) -> bool:
        """Read what the child has announced; return ``False`` at the end of its announcements."""
        while True:
            try:
                part = os.read(self._reader, _READ_BYTES)
            except BlockingIOError:
                return True
            if not part:
                return False
            *lines, self._buffer = (self._buffer + part).split(b"\n")
            for line in lines:
                message = json.loads(line)
                if "watch" not in message:  # that one only wakes us
                    self._key = _parse(message, self._secrets)


def _parse(message: dict[str, Any], secrets: SharedSecrets) -> SessionKey | None:
    if not message:
        return None
    return SessionKey(
        message["hosts"],
        message["session_id"],
        bytes.fromhex(message["password"]),
        message["timeout_s"],
        secrets.read(message["access"]),
    )


def _wait_signal() -> tuple[int, bool]:
    """Return the next signal, and whether the kernel itself sent it, as it does for a terminal's keys."""
    if not hasattr(signal, "sigwaitinfo"):
        return int(signal.sigwait(_BLOCKED)), False
    taken = signal.sigwaitinfo(_BLOCKED)
    return taken.si_signo, taken.si_code == _SENT_BY_KERNEL
