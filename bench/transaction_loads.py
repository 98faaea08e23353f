"""The loads of transactions: commits at intervals, idempotence, readers of committed data, the loss of a
coordinator.
"""

import statistics
import threading
import time
from itertools import islice

import trio
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka import Producer as Client

from bench.group_members import ANSWER_S, GroupClient
from bench.loads import Figures, payloads, topic_of
from bench.processes import cpu_s
from bench.rdkafka import Batch, Producer
from bench.systems import System
from cluster.coordinator.java_hash import partition_for
from cluster.coordinator.transactions.state_records import state_key, state_value
from cluster.statemachines.transaction import TransactionRecord
from ottla.addresses import Address, parse_addresses
from ottla.client.errors import BrokerUnreachable
from timing.clock import SystemClock
from wire.errors import Error
from wire.messages.describe_transactions import DescribeTransactionsRequest
from wire.messages.find_coordinator import FindCoordinatorRequest
from wire.types import ProducerEpoch, ProducerId

STATE_TOPIC = "__transaction_state"
STATE_PARTITIONS = 50
_RECORD = bytes(100)
_PARTITIONS = 6
_BATCH = 10_000
_PAIRS_MIN, _PAIRS_MAX = 10, 40
"""Rounds of plain and idempotent produce."""
_CERTAIN = 0.5
"""The uncertainty, in percent, at which no more rounds are needed."""
_FOLLOWED_S = 15
_LOOK_S = 0.002


def transact(system: System, partitions: int, interval_s: float, seconds: float) -> Figures:
    """Commit transactions of one record a partition; each begins an interval after the last one began."""
    topic = topic_of(system, 3, partitions)
    producer = _transactional(system, f"{topic}-producer")
    pids = system.broker_pids()
    took: list[float] = []
    started, cpu = time.perf_counter(), cpu_s(pids)
    warm_until = started + seconds / 3
    while (now := time.perf_counter()) < started + seconds:
        if now < warm_until:
            took, cpu, measured_from = [], cpu_s(pids), now
        producer.begin_transaction()
        for partition in range(partitions):
            producer.produce(topic, _RECORD, partition=partition)
        while (left := now + interval_s - time.perf_counter()) > 0:
            producer.poll(left)
        ending = time.perf_counter()
        producer.commit_transaction(60)
        took.append(time.perf_counter() - ending)
    elapsed, cpu = time.perf_counter() - measured_from, cpu_s(pids) - cpu
    return {
        "transactions/s": len(took) / elapsed,
        "CPU ms per transaction": cpu * 1000 / len(took),
        "ms of a commit": statistics.median(took) * 1000,
    }


def idempotence(system: System, records: int) -> Figures:
    """Send records with acks=all as fast as they are acknowledged, plain and idempotent in turn, in many short rounds.

    Each pair of rounds gives a ratio; their order changes from pair to pair, so that drift cancels out. Rounds are
    added until the uncertainty of the mean ratio is a fraction of the claimed difference. The CPU that brokers use
    beyond that for plain records separates their part from the client's.
    """
    batch = Batch(payloads(100, _BATCH), _PARTITIONS)
    topic = topic_of(system, 3)
    # What idempotence allows in flight, so that only the broker's part differs.
    settings = {"max.in.flight": "5", "linger.ms": "5"}
    producers = {
        kind: Producer(system.bootstrap, topic, acks="all", **settings, **{"enable.idempotence": kind})
        for kind in ("false", "true")
    }
    pids = system.broker_pids()

    def send(kind: str) -> tuple[float, float]:
        cpu, started = cpu_s(pids), time.perf_counter()
        for _ in range(records // _BATCH):
            producers[kind].send(batch)
        producers[kind].flush()
        return records / (time.perf_counter() - started), cpu_s(pids) - cpu

    lost: list[float] = []
    more_cpu: list[float] = []
    rates: list[float] = []
    try:
        for kind in producers:
            send(kind)
        while len(lost) < _PAIRS_MAX and (len(lost) < _PAIRS_MIN or _uncertainty(lost) > _CERTAIN):
            order = ("false", "true") if len(lost) % 2 else ("true", "false")
            sent = {kind: send(kind) for kind in order}
            lost.append(100 * (1 - sent["true"][0] / sent["false"][0]))
            rates.append(sent["true"][0])
            more_cpu.append(100 * (sent["true"][1] / sent["false"][1] - 1))
    finally:
        for producer in producers.values():
            producer.close()
    return {
        "records/s": statistics.median(rates),
        "% lost": statistics.fmean(lost),
        "% lost, +-": _uncertainty(lost),
        "broker CPU, % more": statistics.fmean(more_cpu),
        "broker CPU, +-": _uncertainty(more_cpu),
    }


def _uncertainty(values: list[float]) -> float:
    """Return the half-width of the mean's 95 % confidence interval."""
    return 2 * statistics.stdev(values) / len(values) ** 0.5


def committed_latency(system: System, interval_s: float, seconds: float) -> Figures:
    """Time records until a reader of committed data and a reader of all data have them."""
    topic = topic_of(system, 3, 1)
    done = threading.Event()
    latencies: dict[str, list[float]] = {"read_committed": [], "read_uncommitted": []}
    readers = [
        threading.Thread(target=_read, args=(system, topic, isolation, latencies[isolation], done))
        for isolation in latencies
    ]
    for reader in readers:
        reader.start()
    producer = _transactional(system, f"{topic}-producer")
    started = time.perf_counter()
    while time.perf_counter() < started + seconds:
        producer.begin_transaction()
        until = time.perf_counter() + interval_s
        while (left := until - time.perf_counter()) > 0:
            producer.produce(topic, time.monotonic_ns().to_bytes(8, "big"), partition=0)
            producer.poll(min(left, 0.01))
        producer.commit_transaction(60)
    done.set()
    for reader in readers:
        reader.join()
    figures: Figures = {}
    for isolation, found in latencies.items():
        cut = statistics.quantiles(found[len(found) // 3 :], n=100)
        figures |= {f"{isolation} p50 ms": cut[49], f"{isolation} p99 ms": cut[98]}
    return figures


def _read(system: System, topic: str, isolation: str, latencies: list[float], done: threading.Event) -> None:
    settings = {
        "bootstrap.servers": system.bootstrap,
        "group.id": "none",
        "enable.auto.commit": False,
        "isolation.level": isolation,
    }
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, 0, 0)])
    while not done.is_set():
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            sent = int.from_bytes(message.value() or b"", "big")
            latencies.append((time.monotonic_ns() - sent) / 1e6)
    consumer.close()


