"""Logins: sessions in memory that time out, and a limit on wrong passwords."""

import hmac
import secrets
from dataclasses import dataclass, field
from typing import Final

from timing.clock import Clock

LASTS_S: Final = 12 * 3600.0
"""How long a session lasts after it was last used."""
SESSIONS_MAX: Final = 1_000
TRIES_MAX: Final = 5
"""How many wrong passwords an address may send in `TRIES_WITHIN_S`."""
TRIES_WITHIN_S: Final = 60.0
_ADDRESSES_MAX: Final = 10_000
_ALPHABET: Final = "abcdefghjkmnpqrstuvwxyz23456789"


@dataclass(slots=True)
class Session:
    """A login.

    Attributes:
        csrf: The token that every form of the session carries.
        notes: Notes for the next page, with their tone.
    """

    csrf: str
    used_at: float
    notes: list[tuple[str, str]] = field(default_factory=list)

    def take_notes(self) -> list[tuple[str, str]]:
        """Return the notes, once."""
        notes, self.notes = self.notes, []
        return notes


class Sessions:
    """The sessions of a page that has a password.

    Args:
        password: The password.
        clock: The time.
    """

    def __init__(self, password: str, clock: Clock) -> None:
        self._password = password.encode()
        self._clock = clock
        self._sessions: dict[str, Session] = {}
        self._tries: dict[str, list[float]] = {}

    def find(self, name: str | None) -> Session | None:
        """Return the session that a cookie names; None if there is none, or it has expired."""
        session = self._sessions.get(name) if name else None
        now = self._clock.monotonic()
        if session is None or name is None:
            return None
        if now - session.used_at > LASTS_S:
            del self._sessions[name]
            return None
        session.used_at = now
        return session

    def may_try(self, address: str) -> bool:
        """Whether an address is allowed to send a password now."""
        now = self._clock.monotonic()
        tries = [at for at in self._tries.get(address, ()) if now - at < TRIES_WITHIN_S]
        self._tries[address] = tries
        return len(tries) < TRIES_MAX

    def log_in(self, address: str, password: str) -> str | None:
        """Begin a session, and return its name; None if the password is wrong."""
        if not hmac.compare_digest(password.encode(), self._password):
            if len(self._tries) >= _ADDRESSES_MAX:
                self._tries.clear()
            self._tries.setdefault(address, []).append(self._clock.monotonic())
            return None
        if len(self._sessions) >= SESSIONS_MAX:
            oldest = min(self._sessions, key=lambda each: self._sessions[each].used_at)
            del self._sessions[oldest]
        name = secrets.token_urlsafe(32)
        self._sessions[name] = Session(secrets.token_urlsafe(32), self._clock.monotonic())
        return name

    def log_out(self, name: str | None) -> None:
        """End a session."""
        self._sessions.pop(name or "", None)


def new_password() -> str:
    """Return a password that people can type: 20 letters and digits in groups, 98 bits."""
    groups = ("".join(secrets.choice(_ALPHABET) for _ in range(5)) for _ in range(4))
    return "-".join(groups)
