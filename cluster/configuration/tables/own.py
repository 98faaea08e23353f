"""Settings that Kafka does not have."""

from typing import Final

TABLE: Final = """
log.flush.on.ack | boolean | false | medium | read-only
    Whether an acknowledgement waits until its records are on disk; appends that arrive meanwhile share one
    flush.
ottla.hang.timeout.ms | long | 5000 | medium | read-only
    valid: 0..
    How long the broker's event loop may stand still, the time aside that the whole machine or container stood still,
    before the guardian kills the process and closes its ZooKeeper session, so that its partitions get other leaders. 0
    never does.
ottla.loop.turn.warn.ms | long | 100 | low | read-only
    valid: 0..
    Log a warning, with the task's name, when the broker's event loop does one round of work for longer. 0 never does.
ottla.management.socket | string | null | low | read-only
    The path of the broker's management socket; where not given, `management.sock` in the first log directory that takes
    it. Empty opens none.
ottla.metrics.port | int | -1 | low | read-only
    valid: -1..65535
    The port at which metrics are read in Prometheus' form, on the host of the first listener; 0 takes a free
    one, -1 opens none.
ottla.peer.timeout.ms | long | 1000 | medium | read-only
    valid: 0..
    How long a broker may be silent before the brokers that hold its session's key take its host for dead and close its
    ZooKeeper session, if the others cannot connect to it either. 0: this broker hands its key to nobody and watches
    over none.
ottla.session.reattach | boolean | true | low | read-only
    Whether a broker that is started again after a crash closes the ZooKeeper session of its former life
    instead of waiting for it to expire.
ottla.zookeeper.jaas.config | password | null | medium | read-only
    Who logs in to ZooKeeper by DIGEST-MD5: `org.apache.zookeeper.server.auth.DigestLoginModule required username="..."
    password="...";`, as the section Client of Kafka's JAAS file has it.
ottla.zookeeper.write.bytes.max | int | 1048575 | low | read-only
    valid: 1024..
    The largest write that the ZooKeeper servers take: their `jute.maxbuffer`, of which this is the default. A topic
    with too many partitions, or a setting with too long a value, is refused before it is sent.
"""