def _transactional(system: System, name: str) -> Client:
    producer = Client({"bootstrap.servers": system.bootstrap, "transactional.id": name, "linger.ms": 0})
    producer.init_transactions(120)
    return producer


# The loss of a coordinator


def takeover(system: System, ids: int) -> Figures:
    """Kill the coordinator of many transactional ids, and measure the time until others answer for all of them.

    The ids are written to the topic as a coordinator writes them: creating as many by requests would take minutes.
    """
    probe = _transactional(system, "probe")
    del probe
    _write_ids(system, ids)
    return trio.run(_takeover, system)


def _write_ids(system: System, ids: int) -> None:
    # Only this client id is allowed to write to an internal topic.
    producer = Client({"bootstrap.servers": system.bootstrap, "client.id": "__admin_client", "linger.ms": 20})
    for number in range(ids):
        name = f"id-{number}"
        record = TransactionRecord(
            ProducerId(10_000_000 + number),
            ProducerEpoch(0),
            60_000,
            updated_at=SystemClock().wall_ms(),
        )
        key, value = state_key(name), state_value(record)
        while True:
            try:
                producer.produce(STATE_TOPIC, value, key, partition=partition_for(name, STATE_PARTITIONS))
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(120):
        raise RuntimeError("the ids were not written")


async def _takeover(system: System) -> Figures:
    numbered = (
        (partition_for(f"id-{number}", STATE_PARTITIONS), f"id-{number}") for number in range(100_000)
    )
    probes = dict(islice(numbered, 5_000))
    homes = {partition: await _coordinator(system, name) for partition, name in probes.items()}
    victim = homes[0][0]
    lost = {name for partition, name in probes.items() if homes[partition][0] == victim}
    # By now the followers have caught up: they check every few seconds.
    await trio.sleep(_FOLLOWED_S)
    started = trio.current_time()
    system.kill(victim)
    with trio.fail_after(ANSWER_S):
        others = {address for broker, address in homes.values() if broker != victim}
        while lost:
            for address in others:
                lost -= await _served(address, lost)
            await trio.sleep(_LOOK_S)
    return {"s after kill -9": trio.current_time() - started}


async def _served(address: Address, names: set[str]) -> set[str]:
    """Return the ids whose state a broker knows."""
    try:
        async with GroupClient(address) as client:
            answer = await client.ask(DescribeTransactionsRequest(transactional_ids=sorted(names)))
    except BrokerUnreachable:
        return set()
    return {each.transactional_id for each in answer.transaction_states if each.error_code == Error.NONE}


async def _coordinator(system: System, name: str) -> tuple[int, Address]:
    with trio.fail_after(ANSWER_S):
        while True:
            async with GroupClient(parse_addresses(system.bootstrap)[0]) as client:
                answer = await client.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=[name]))
            (found,) = answer.coordinators
            if found.error_code == Error.NONE:
                return found.node_id, Address(found.host, found.port)
            await trio.sleep(0.05)
