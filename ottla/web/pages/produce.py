"""Sending a message: a new one, or one that is in the topic again."""

from typing import Final

import trio
from starlette.responses import Response

from ottla.web.answers import CALL_TIMEOUT_S
from ottla.web.browsing import TopicBrowser
from ottla.web.forms import FormError
from ottla.web.models.outgoing import ENCODINGS, editable, header_lines, outgoing
from ottla.web.visit import Missing, Visit

_NOTHING: Final = {"key": "", "key_as": "text", "value": "", "value_as": "text", "headers": ""}


async def show(visit: Visit) -> Response:
    """Show the form; with a partition and an offset it contains the message there."""
    name, count = await _topic(visit)
    fields: dict[str, str] = dict(_NOTHING)
    key_null, value_null, number = True, False, ""
    partition = visit.query.optional_number("partition", "The partition", at_most=count - 1)
    offset = visit.query.optional_number("offset", "The offset")
    if partition is not None and offset is not None:
        found = await TopicBrowser(visit.web.connection.kafka, name).raw(partition, offset)
        if found is None:
            raise Missing(f"There is no message at offset {offset} of {name}-{partition}.")
        record = found[0]
        fields["key"], fields["key_as"] = editable(record.raw_key)
        fields["value"], fields["value_as"] = editable(record.raw_value)
        fields["headers"] = header_lines(record.headers)
        key_null, value_null, number = record.raw_key is None, record.raw_value is None, str(partition)
    return visit.page(
        "produce.html",
        "topics",
        topic=name,
        partitions=count,
        fields=fields,
        key_null=key_null,
        value_null=value_null,
        number=number,
        encodings=ENCODINGS,
        resent=offset,
    )


async def send(visit: Visit) -> Response:
    """Send a message, and wait until it is acknowledged."""
    name, count = await _topic(visit)
    key, value, headers = outgoing(visit.form)
    partition = visit.form.optional_number("partition", "The partition", at_most=count - 1)
    with trio.move_on_after(CALL_TIMEOUT_S):
        async with visit.web.connection.kafka.producer(delivery_timeout=CALL_TIMEOUT_S, linger=0.0) as out:
            place = await out.send(name, value, key=key, headers=headers, partition=partition)
        note = f"Written to {name}-{place.partition} at offset {place.offset}."
        return visit.go(f"{visit.to_topic(name)}/messages/{place.partition}/{place.offset}", note)
    raise FormError("The message was not acknowledged in time: it may have been written.")


async def _topic(visit: Visit) -> tuple[str, int]:
    name = visit.path("topic")
    topic = await visit.topic(name)
    return name, len(topic.partitions)
