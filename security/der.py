"""Just enough of DER to look into certificates and key stores without decoding them whole.

+-----+--------+----------------+
| tag | length | content        |    length: one byte below 0x80, else 0x80 + n and n bytes
+-----+--------+----------------+
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

SEQUENCE: Final = 0x30
SET: Final = 0x31
OBJECT_IDENTIFIER: Final = 0x06
OCTET_STRING: Final = 0x04


class DerError(ValueError):
    """The bytes are not DER, or not the structure that was expected."""


class Element(NamedTuple):
    """One element: its tag, its content, and its whole encoding."""

    tag: int
    content: memoryview
    encoded: memoryview


def read_element(data: memoryview, offset: int = 0) -> tuple[Element, int]:
    """Read the element at an offset; return it and where the next one begins.

    Raises:
        DerError: there is no whole element, or its length is not in the shortest form.
    """
    try:
        tag, size = data[offset], data[offset + 1]
        position = offset + 2
        if tag & 0x1F == 0x1F:
            raise DerError("a tag of several bytes")
        if size >= 0x80:
            count = size & 0x7F
            if not 1 <= count <= 4:
                raise DerError("an indefinite or huge length")
            size = int.from_bytes(data[position : position + count], "big")
            position += count
            if size < 0x80:
                raise DerError("a length that is not in its shortest form")
    except IndexError:
        raise DerError("the data end inside an element") from None
    end = position + size
    if end > len(data):
        raise DerError("an element is longer than the data")
    return Element(tag, data[position:end], data[offset:end]), end


def read_elements(data: memoryview) -> Iterator[Element]:
    """Return the consecutive elements in `data`.

    Raises:
        DerError: the last of them is incomplete.
    """
    offset = 0
    while offset < len(data):
        element, offset = read_element(data, offset)
        yield element


def children(element: Element, tag: int) -> list[Element]:
    """Return the elements that an element contains.

    Raises:
        DerError: it has another tag, or its content is not a sequence of elements.
    """
    if element.tag != tag:
        raise DerError(f"a tag {element.tag:#x} where {tag:#x} is expected")
    return list(read_elements(element.content))


def object_identifier(content: memoryview) -> str:
    """Return an object identifier in its dotted form.

    Raises:
        DerError: it is empty or does not end.
    """
    numbers: list[int] = []
    value = 0
    for byte in content:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(value)
            value = 0
    if not numbers or content[-1] & 0x80:
        raise DerError("a malformed object identifier")
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))
