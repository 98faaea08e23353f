"""The lines of kafka-delegation-tokens. Times are those of the local clock, to the minute."""

import base64
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.client.admin.tokens import TokenDescription

_FORMAT = "{:<15} {:<30} {:<15} {:<15} {:<25} {:<15} {:<15} {:<15}"


def created_lines(token: "TokenDescription", renewers: Sequence[str], max_life_time_ms: int) -> Iterator[str]:
    """Yield what is printed of a token that was made."""
    named = ", ".join(renewers)
    yield f"Calling create token operation with renewers :[{named}] , max-life-time-period :{max_life_time_ms}"
    yield f"Created delegation token with tokenId : {token.token_id}"
    yield from _table([token])


def described_lines(tokens: Sequence["TokenDescription"], owners: Sequence[str]) -> Iterator[str]:
    """Yield the tokens of owners, or of the user that asks."""
    if owners:
        yield f"Calling describe token operation for owners: [{', '.join(owners)}]"
    else:
        yield "Calling describe token operation for current user."
    yield f"Total number of tokens : {len(tokens)}"
    yield from _table(tokens)


def ended_lines(operation: str, hmac: str, period_ms: int, ends_ms: int) -> Iterator[str]:
    """Yield what is printed when a token's end was moved; ``operation`` is renew or expire."""
    period = "renew-time-period" if operation == "renew" else "expire-time-period"
    yield f"Calling {operation} token operation with hmac :{hmac} , {period} :{period_ms}"
    yield f"Completed {operation} operation. New expiry date : {_time(ends_ms)}"


def _table(tokens: Sequence["TokenDescription"]) -> Iterator[str]:
    columns = ("TOKENID", "HMAC", "OWNER", "REQUESTER", "RENEWERS", "ISSUEDATE", "EXPIRYDATE", "MAXDATE")
    yield ""
    yield _FORMAT.format(*columns)
    for token in tokens:
        yield ""
        yield _FORMAT.format(
            token.token_id,
            base64.b64encode(token.hmac).decode(),
            token.owner,
            token.requester,
            f"[{', '.join(token.renewers)}]",
            *map(_time, (token.issued_ms, token.expires_ms, token.max_ms)),
        )


def _time(wall_ms: int) -> str:
    return datetime.fromtimestamp(wall_ms / 1000).astimezone().strftime("%Y-%m-%dT%H:%M")
