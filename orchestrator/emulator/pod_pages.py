"""Lists of pods in pages, as published: `?limit=` and an opaque `?cursor=`. The contract shows no pages.

A list that is asked for as a whole, and fits on one page, is answered in the contract's form, without `pagination`.
"""

from collections.abc import Mapping, Sequence
from typing import Self, TypeVar

import msgspec

from orchestrator.emulator.pod_records import OMITTED, Omitted
from orchestrator.emulator.problems import invalid

LIMIT_MAX = 1000

_CURSOR = "pods-"

T = TypeVar("T")


class Pagination(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Where the next page begins."""

    next_cursor: str | None
    has_next_page: bool


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """Which part of a list is asked for: from which place on, and how many. None: all that a page holds."""

    begin: int = 0
    limit: int | None = None

    @classmethod
    def of(cls, query: Mapping[str, str]) -> Self:
        """Raises Problem 422 for a limit out of bounds, and for a cursor that was never given out."""
        limit, cursor = query.get("limit"), query.get("cursor", f"{_CURSOR}0")
        if limit is not None and not (limit.isdecimal() and 1 <= int(limit) <= LIMIT_MAX):
            raise invalid([f"limit: got {limit:.20}, want an integer from 1 to {LIMIT_MAX}"])
        begin = cursor.removeprefix(_CURSOR)
        if begin == cursor or not begin.isdecimal():
            raise invalid(["cursor: malformed, or of another operation"])
        return cls(begin=int(begin), limit=None if limit is None else int(limit))

    def cut(self, items: Sequence[T], most: int) -> tuple[Sequence[T], Pagination | Omitted]:
        """The items of this page, `most` at most; and how to go on, for somebody who asked for pages or has to."""
        end = self.begin + min(most, self.limit or most)
        is_more = end < len(items)
        if not is_more and not self.begin and self.limit is None:
            return items, OMITTED
        pagination = Pagination(next_cursor=f"{_CURSOR}{end}" if is_more else None, has_next_page=is_more)
        return items[self.begin : end], pagination
