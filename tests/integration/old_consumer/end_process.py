"""A member ("end") of an old consumer group as a process: python end_process.py NAME=VALUE..., properties and a topic.

It prints what happens as lines of JSON, each with the time on the machine's monotonic clock: claimed and released
(partitions), consumed (partition, offset and value), left. SIGTERM has it leave its group.
"""

import json
import signal
import sys
import time

import trio

from ottla.old_consumer import Connector, parse_properties


def say(event: str, **what: object) -> None:
    print(json.dumps({"event": event, "at": time.monotonic(), **what}), flush=True)


class Listener:
    """Prints what is claimed and released."""

    def before_releasing(self, owned) -> None:
        say("released", partitions=sorted(place.partition for place in owned))

    def before_starting(self, consumer_id: str, assignment) -> None:
        mine = assignment[consumer_id]
        say("claimed", partitions=sorted(place.partition for place in mine), consumer=consumer_id)


async def main(properties: dict[str, str]) -> None:
    topic = properties.pop("topic")
    settings, _ = parse_properties(properties)
    with trio.open_signal_receiver(signal.SIGTERM) as signals:
        async with Connector(settings, listener=Listener()) as connector, trio.open_nursery() as nursery:

            async def leave_on_signal() -> None:
                async for _ in signals:
                    nursery.cancel_scope.cancel()

            nursery.start_soon(leave_on_signal)
            streams = await connector.create_message_streams({topic: 1})
            async for record in streams[topic][0]:
                what = {"partition": record.partition, "offset": record.offset}
                say("consumed", **what, value=record.value.decode())
    say("left")


if __name__ == "__main__":
    trio.run(main, dict(argument.split("=", 1) for argument in sys.argv[1:]))
