"""Lists of the REST interface (v2) in pages, newest first (as observed).

A cursor is opaque to whoever follows it: it names the operation, and how much of the list is left, counted from its
oldest end. So what is created or deleted meanwhile shifts nothing that was not shown yet.
"""

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec

from orchestrator.emulator.contract.answers import ProblemRefusal, invalid_problem

PAGE_MAX = 1000
"""The most that a page holds, and what it holds where nobody says so."""

T = TypeVar("T")


class Pagination(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How to go on."""

    next_cursor: str | None
    has_next_page: bool


class Pages:
    """Cuts lists. `size` is the most that a page holds, whatever is asked for."""

    def __init__(self, size: int = PAGE_MAX) -> None:
        self._size = size

    def cut(self, operation: str, items: Sequence[T], query: Mapping[str, str]) -> tuple[list[T], Pagination]:
        """The page that `query` asks for of `items`, oldest first, and its `pagination`. Raises Problem 422."""
        size = min(_limit(query), self._size)
        left = len(items) if "cursor" not in query else min(_place(query["cursor"], operation), len(items))
        rest = max(0, left - size)
        more = _cursor(operation, rest) if rest else None
        return list(reversed(items[rest:left])), Pagination(next_cursor=more, has_next_page=more is not None)


def _limit(query: Mapping[str, str]) -> int:
    text = query.get("limit", str(PAGE_MAX))
    if not (text.isdecimal() and 1 <= int(text) <= PAGE_MAX):
        raise invalid_problem([f"limit: got {text!r}, want an integer from 1 to {PAGE_MAX}"])
    return int(text)


def _cursor(operation: str, left: int) -> str:
    return urlsafe_b64encode(f"{operation}/{left}".encode()).decode().rstrip("=")


def _place(cursor: str, operation: str) -> int:
    try:
        text = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
    except (binascii.Error, ValueError):
        raise _malformed() from None
    of, _, left = text.rpartition("/")
    if of != operation or not left.isdecimal():
        raise _malformed()
    return int(left)


def _malformed() -> ProblemRefusal:
    return invalid_problem(["cursor: it is malformed, or another operation's"])
