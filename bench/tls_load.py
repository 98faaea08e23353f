"""What TLS handshakes cost, and what a storm of them does to connected clients."""

import multiprocessing
import os
import socket
import ssl
import statistics
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection

from bench.processes import cpu_s
from bench.systems import System

Figures = dict[str, float]
_THREADS = 16
_PROBES_PER_S = 200
_STORM_CLIENTS_AT_ONCE = 64


def _address(system: System) -> tuple[str, int]:
    host, _, port = system.bootstrap.split(",")[0].rpartition(":")
    return host, int(port)


def _context(ca: str) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=ca)
    context.check_hostname = False
    return context


def _shake_hands(address: tuple[str, int], context: ssl.SSLContext) -> ssl.SSLSocket:
    sock = socket.create_connection(address, timeout=60)
    return context.wrap_socket(sock)


def _in_threads(count: int, threads: int, work: Callable[[], None]) -> None:
    """Do some work `count` times, shared among threads."""

    def part(share: int) -> None:
        for _ in range(share):
            work()

    each, rest = divmod(count, threads)
    started = [threading.Thread(target=part, args=(each + (n < rest),)) for n in range(threads)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()


def handshakes(system: System, count: int) -> Figures:
    """Make connections one after the other, and close them; each is a full handshake."""
    context, address = _context(system.client["ssl.ca.location"]), _address(system)
    pids = system.broker_pids()
    _in_threads(100, _THREADS, lambda: _shake_hands(address, context).close())
    cpu, began = cpu_s(pids), time.perf_counter()
    _in_threads(count, _THREADS, lambda: _shake_hands(address, context).close())
    took, cpu = time.perf_counter() - began, cpu_s(pids) - cpu
    return {"handshakes/s": count / took, "CPU ms per handshake": cpu / count * 1000}


def _storm(address: tuple[str, int], ca: str, count: int, pipe: Connection) -> None:
    os.nice(19)  # such clients are other machines: the brokers and the timed client have priority
    context = _context(ca)
    held: list[ssl.SSLSocket] = []
    pipe.recv()
    began = time.perf_counter()
    _in_threads(count, _STORM_CLIENTS_AT_ONCE, lambda: held.append(_shake_hands(address, context)))
    pipe.send(time.perf_counter() - began)
    pipe.recv()


def storm(system: System, count: int) -> Figures:
    """Let clients connect all at once, and time the requests of one that is connected already."""
    ca, address = system.client["ssl.ca.location"], _address(system)
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_storm, args=(address, ca, count, theirs))
    process.start()
    latencies = []
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": system.bootstrap, "log_level": 0} | dict(system.client))
    admin.list_topics(timeout=20)
    ours.send("go")
    took = None
    while took is None:
        began = time.perf_counter()
        admin.list_topics(timeout=60)
        latencies.append((time.perf_counter() - began) * 1000)
        if ours.poll(1 / _PROBES_PER_S):
            took = ours.recv()
    ours.send("end")
    process.join()
    cut = statistics.quantiles(latencies, n=100)
    return {"s until all are connected": took, "p99 ms of another client": cut[98]}
