"""Copies one partition exactly once, as librdkafka's users write it: python copier.py <options>.

A few records are read, written to two topics, and their offsets committed, in one transaction; some are aborted on
purpose. It reports what it does as lines of JSON (stage, copied, error), each before a call that can block: the last
line is what a stuck copier waits for. It goes on until it is killed.
"""

import argparse
import json
import random
from collections.abc import Callable

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

CALL_TIMEOUT_S = 3.0
TRANSACTION_TIMEOUT_MS = 10_000
RECORDS_MAX = 4
ABORTED = b"aborted"
_ABORTS = 0.15


class Copier:
    """A consumer, and its current producer."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._place = TopicPartition(options.source, options.partition)
        self._chance = random.Random(options.seed)
        self._copied = 0
        self._error = ""
        self._consumer = Consumer(
            {
                "bootstrap.servers": options.servers,
                "group.id": options.id,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
            }
        )
        self._producer = self._new_producer()

    def run(self) -> None:
        """Copy for ever."""
        self._rewind()
        while True:
            messages = self._poll()
            if not messages:
                continue
            aborts = self._chance.random() < _ABORTS
            try:
                self._copy(messages, aborts=aborts)
            except KafkaException as failure:
                error = failure.args[0]
                self._note(error)
                if not (error.txn_requires_abort() and self._abort()):
                    self._producer = self._new_producer()
                self._rewind()
            else:
                if aborts:
                    self._rewind()
                else:
                    self._copied += len(messages)

    def _copy(self, messages: list[Message], *, aborts: bool) -> None:
        self._say("copy")
        self._producer.begin_transaction()
        for message in messages:
            for target in self._options.targets:
                value = ABORTED if aborts else message.value()
                self._producer.produce(target, value, partition=self._options.partition)
        following = TopicPartition(self._place.topic, self._place.partition, messages[-1].offset() + 1)
        group = self._consumer.consumer_group_metadata()
        self._patiently(
            "send_offsets",
            lambda: self._producer.send_offsets_to_transaction([following], group, CALL_TIMEOUT_S),
        )
        if aborts:
            self._patiently("flush", self._flush)
            self._patiently("abort", lambda: self._producer.abort_transaction(CALL_TIMEOUT_S))
        else:
            self._patiently("commit", lambda: self._producer.commit_transaction(CALL_TIMEOUT_S))

    def _flush(self) -> None:
        """Wait, up to a timeout, until the records to be aborted have reached the logs."""
        self._producer.flush(CALL_TIMEOUT_S)

    def _abort(self) -> bool:
        """Abort; return whether the producer can go on."""
        try:
            self._patiently("abort", lambda: self._producer.abort_transaction(CALL_TIMEOUT_S))
        except KafkaException as failure:
            self._note(failure.args[0])
            return False
        return True

    def _new_producer(self) -> Producer:
        """Return a producer that has fenced off the one before."""
        producer = Producer(
            {
                "bootstrap.servers": self._options.servers,
                "transactional.id": self._options.id,
                "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
                "linger.ms": 0,
            }
        )
        self._patiently("init_transactions", lambda: producer.init_transactions(CALL_TIMEOUT_S))
        return producer

    def _rewind(self) -> None:
        """Go back to the committed offset: an abort does not move a consumer's position."""
        found: list[TopicPartition] = []

        def ask() -> None:
            found[:] = self._consumer.committed([self._place], timeout=CALL_TIMEOUT_S)
            if found[0].error is not None:
                raise KafkaException(found[0].error)

        self._patiently("committed", ask, again=lambda error: True)
        self._copied = max(found[0].offset, 0)
        self._consumer.assign([TopicPartition(self._place.topic, self._place.partition, self._copied)])

    def _poll(self) -> list[Message]:
        """Return the next few records; an empty list if there are none, or after an error."""
        self._say("poll")
        messages: list[Message] = []
        message = self._consumer.poll(CALL_TIMEOUT_S)
        while message is not None:
            if message.error() is not None:
                self._note(message.error())
                break
            assert message.offset() == self._copied + len(messages), (message.offset(), self._copied)
            messages.append(message)
            if len(messages) == RECORDS_MAX:
                break
            message = self._consumer.poll(0)
        return messages

    def _patiently(
        self,
        stage: str,
        call: Callable[[], object],
        again: Callable[[KafkaError], bool] = lambda error: error.retriable(),
    ) -> None:
        """Make a call, and retry it while its error is retriable."""
        while True:
            self._say(stage)
            try:
                call()
            except KafkaException as failure:
                error = failure.args[0]
                if not again(error):
                    raise
                self._note(error)
            else:
                return

    def _note(self, error: KafkaError) -> None:
        self._error = f"{error.name()}: {error.str()}"

    def _say(self, stage: str) -> None:
        print(json.dumps({"stage": stage, "copied": self._copied, "error": self._error}), flush=True)


def main() -> None:
    """Parse the command line and copy."""
    parser = argparse.ArgumentParser()
    for name in ("servers", "id", "source"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--targets", nargs="+", required=True)
    for name in ("partition", "seed"):
        parser.add_argument(f"--{name}", type=int, required=True)
    Copier(parser.parse_args()).run()


if __name__ == "__main__":
    main()
