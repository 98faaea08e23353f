"""A broker's log as objects."""

import json
import logging
import sys

from ottla.json_log import JsonLines


def test_a_record_is_one_line_with_its_exception() -> None:
    try:
        raise ValueError("no\nsuch")
    except ValueError:
        made = logging.LogRecord("a.b", logging.ERROR, "x.py", 1, "%s of %d\n", ("one", 2), sys.exc_info())
    made.created = 1_700_000_000.25
    line = JsonLines().format(made)
    assert "\n" not in line
    read = json.loads(line)
    assert read.pop("exception").startswith("Traceback")
    assert read == {
        "time": "2023-11-14T22:13:20.250+00:00",
        "level": "ERROR",
        "logger": "a.b",
        "message": "one of 2\n",
    }


def test_a_record_without_one_has_no_exception() -> None:
    made = logging.LogRecord("a", logging.INFO, "x.py", 1, "plain", None, None)
    assert json.loads(JsonLines().format(made)).keys() == {"time", "level", "logger", "message"}
