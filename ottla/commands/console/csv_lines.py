"""CSV over bytes (RFC 4180), with null and the empty string apart: an empty field is null, ``""`` is empty. No I/O."""

from collections.abc import Sequence

_QUOTE = b'"'


def join_row(fields: Sequence[bytes | None]) -> bytes:
    """Return one row, without its line end; fields are quoted where they have to be."""
    return b",".join(map(_written, fields))


def _written(field: bytes | None) -> bytes:
    if field is None:
        return b""
    if not field or any(mark in field for mark in (b",", _QUOTE, b"\n", b"\r")):
        return _QUOTE + field.replace(_QUOTE, b'""') + _QUOTE
    return field


def join_open_quotes(before: bytes, line: bytes) -> tuple[bytes | None, bytes]:
    """Join a line to a row whose quoted field it goes on.

    Args:
        before: What has been read of the row, empty at its beginning.
        line: The next line.

    Returns:
        The row, None while it goes on; and what has been read of it, empty once it is whole.
    """
    row = before + b"\n" + line if before else line
    if row.count(_QUOTE) % 2:
        return None, row
    return row.removesuffix(b"\r"), b""


def split_row(row: bytes) -> list[bytes | None]:
    """Return the fields of a row whose quotes are closed."""
    fields: list[bytes | None] = []
    at = 0
    while True:
        if row[at : at + 1] == _QUOTE:
            end = at + 1
            while True:
                end = row.find(_QUOTE, end)
                if end < 0:
                    end = len(row)
                    break
                if row[end + 1 : end + 2] != _QUOTE:
                    break
                end += 2
            fields.append(row[at + 1 : end].replace(b'""', _QUOTE))
            at = row.find(b",", end)
        else:
            end = row.find(b",", at)
            field = row[at:] if end < 0 else row[at:end]
            fields.append(field or None)
            at = end
        if at < 0:
            return fields
        at += 1
