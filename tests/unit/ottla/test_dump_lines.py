"""What a dump prints, as Kafka's text and as JSON, from the same fields."""

import json

import pytest

from ottla.log_dump.lines import Line, remark


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (remark("Dumping a.log"), "Dumping a.log"),
        (Line("index", {"offset": 5, "position": 70}), "offset: 5 position: 70"),
        (
            Line("batch", {"baseOffset": 0, "isControl": True, "deleteHorizonMs": None}),
            "baseOffset: 0 isControl: true deleteHorizonMs: OptionalLong.empty",
        ),
        (Line("batch", {"deleteHorizonMs": 7}), "deleteHorizonMs: OptionalLong[7]"),
        (
            Line("record", {"offset": 1, "headerKeys": ["a", "b"], "key": "k", "payload": "v"}),
            "| offset: 1 headerKeys: [a,b] key: k payload: v",
        ),
        (Line("record", {"key": "k", "payload": "v"}), "| key: k payload: v"),
        (Line("record", {"payload": "v"}), " payload: v"),
        (Line("record", {}), ""),
        (
            Line("record", {"offset": 1, "isValid": True, "crc": 12, "key": "k"}),
            "| offset: 1 isValid: true crc: 12} key: k",
        ),
        (
            Line("producer", {"currentTxnFirstOffset": None, "lastTimestamp": 3}),
            "currentTxnFirstOffset: OptionalLong.empty lastTimestamp: 3 ",
        ),
        (
            Line("producer", {"lastTimestamp": 3, "firstSequence": 1}),
            "lastTimestamp: 3 firstSequence: 1",
        ),
    ],
)
def test_a_line_is_kafkas_text_or_an_object_with_the_same_fields(line: Line, text: str) -> None:
    assert line.text() == text
    assert json.loads(line.as_json("a.log")) == {"file": "a.log", "kind": line.kind, **line.fields}
