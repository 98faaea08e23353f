"""Listeners, connections and the bytes in flight on them."""

from typing import Final

TABLE: Final = """
listeners | string | PLAINTEXT://:9092 | high | at-start
    Where the broker listens: a comma-separated list of NAME://host:port; an empty host is every interface.
advertised.listeners | string | null | high | at-start
    What clients and other brokers connect to, per listener name; `listeners` where not given.
    The address 0.0.0.0 cannot be advertised.
listener.security.protocol.map | string | \
SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT | \
low | at-start
    The security protocol of each listener name, as NAME:PROTOCOL pairs.
inter.broker.listener.name | string | null | medium | read-only
    The listener through which brokers talk to each other; that of `security.inter.broker.protocol` where
    not given.
security.inter.broker.protocol | string | PLAINTEXT | medium | read-only
    valid: PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL
    The security protocol between brokers where no listener name is given for it.
control.plane.listener.name | string | null | high | read-only
    The listener through which the controller sends its requests to this broker, and this broker, as the controller,
    to others; the inter-broker one where not given, and never that by name.
early.start.listeners | string | null | high | read-only
    refused: listeners start together
    Listeners that open before the broker is initialised, under KRaft.
socket.send.buffer.bytes | int | 102400 | high | read-only
    The send buffer (SO_SNDBUF) of accepted sockets, in bytes; -1 leaves it to the system.
socket.receive.buffer.bytes | int | 102400 | high | read-only
    The receive buffer (SO_RCVBUF) of accepted sockets, in bytes; -1 leaves it to the system.
socket.request.max.bytes | int | 104857600 | high | read-only
    valid: 1..
    The largest request that a client may send; a larger one closes its connection.
socket.listen.backlog.size | int | 50 | medium | read-only
    valid: 1..
    How many connections may wait to be accepted on a listener.
socket.connection.setup.timeout.ms | long | 10000 | medium | read-only
    How long one attempt to connect to another broker may take.
socket.connection.setup.timeout.max.ms | long | 30000 | medium | read-only
    without effect
    The bound of the growing time that an attempt to connect may take.
connections.max.idle.ms | long | 600000 | medium | read-only
    A connection without a request for this long is closed.
connection.failed.authentication.delay.ms | int | 100 | low | read-only
    valid: 0..
    How long a peer that failed to authenticate waits for the answer and the close.
connections.max.reauth.ms | long | 0 | medium | read-only
    The longest session of an authenticated connection before it must authenticate again.
max.connections | int | 2147483647 | medium | cluster-wide
    valid: 0..
    How many connections the broker holds at a time, over all listeners.
max.connections.per.ip | int | 2147483647 | medium | cluster-wide
    valid: 0..
    How many connections one address may hold at a time.
max.connections.per.ip.overrides | string | | medium | cluster-wide
    Connection limits of single hosts or addresses, as HOST:LIMIT pairs.
max.connection.creation.rate | int | 2147483647 | medium | cluster-wide
    valid: 0..
    How many new connections the broker accepts a second.
queued.max.requests | int | 500 | high | read-only
    valid: 1..
    without effect
    How many requests may wait for a handler thread; here requests are begun as they arrive.
queued.max.request.bytes | long | -1 | medium | read-only
    How many bytes of requests may be under way before no more are read; -1 sets no limit.
num.network.threads | int | 3 | high | cluster-wide
    valid: 1..
    without effect
    Network threads of a listener; here one event loop serves all.
num.io.threads | int | 8 | high | cluster-wide
    valid: 1..
    without effect
    Threads that handle requests; here one event loop serves all.
request.timeout.ms | int | 30000 | high | read-only
    valid: 1..
    How long a transaction's marker may take to be replicated, and how long another broker may take to answer what
    transactions ask of it. Other requests between brokers go by replica.socket.timeout.ms and
    controller.socket.timeout.ms.
max.request.partition.size.limit | int | 2000 | medium | read-only
    valid: 1..
    without effect
    The largest number of partitions in one answer to DescribeTopicPartitions, which brokers with ZooKeeper
    do not serve.
"""
