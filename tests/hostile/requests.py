"""What strangers send, and what each of it may be answered."""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from orchestrator.core.service.webhook_token import token

EVIL: Final = b"evil"
"""Stands in every body of a stranger's; it must never be found in a result."""

CLOSED: Final = 0
"""The connection was closed without an answer."""

_BODY: Final = b'{"id":"evil-1","status":"COMPLETED","output":{"text":"evil"},"executionTime":1,"delayTime":1}'
_FAILED: Final = b'{"id":"evil-1","status":"FAILED","error":"evil"}'
_METHODS: Final = ("GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND")
_NESTING: Final = 50_000
_DIGITS: Final = 50_000


class Targets(msgspec.Struct, frozen=True, kw_only=True):
    """What the strangers know: the key of the tokens (they have seen some), and submissions whose jobs have ended."""

    key: bytes
    ended: Sequence[int]
    chance: random.Random

    def token(self) -> str:
        """The token of a job that has ended."""
        return token(self.key, self.chance.choice(self.ended))


class Attack(msgspec.Struct, frozen=True):
    """One kind of request: how its bytes are made, and the answers that are in order."""

    name: str
    make: Callable[[Targets], bytes]
    answers: frozenset[int]


def request(method: str, path: str, body: bytes = _BODY, headers: Mapping[str, str] | None = None) -> bytes:
    """The bytes of a request, its path as it stands here."""
    lines = [f"{method} {path} HTTP/1.1", "Host: x", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def _forged(targets: Targets) -> bytes:
    chance = targets.chance
    return request("POST", f"/hooks/{chance.choice(targets.ended)}.{chance.getrandbits(128):032x}")


def _altered(targets: Targets) -> bytes:
    text = targets.token()
    at = targets.chance.randrange(text.index(".") + 1, len(text))
    return request("POST", f"/hooks/{text[:at]}{'0' if text[at] != '0' else '1'}{text[at + 1 :]}")


def _of_another(targets: Targets) -> bytes:
    """The mac of one submission under the number of another."""
    number, _, mac = targets.token().partition(".")
    return request("POST", f"/hooks/{int(number) + 1}.{mac}")


def _other_method(targets: Targets) -> bytes:
    return request(targets.chance.choice(_METHODS), f"/hooks/{targets.token()}")


def _path_trick(targets: Targets) -> bytes:
    text = targets.token()
    tricks = (
        f"//hooks/{text}",
        f"/hooks//{text}",
        f"/x/../hooks/{text}",
        f"/hooks/../hooks/{text}",
        f"/hooks/%2e%2e/hooks/{text}",
        f"/prefix/hooks/{text}",
        f"/hooks/{text}/",
        f"/hooks/{text}%00",
        f"/hooks/{text};x=1",
        f"/hooks/{text}%20",
        f"/hooks/%EF%BC%91{text[1:]}",
        f"/hooks\\{text}",
        f"/HOOKS/{text}",
        "/../../etc/passwd",
        "/",
        "/metrics",
    )
    return request("POST", targets.chance.choice(tricks))


def _no_utf_8_path(targets: Targets) -> bytes:
    return request("POST", f"/hooks/{targets.token()}%ff%fe\xff")


def _header_bomb(targets: Targets) -> bytes:
    many = {f"X-{number}": "x" * 100 for number in range(1_000)}
    return request("POST", f"/hooks/{targets.token()}", headers=many)


def _long_header(targets: Targets) -> bytes:
    return request("POST", f"/hooks/{targets.token()}", headers={"X": "x" * 100_000})


def _no_http(_targets: Targets) -> bytes:
    return b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500) + b"\r\n\r\n"


def _with_token(*bodies: bytes) -> Callable[[Targets], bytes]:
    def make(targets: Targets) -> bytes:
        return request("POST", f"/hooks/{targets.token()}", targets.chance.choice(bodies))

    return make


def _gigabyte_declared(targets: Targets) -> bytes:
    return request("POST", f"/hooks/{targets.token()}", b"", {"Expect": "100-continue"}).replace(
        b"Content-Length: 0", b"Content-Length: 1000000000"
    )


_NO_UTF_8: Final = b'{"id":"evil-1","status":"COMPLETED","output":"\xff\xfe\xed\xa0\x80"}'
_DEEP: Final = b'{"id":"evil-1","status":"COMPLETED","output":' + b"[" * _NESTING + b"]" * _NESTING + b"}"
_HUGE: Final = b'{"id":"evil-1","status":"COMPLETED","delayTime":%b,"executionTime":1e999999,"output":-%b}' % (
    b"9" * _DIGITS,
    b"9" * _DIGITS,
)

_REFUSED: Final = frozenset({404, CLOSED})
_MALFORMED: Final = frozenset({400, 404, CLOSED})
_NOTED: Final = frozenset({200, 503, CLOSED})

ATTACKS: Final = (
    Attack("forged tokens", _forged, _REFUSED),
    Attack("altered tokens", _altered, _REFUSED),
    Attack("tokens of another submission", _of_another, _REFUSED),
    Attack("other methods", _other_method, _MALFORMED),
    Attack("path tricks", _path_trick, _MALFORMED),
    Attack("paths that are no UTF-8", _no_utf_8_path, _MALFORMED),
    Attack("a thousand headers", _header_bomb, _MALFORMED),
    Attack("a long header", _long_header, _MALFORMED),
    Attack("no HTTP", _no_http, _MALFORMED),
    Attack("replays with another result", _with_token(_BODY, _FAILED), _NOTED),
    Attack("bodies that are no UTF-8", _with_token(_NO_UTF_8), _NOTED),
    Attack("deep JSON", _with_token(_DEEP), _NOTED),
    Attack("huge numbers", _with_token(_HUGE), _NOTED),
    Attack("a gigabyte declared", _gigabyte_declared, _NOTED),
)
"""`CLOSED` is in order everywhere: under attack a connection may be closed to make room for another. 503 is what a holder
of a token hears when the ledger is closed already."""
