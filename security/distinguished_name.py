"""The subject of a certificate as Java's X500Principal writes it, which is the name that ACLs give a TLS client.

RFC 2253, the last relative name first: ``CN=alice,OU=dev,O=Example``. Nine types have a keyword; every other is written
as its object identifier and ``#`` with the value's DER in hexadecimal. Values of one relative name are joined by ``+``.
"""

from typing import Final

from security.der import (
    OBJECT_IDENTIFIER,
    SEQUENCE,
    SET,
    DerError,
    Element,
    children,
    object_identifier,
    read_element,
)

KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "2.5.4.9": "STREET",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_ENCODINGS: Final = {
    0x0C: "utf-8",  # UTF8String
    0x13: "ascii",  # PrintableString
    0x16: "ascii",  # IA5String
    0x14: "latin-1",  # TeletexString
    0x1E: "utf-16-be",  # BMPString
    0x1C: "utf-32-be",  # UniversalString
    0x12: "ascii",  # NumericString
}
_ESCAPED: Final = frozenset(',=+<>;"\\')
NAME_BYTES_MAX: Final = 16 * 1024
"""A longer subject is refused: it would become the key of quotas and part of every log line."""
_EXPLICIT_VERSION: Final = 0xA0


def subject_of(certificate: bytes) -> str:
    """Return the subject of a certificate.

    Args:
        certificate: The certificate's DER.

    Raises:
        DerError: it is no certificate, or its subject is malformed or too long.
    """
    outer, _ = read_element(memoryview(certificate))
    parts = children(outer, SEQUENCE)
    if not parts:
        raise DerError("an empty certificate")
    to_be_signed = children(parts[0], SEQUENCE)
    # [version], serial number, signature algorithm, issuer, validity, subject
    index = 5 if to_be_signed and to_be_signed[0].tag == _EXPLICIT_VERSION else 4
    if len(to_be_signed) <= index:
        raise DerError("a certificate without a subject")
    return name_text(to_be_signed[index])


def name_text(name: Element) -> str:
    """Return a distinguished name, which is a sequence of relative names.

    Raises:
        DerError: it is malformed or too long.
    """
    if len(name.encoded) > NAME_BYTES_MAX:
        raise DerError(f"a name of {len(name.encoded)} bytes, where {NAME_BYTES_MAX} are allowed")
    relative = [
        "+".join(_attribute(attribute) for attribute in children(each, SET))
        for each in children(name, SEQUENCE)
    ]
    return ",".join(reversed(relative))


def _attribute(attribute: Element) -> str:
    parts = children(attribute, SEQUENCE)
    if len(parts) != 2 or parts[0].tag != OBJECT_IDENTIFIER:
        raise DerError("an attribute is not a type and a value")
    kind, value = object_identifier(parts[0].content), parts[1]
    encoding = _ENCODINGS.get(value.tag)
    if kind not in KEYWORDS or encoding is None:
        return f"{KEYWORDS.get(kind, kind)}=#{value.encoded.hex()}"
    try:
        return f"{KEYWORDS[kind]}={_escaped(bytes(value.content).decode(encoding))}"
    except UnicodeDecodeError:
        raise DerError(f"the value of {KEYWORDS[kind]} is not in its declared encoding") from None


def _escaped(value: str) -> str:
    escaped = "".join(f"\\{character}" if character in _ESCAPED else character for character in value)
    if value.startswith("#"):
        escaped = "\\" + escaped
    leading = len(value) - len(value.lstrip(" "))
    if leading == len(value):
        return "\\ " * len(value)
    trailing = len(value) - len(value.rstrip(" "))
    inner = escaped[leading : len(escaped) - trailing]
    return "\\ " * leading + inner + "\\ " * trailing
