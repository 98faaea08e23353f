"""Starting brokers fast: a zygote that imports a broker's modules once, and forks each broker under its guardian.

    command ──fork──> zygote ──fork──> guardian 0 ──fork──> broker 0
                          └───fork──> guardian 1 ──fork──> broker 1 ...

The zygote is forked before the command imports anything large, and imports while ZooKeeper starts. It ends
when its brokers run; they and their guardians are sessions of their own, so that neither a closing terminal
nor Ctrl-C reaches them.
"""

import json
import os
import socket
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from ottla.commands.local.cluster_directory import BrokerRecord, broker_process_name, guardian_process_name
from ottla.processes import name_process

if TYPE_CHECKING:
    from cluster.zookeeper.guardian import GuardianLink

_MESSAGE_SIZE_MAX: Final = 1 << 20
_ZYGOTE_NAME: Final = "ottla-zygote"


class LaunchError(Exception):
    """The brokers cannot be started; the text says why."""


class Launcher:
    """The command's end of the zygote. Make it before threads are started, and close it."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pid = os.fork()
        if pid == 0:
            ours.close()
            _exit_with(_serve_as_zygote, theirs)
        theirs.close()
        self._pid = pid
        self._socket = ours

    def launch(self, brokers: Sequence[BrokerRecord]) -> list[BrokerRecord]:
        """Start brokers on their directories, whose ``server.properties`` are in place.

        Returns:
            Their records with pids. They do not serve yet.

        Raises:
            LaunchError: the zygote failed.
        """
        started = []
        for broker in brokers:
            order = {"id": broker.id, "properties": str(broker.properties), "log": str(broker.log_file)}
            self._socket.send(json.dumps(order).encode())
            answer = self._socket.recv(_MESSAGE_SIZE_MAX)
            if not answer:
                raise LaunchError("the process that starts brokers ended; what it printed says why")
            pids = json.loads(answer)
            started.append(
                BrokerRecord(
                    broker.id, pids["pid"], pids["guardian_pid"], broker.host, broker.port, broker.directory
                )
            )
        return started

    def close(self) -> None:
        """Let the zygote end. The brokers run on."""
        self._socket.close()
        os.waitpid(self._pid, 0)


def _exit_with(function: Any, *arguments: object) -> NoReturn:
    """Run all that is left of a forked process; nothing of what its parent had in mind is run in it."""
    code = 1
    try:
        code = function(*arguments) or 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 1
    except BaseException:  # noqa: BLE001 - the process ends here, and says why
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _serve_as_zygote(orders: socket.socket) -> None:
    import gc
    import signal

    os.setsid()
    name_process(_ZYGOTE_NAME)
    # Whatever the command has open (its output, another's locks) is none of a broker's business.
    _close_all_but(orders.fileno())
    # Guardians are not waited for: the kernel forgets them when they end.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    import_broker()
    gc.collect()
    gc.freeze()
    while order := orders.recv(_MESSAGE_SIZE_MAX):
        wanted = json.loads(order)
        reading, writing = os.pipe()
        guardian_pid = os.fork()
        if guardian_pid == 0:
            orders.close()
            os.close(reading)
            _exit_with(_become_guardian, wanted, writing)
        os.close(writing)
        pid = os.read(reading, 32)
        os.close(reading)
        orders.send(json.dumps({"pid": int(pid or 0), "guardian_pid": guardian_pid}).encode())


def import_broker() -> None:
    """Import everything that a broker needs, before it is forked."""
    from cluster.broker import process  # noqa: F401


def _become_guardian(order: dict[str, Any], pid_pipe: int) -> int:
    import signal

    from cluster.zookeeper.guardian import run_guarded

    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    broker_id = order["id"]
    name_process(guardian_process_name(broker_id))
    _redirect_output(Path(order["log"]))

    def run_child(link: "GuardianLink") -> int:
        name_process(broker_process_name(broker_id))
        os.write(pid_pipe, str(os.getpid()).encode())
        os.close(pid_pipe)
        from ottla.commands.local.broker import run_from_file

        return run_from_file(Path(order["properties"]), (), link)

    return run_guarded(run_child)


def _redirect_output(file: Path) -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    output = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(null, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(null)
    os.close(output)


def _close_all_but(kept: int) -> None:
    os.closerange(3, kept)
    os.closerange(kept + 1, 1 << 20)
