"""Parse what the formatters of the state topics print."""

import json


def objects(text: str) -> list[dict]:
    """Return the JSON objects in a text; Kafka 3.9.1 prints no separator between them."""
    decoder, found, at = json.JSONDecoder(), [], 0
    while at < len(text):
        value, at = decoder.raw_decode(text, at)
        found.append(value)
        while text[at : at + 1] == "\n":
            at += 1
    return found


def group_of(entry: dict) -> str | None:
    """Return the group that a record is about, or None if it is about something else."""
    data = entry["key"] and entry["key"]["data"]
    return data.get("group") if isinstance(data, dict) else None
