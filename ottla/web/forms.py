"""Forms and query strings: what people typed, read with limits."""

from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import parse_qsl

from starlette.requests import Request

BODY_SIZE_MAX: Final = 8 * 1024 * 1024
_FIELDS_MAX: Final = 20_000


class FormError(Exception):
    """The input cannot be used; the text says why, and what would be valid."""


class Form(Mapping[str, str]):
    """Fields by name; if a name occurs more than once, the last field counts.

    Args:
        pairs: Names and values.
    """

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self._pairs = pairs
        self._last = dict(pairs)

    def __getitem__(self, name: str) -> str:
        return self._last[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._last)

    def __len__(self) -> int:
        return len(self._last)

    def all(self, name: str) -> list[str]:
        """Return every value of a name."""
        return [value for found, value in self._pairs if found == name]

    def text(self, name: str, default: str = "") -> str:
        """Return a field without surrounding white space."""
        return self._last.get(name, default).strip()

    def required(self, name: str, label: str) -> str:
        """Return a field that must not be empty.

        Raises:
            FormError: It is.
        """
        text = self.text(name)
        if not text:
            raise FormError(f"{label} is needed.")
        return text

    def chosen(self, name: str, among: Mapping[str, object] | tuple[str, ...], default: str) -> str:
        """Return a field that must be one of some values; the default if it is none of them."""
        text = self.text(name, default)
        return text if text in among else default

    def number(
        self,
        name: str,
        label: str,
        *,
        at_least: int = 0,
        at_most: int = 2**63 - 1,
        default: int | None = None,
    ) -> int:
        """Return a whole number.

        Raises:
            FormError: It is not a number, or out of its range, or missing and without a default.
        """
        found = self.optional_number(name, label, at_least=at_least, at_most=at_most)
        if found is None:
            if default is None:
                raise FormError(f"{label} is needed.")
            return default
        return found

    def optional_number(
        self, name: str, label: str, *, at_least: int = 0, at_most: int = 2**63 - 1
    ) -> int | None:
        """Return a whole number, None if the field is empty; raises as `number`."""
        text = self.text(name).replace("_", "").replace(" ", "")
        if not text:
            return None
        try:
            number = int(text)
        except ValueError:
            raise FormError(f"{label} {text!r} is not a whole number.") from None
        if not at_least <= number <= at_most:
            limit = f"at least {at_least:,}" if number < at_least else f"at most {at_most:,}"
            raise FormError(f"{label} is {limit}.")
        return number


def query_of(request: Request) -> Form:
    """Return the query string's fields."""
    return Form(parse_qsl(request.url.query, keep_blank_values=True, max_num_fields=_FIELDS_MAX))


async def form_of(request: Request) -> Form:
    """Read a submitted form.

    Raises:
        FormError: It is too large or malformed, or its content type is not that of a form.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip()
    if kind != "application/x-www-form-urlencoded":
        raise FormError("This address takes forms only.")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_SIZE_MAX:
            raise FormError(f"The form is larger than {BODY_SIZE_MAX // 1024**2} MiB.")
    try:
        return Form(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=_FIELDS_MAX))
    except ValueError:
        raise FormError("The form cannot be read.") from None
