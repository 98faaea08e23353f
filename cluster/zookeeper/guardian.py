"""The guardian: a broker's small parent process, which closes the broker's session the moment the broker is dead.

A process that dies by a signal leaves its ZooKeeper session behind, and its partitions have no leader until
the session times out. The guardian knows the session's id and password, reaps its child, whatever killed it,
and closes the session then, over a connection of its own. Because the child is reaped first, no thread of it
can still act under the session. Where the guardian dies as well, the timeout does what it always did; where
only the guardian dies, the broker goes on without it.

It forks before anything large is imported, so it stays a few megabytes: this module and what it imports must
not pull in trio, kazoo or the rest of the broker. From then on it only waits.

Signals sent to the guardian are passed on to the child. A terminal's Ctrl-C reaches both by itself and is
passed on all the same: to the child a repeated SIGINT must mean what the first one did.
"""

import json
import logging
import os
import select
import signal
import sys
import threading
from collections.abc import Callable
from typing import Final

from cluster.zookeeper.session_closer import SessionKey, close_session
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


class GuardianLink:
    """The child's end of the pipe to its guardian. Without a guardian everything is a no-op."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    @property
    def has_guardian(self) -> bool:
        """Whether there is one, as far as we know."""
        return self._descriptor is not None

    def announce_session(self, key: SessionKey) -> None:
        """Tell which session to close should we die; it replaces the one told before. Never blocks."""
        self._send(
            {
                "hosts": key.hosts,
                "session_id": key.session_id,
                "password": key.password.hex(),
                "timeout_s": key.timeout_s,
            }
        )

    def announce_closed(self) -> None:
        """Tell that the session was closed in good order, and nothing is left to do."""
        self._send({})

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
        child_main: The broker. It gets the link to announce its session on, and gives the exit status.

    Returns:
        In the parent, what the process should exit with: the child's status, or 128 and the number of the signal
        that killed it. In the child it does not return: the child exits.

    Raises:
        RuntimeError: other threads are running, of which a fork would keep the locks and not the threads.
    """
    if threading.active_count() != 1:
        raise RuntimeError("the guardian must fork before any thread is started")
    reader, writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    # The parent takes them one by one, and the child as it likes: none is lost between.
    signal.pthread_sigmask(signal.SIG_BLOCK, _BLOCKED)
    child = os.fork()
    if child == 0:
        os.close(reader)
        os.set_blocking(writer, False)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _BLOCKED)
        sys.exit(child_main(GuardianLink(writer)))
    os.close(writer)
    guardian = _Guardian(child, reader)
    status = guardian.wait()
    guardian.close_session_of_the_dead()
    exit_code = os.waitstatus_to_exitcode(status)
    return exit_code if exit_code >= 0 else _SIGNAL_EXIT_BASE - exit_code


class _Guardian:
    """The parent's side: waits for the child's death, its messages, and signals to pass on.

    The signals stay blocked. A thread takes them one at a time, which is the one way to learn who sent each; it tells
    the main thread of a death by a byte in a pipe.
    """

    def __init__(self, child: int, reader: int) -> None:
        self._child = child
        self._reader = reader
        self._buffer = b""
        self._key: SessionKey | None = None
        self._reaping = threading.Lock()
        self._is_reaped = False
        self._deaths, self._tell_death = os.pipe()
        os.set_blocking(reader, False)
        threading.Thread(target=self._take_signals, name="guardian-signals", daemon=True).start()

    def wait(self) -> int:
        """Wait until the child is dead and reaped; gives its wait status."""
        poll = select.poll()
        poll.register(self._deaths, select.POLLIN)
        poll.register(self._reader, select.POLLIN)
        while True:
            # A death after this look is in the pipe by the time we poll.
            status = self._reap()
            if status is not None:
                self._read_messages()
                return status
            for descriptor, _ in poll.poll():
                if descriptor == self._deaths:
                    os.read(self._deaths, _READ_BYTES)
                elif not self._read_messages():
                    poll.unregister(self._reader)

    def close_session_of_the_dead(self) -> None:
        """Close the session the child announced last, unless it said that it closed it itself."""
        if self._key is None:
            return
        closed = close_session(self._key, SystemClock().monotonic)
        # Straight out: nothing configures logging in this process.
        sys.stderr.write(
            f"guardian: process {self._child} is dead; its ZooKeeper session "
            f"0x{self._key.session_id & 0xFFFFFFFFFFFFFFFF:x} {'is closed' if closed else 'must time out'}\n"
        )
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
            # Not once it is reaped: its number may be another process's by then.
            with self._reaping:
                if self._is_reaped:
                    return
                if not (sent_by_kernel and os.getpgid(self._child) == os.getpgrp()):
                    os.kill(self._child, number)

    def _read_messages(self) -> bool:
        """Take what the child has told; ``False`` where it will tell no more."""
        while True:
            try:
                part = os.read(self._reader, _READ_BYTES)
            except BlockingIOError:
                return True
            if not part:
                return False
            *lines, self._buffer = (self._buffer + part).split(b"\n")
            if lines:
                self._key = _parse(lines[-1])


def _parse(line: bytes) -> SessionKey | None:
    message = json.loads(line)
    if not message:
        return None
    return SessionKey(
        message["hosts"], message["session_id"], bytes.fromhex(message["password"]), message["timeout_s"]
    )


def _wait_signal() -> tuple[int, bool]:
    """Take the next signal, and whether the kernel sent it by itself, as it does for a terminal's keys."""
    if not hasattr(signal, "sigwaitinfo"):
        return int(signal.sigwait(_BLOCKED)), False
    taken = signal.sigwaitinfo(_BLOCKED)
    return taken.si_signo, taken.si_code == _SENT_BY_KERNEL
