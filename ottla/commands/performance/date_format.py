"""Java's SimpleDateFormat, as far as kafka-consumer-perf-test's ``--date-format`` is given. No I/O."""

import re
from datetime import datetime
from typing import Final

_FIELDS: Final = {
    "yyyy": "%Y",
    "yy": "%y",
    "MM": "%m",
    "dd": "%d",
    "HH": "%H",
    "hh": "%I",
    "mm": "%M",
    "ss": "%S",
    "a": "%p",
    "Z": "%z",
}


def formatted(pattern: str, moment: datetime) -> str:
    """Write a moment.

    Args:
        pattern: yyyy, yy, MM, dd, HH, hh, mm, ss, SSS, a, Z, and text: in single quotes, or without letters.
        moment: The moment, in the time zone to show.

    Raises:
        ValueError: The pattern has other letters.
    """
    out = []
    for quoted, letters, other in re.findall(r"'((?:[^']|'')*)'|(([A-Za-z])\3*|[^A-Za-z'])", pattern):
        if letters == "SSS":
            out.append(f"{moment.microsecond // 1000:03}")
        elif letters in _FIELDS:
            out.append(moment.strftime(_FIELDS[letters]))
        elif other:
            raise ValueError(f"the date format has {letters!r}, which is none of {', '.join(_FIELDS)}, SSS")
        else:
            out.append(letters or quoted.replace("''", "'") or "'")
    return "".join(out)
