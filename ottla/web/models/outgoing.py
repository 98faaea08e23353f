"""A message that is about to be sent, as people write it."""

import base64
import binascii
import json
from collections.abc import Sequence
from typing import Final

from ottla.web.forms import Form, FormError

ENCODINGS: Final = ("text", "json", "hex", "base64")
Headers = list[tuple[str, bytes | None]]


def written_bytes(text: str, encoding: str, label: str) -> bytes:
    """Return the bytes that a text stands for.

    Raises:
        FormError: It is not valid in that encoding.
    """
    try:
        match encoding:
            case "json":
                return json.dumps(json.loads(text), ensure_ascii=False, separators=(",", ":")).encode()
            case "hex":
                return bytes.fromhex(text)
            case "base64":
                return base64.b64decode(text, validate=True)
    except json.JSONDecodeError as error:
        raise FormError(f"{label} is not JSON: {error}.") from None
    except (ValueError, binascii.Error):
        raise FormError(f"{label} is not written in {encoding}.") from None
    return text.encode()


def outgoing(form: Form) -> tuple[bytes | None, bytes | None, Headers]:
    """Return the key, the value and the headers of a form.

    Raises:
        FormError: One of them is not valid in its chosen encoding.
    """
    key: bytes | None = None
    if form.text("key_null") != "1":
        key = written_bytes(form.get("key", ""), form.chosen("key_as", ENCODINGS, "text"), "The key")
    value: bytes | None = None
    if form.text("value_null") != "1":
        text = form.get("value", "").replace("\r\n", "\n")
        value = written_bytes(text, form.chosen("value_as", ENCODINGS, "text"), "The value")
    headers = [_header(line) for line in form.get("headers", "").splitlines() if line.strip()]
    return key, value, headers


def editable(data: bytes | None) -> tuple[str, str]:
    """Return bytes as text for a field, with its encoding, which gives exactly these bytes again."""
    if data is None:
        return "", "text"
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return data.hex(), "hex"
    # A browser changes line ends and characters that are not printable.
    if "\r" in text or not all(letter.isprintable() or letter in "\n\t" for letter in text):
        return data.hex(), "hex"
    return text, "text"


def header_lines(headers: Sequence[tuple[str, bytes | None]]) -> str:
    """Return headers for a field, one a line; `outgoing` reads the same from it."""
    lines = []
    for name, data in headers:
        text, encoding = editable(data)
        kind = ":null" if data is None else ":hex" if encoding == "hex" or "\n" in text else ""
        lines.append(f"{name}{kind}={data.hex() if kind == ':hex' and data is not None else text}")
    return "\n".join(lines)


def _header(line: str) -> tuple[str, bytes | None]:
    written, equals, content = line.partition("=")
    name, _, kind = written.strip().rpartition(":")
    if kind not in ("hex", "null") or not name:
        name, kind = written.strip(), ""
    if not equals or not name:
        raise FormError(f"The header {line.strip()!r} is not written as name=value.")
    if kind == "null":
        return name, None
    return name, written_bytes(content, "hex" if kind == "hex" else "text", f"The header {name}")
