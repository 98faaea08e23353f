"""Subjects by RFC 2253, in the form that X500Principal.getName of Java gives them."""

import pytest
from cryptography import x509
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from security.der import DerError, read_element
from security.distinguished_name import name_text, subject_of


def text(*relative: list[tuple[x509.ObjectIdentifier, str]]) -> str:
    names = [
        x509.RelativeDistinguishedName([x509.NameAttribute(kind, value) for kind, value in each])
        for each in relative
    ]
    element, _ = read_element(memoryview(x509.Name(names).public_bytes()))
    return name_text(element)


CN, OU, ORGANIZATION, C, MAIL = (
    NameOID.COMMON_NAME,
    NameOID.ORGANIZATIONAL_UNIT_NAME,
    NameOID.ORGANIZATION_NAME,
    NameOID.COUNTRY_NAME,
    NameOID.EMAIL_ADDRESS,
)


def test_the_last_relative_name_stands_first() -> None:
    assert text([(C, "DE")], [(ORGANIZATION, "Example")], [(CN, "alice")]) == "CN=alice,O=Example,C=DE"


def test_a_type_without_a_keyword_is_shown_in_hexadecimal() -> None:
    assert text([(MAIL, "a@b")]) == "1.2.840.113549.1.9.1=#1603614062"


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("a,b", "a\\,b"),
        ('a=b+c<d>e;f"g\\h', 'a\\=b\\+c\\<d\\>e\\;f\\"g\\\\h'),
        ("#a#", "\\#a#"),
        (" a b ", "\\ a b\\ "),
        ("ü", "ü"),
        ("a\nb", "a\nb"),
    ],
)
def test_signs_that_are_escaped(value: str, written: str) -> None:
    assert text([(CN, value)]) == f"CN={written}"


def test_several_values_are_joined() -> None:
    assert sorted(text([(CN, "a"), (OU, "b")]).split("+")) == ["CN=a", "OU=b"]


def test_a_value_in_utf_16() -> None:
    attribute = x509.NameAttribute(CN, "aü", _type=_ASN1Type.BMPString)
    element, _ = read_element(memoryview(x509.Name([attribute]).public_bytes()))
    assert name_text(element) == "CN=aü"


def test_a_name_that_is_too_long() -> None:
    with pytest.raises(DerError):
        text(*([(OU, "x" * 64)] for _ in range(1000)))


def test_an_empty_certificate_has_no_subject() -> None:
    with pytest.raises(DerError, match="an empty certificate"):
        subject_of(b"\x30\x00")


@given(st.binary(max_size=200))
def test_rubbish_is_no_certificate(data: bytes) -> None:
    with pytest.raises(DerError):
        subject_of(data)
