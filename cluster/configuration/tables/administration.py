"""Quotas, metrics, policies and plug-ins."""

from typing import Final

TABLE: Final = """
quota.window.num | int | 11 | low | read-only
    valid: 1..
    How many windows client quotas and the rate of new connections are measured over.
quota.window.size.seconds | int | 1 | low | read-only
    valid: 1..
    The length of a window of client quotas and of the rate of new connections.
replication.quota.window.num | int | 11 | low | read-only
    valid: 1..
    without effect
    How many windows replication quotas are measured over; here it is always one.
replication.quota.window.size.seconds | int | 1 | low | read-only
    valid: 1..
    The length of a window of replication quotas.
alter.log.dirs.replication.quota.window.num | int | 11 | low | read-only
    valid: 1..
    without effect
    How many windows the quota of moves between directories is measured over.
alter.log.dirs.replication.quota.window.size.seconds | int | 1 | low | read-only
    valid: 1..
    The length of a window of the quota of moves between directories.
controller.quota.window.num | int | 11 | low | read-only
    valid: 1..
    How many windows the quota of topic changes is measured over.
controller.quota.window.size.seconds | int | 1 | low | read-only
    valid: 1..
    The length of a window of the quota of topic changes.
client.quota.callback.class | class | null | low | read-only
    refused: Java classes are not loaded
    A Java class that decides client quotas.
create.topic.policy.class.name | class | null | low | read-only
    refused: Java classes are not loaded
    A Java class that may refuse new topics.
alter.config.policy.class.name | class | null | low | read-only
    refused: Java classes are not loaded
    A Java class that may refuse changes of configuration.
authorizer.class.name | string | | low | read-only
    What decides who may do what: kafka.security.authorizer.AclAuthorizer, or nothing.
principal.builder.class | class | \
org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder | \
medium | at-start
    refused: Java classes are not loaded
    A Java class that names who is connected.
metric.reporters | list | | low | cluster-wide
    without effect
    Java classes that report metrics.
kafka.metrics.reporters | list | | low | read-only
    without effect
    Java classes that report metrics of the older kind.
kafka.metrics.polling.interval.secs | int | 10 | low | read-only
    valid: 1..
    without effect
    How often metric reporters of the older kind are asked.
metrics.num.samples | int | 2 | low | read-only
    valid: 1..
    without effect
    How many samples a measured rate is made of.
metrics.sample.window.ms | long | 30000 | low | read-only
    valid: 1..
    without effect
    The length of a sample of a measured rate.
metrics.recording.level | string | INFO | low | read-only
    without effect
    How much detail metrics record.
auto.include.jmx.reporter | boolean | true | low | read-only
    without effect
    Whether JMX reports metrics; there is none here.
telemetry.max.bytes | int | 1048576 | low | read-only
    valid: 1..
    without effect
    The largest set of metrics that a client may push.
"""
