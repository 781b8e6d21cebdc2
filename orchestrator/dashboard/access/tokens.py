"""What is signed with the dashboard's key (HMAC): links that sign in, the cookie of who is signed in, the key of
programs.
"""

import secrets
from typing import Final

import msgspec
from itsdangerous import BadSignature, TimestampSigner, URLSafeSerializer, URLSafeTimedSerializer

from orchestrator.clock import Clock
from orchestrator.units import SECOND_US

LINK_S: Final = 5 * 60
"""A link signs in within so long after it was made, once."""

SESSION_S: Final = 14 * 86_400
"""So long somebody stays signed in."""

NONCE_BYTES: Final = 16
TOKEN_CHARS_MAX: Final = 1_000
"""What is longer is nothing of ours."""


class Person(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody who is signed in, or is to be."""

    name: str
    may_act: bool


class _Signed(msgspec.Struct, frozen=True, array_like=True):
    name: str
    may_act: bool
    nonce: str


class Tokens:
    """Makes and reads what is signed with one key; times are those of `clock`."""

    def __init__(self, key: bytes, clock: Clock) -> None:
        class Signer(TimestampSigner):
            def get_timestamp(self) -> int:
                return clock.now() // SECOND_US

        def timed(salt: str) -> URLSafeTimedSerializer:
            return URLSafeTimedSerializer(key, salt=salt, signer=Signer)

        self._links, self._sessions = timed("link"), timed("session")
        self._programs: URLSafeSerializer = URLSafeSerializer(key, salt="program")

    def link(self, person: Person) -> str:
        """A token that signs that person in."""
        return str(self._links.dumps([person.name, person.may_act, secrets.token_urlsafe(NONCE_BYTES)]))

    def person_of_link(self, token: str) -> Person | None:
        """Whom a token signs in; None for one that was not made here, or is too old."""
        return _read(self._links, token, LINK_S)

    def session(self, person: Person) -> str:
        """What the cookie of that person holds."""
        return str(self._sessions.dumps([person.name, person.may_act, ""]))

    def person_of_session(self, cookie: str) -> Person | None:
        """Whose cookie it is."""
        return _read(self._sessions, cookie, SESSION_S)

    def program_key(self) -> str:
        """What programs send as `Authorization: Bearer KEY`. It lets them look, for as long as the key is there."""
        return str(self._programs.dumps("look"))

    def is_program_key(self, text: str) -> bool:
        """Whether it is that."""
        return secrets.compare_digest(text.encode(), self.program_key().encode())


def _read(of: URLSafeTimedSerializer, token: str, seconds: int) -> Person | None:
    if len(token) > TOKEN_CHARS_MAX:
        return None
    try:
        found = msgspec.convert(of.loads(token, max_age=seconds), _Signed)
    except (BadSignature, msgspec.ValidationError):
        return None
    return Person(name=found.name, may_act=found.may_act)
