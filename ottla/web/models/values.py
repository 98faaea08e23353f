"""Keys and values as people read them: JSON, Avro, text, or the bytes themselves."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

FORMATS: Final = ("auto", "text", "json", "avro", "hex")
FULL_MAX: Final = 64 * 1024
"""The most characters shown of a value."""
_SHORT: Final = 160
_HEX_ROW: Final = 16
_MAGIC: Final = 0

Decode = Callable[[bytes], Any]
"""Decodes Avro; raises ValueError or another Exception where that cannot be done."""


@dataclass(frozen=True, slots=True)
class Shown:
    """Bytes in a readable form.

    Attributes:
        kind: null, empty, json, avro, text or hex.
        short: On one line.
        full: Laid out, up to `FULL_MAX` characters.
        size: How many bytes there are.
        data: What JSON or Avro decoded to; None for the others.
        problem: Why they are not shown in the requested form; None if they are.
    """

    kind: str
    short: str
    full: str
    size: int
    data: Any = None
    problem: str | None = None

    @property
    def is_cut(self) -> bool:
        """Whether not all of it is shown."""
        return len(self.full) >= FULL_MAX


def show(data: bytes | None, wanted: str = "auto", avro: Decode | None = None) -> Shown:
    """Return bytes in a form for people.

    Args:
        data: The bytes; None for null.
        wanted: One of `FORMATS`; auto takes the first that fits.
        avro: Decodes what has a registered schema; None without a registry.
    """
    if data is None:
        return Shown("null", "null", "null", 0)
    if not data:
        return Shown("empty", "empty", "", 0)
    if wanted == "hex":
        return _as_hex(data)
    problem = None
    if wanted == "avro" or (wanted == "auto" and avro is not None and data[0] == _MAGIC and len(data) > 5):
        found, problem = _as_avro(data, avro)
        if found is not None:
            return found
    if wanted in ("json", "auto") and (found := _as_json(data, wanted)) is not None:
        return found
    if wanted == "json":
        problem = "not JSON"
    text = _text(data)
    if text is not None and (wanted == "text" or _is_readable(text)):
        return Shown("text", _one_line(text), text[:FULL_MAX], len(data), None, problem)
    if wanted == "text":
        problem = "not text in UTF-8"
    shown = _as_hex(data)
    return Shown(shown.kind, shown.short, shown.full, shown.size, None, problem if wanted != "auto" else None)


def _as_json(data: bytes, wanted: str) -> Shown | None:
    # A lone number or word is shown as text, unless JSON is asked for.
    if wanted == "auto" and data.lstrip()[:1] not in (b"{", b"["):
        return None
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return _of_data("json", found, len(data))


def _as_avro(data: bytes, avro: Decode | None) -> tuple[Shown | None, str | None]:
    if avro is None:
        return None, "no schema registry is known: start the page with --schema-registry URL"
    try:
        found = avro(data)
    except Exception as error:  # noqa: BLE001 - what a foreign schema and fastavro raise on damaged bytes has no bounds
        return None, f"not Avro: {error}"
    return _of_data("avro", found, len(data)), None


def _of_data(kind: str, found: Any, size: int) -> Shown:
    short = json.dumps(found, ensure_ascii=False, separators=(", ", ": "), default=str)
    full = json.dumps(found, ensure_ascii=False, indent=2, default=str)
    return Shown(kind, _one_line(short), full[:FULL_MAX], size, found)


def _as_hex(data: bytes) -> Shown:
    rows = []
    for at in range(0, min(len(data), FULL_MAX // 5), _HEX_ROW):
        row = data[at : at + _HEX_ROW]
        letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        rows.append(f"{at:08x}  {row.hex(' '):<47}  {letters}")
    return Shown("hex", data[:48].hex(" ") + ("…" if len(data) > 48 else ""), "\n".join(rows), len(data))


def _text(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _is_readable(text: str) -> bool:
    return all(letter.isprintable() or letter in "\n\r\t" for letter in text)


def _one_line(text: str) -> str:
    line = " ".join(text[: _SHORT * 2].split())
    return line[:_SHORT] + "…" if len(line) > _SHORT or len(text) > _SHORT * 2 else line


def member(data: Any, path: str) -> Any:
    """Return the member at a path like ``customer.id`` or ``lines.0.price``.

    Raises:
        KeyError: There is nothing there.
    """
    for name in path.split("."):
        if isinstance(data, dict) and name in data:
            data = data[name]
        elif isinstance(data, list) and name.isdigit() and int(name) < len(data):
            data = data[int(name)]
        else:
            raise KeyError(path)
    return data
