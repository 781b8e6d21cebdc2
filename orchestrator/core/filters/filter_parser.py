r"""The filter language, from its text to a tree (`core.filters`).

    state=failed class=timed_out error~"CUDA out" attempts>2 id^=night- input.lang=de meta.shop=7 ended>2h line<=500

Terms stand side by side (all of them), or are joined by `and`, `or`, `not` and parentheses. A value with spaces,
parentheses or quotation marks stands in double quotes, in which `\"` is one. `~` does not tell capital letters of
ASCII from small ones; `=` and `^=` do. What is wrong is told with its place and the nearest name that there is.
"""

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, NoReturn, TypeVar

from orchestrator.core.filters.filter import (
    EVERY,
    ORDER,
    And,
    ClassIs,
    ClusterIs,
    Comparison,
    Filter,
    Leaf,
    Member,
    Not,
    Number,
    Or,
    RetriedFor,
    StateIs,
    Text,
)
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.core.text.durations import parse_duration
from orchestrator.units import EPOCH, SECOND_US

TEXT_MAX: Final = 2_000
"""The most characters of a filter."""

NESTED_MAX: Final = 50
"""How deep parentheses and `not` may stand in each other."""

NUMBER_MAX: Final = 2**63 - 1

CLUSTER_DIGITS: Final = 12
"""Hexadecimal digits of the name of a cluster."""

INPUT: Final = "input."
"""With this begins a field that is a member of the input."""

METADATA: Final = "meta."
"""With this begins one that is a member of what rows carry unsent."""

_ROOTS: Final = (INPUT, METADATA)

_NOT: Final = {Comparison.DIFFERENT: Comparison.EQUAL, Comparison.LACKS: Comparison.CONTAINS}
"""Comparisons that are the opposite of another one."""

_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_ESCAPED: Final = re.compile(r'\\(["\\])')

_LONGEST_FIRST: Final = sorted(Comparison, key=len, reverse=True)


class FilterError(ValueError):
    """The text is no filter; the message says where, and what was to be expected."""


def parse(text: str, *, now: int) -> Filter:
    """The filter that `text` is; `now` (microseconds UTC) is when durations such as `ended>2h` end.

    An empty text means every job. Raises `FilterError`.
    """
    if len(text) > TEXT_MAX:
        raise FilterError(f"the filter has {len(text)} characters; the most are {TEXT_MAX}")
    if not _is_text(text):
        raise FilterError("the filter holds bytes that are no text in UTF-8")
    return _Parser(text, now).whole()


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class _Parser:
    """Reads one text from left to right."""

    def __init__(self, text: str, now: int) -> None:
        self._text = text
        self._now = now
        self._at = 0
        self._depth = 0

    def whole(self) -> Filter:
        """All of the text."""
        if not self._rest():
            return EVERY
        found = self._either()
        if self._rest():  # only a parenthesis ends an expression before the text does
            self._fail("there is no parenthesis that this one closes", self._at)
        return found

    def _rest(self) -> str:
        """What is still to be read, from its first word on."""
        while self._at < len(self._text) and self._text[self._at].isspace():
            self._at += 1
        return self._text[self._at :]

    def _either(self) -> Filter:
        parts = [self._all()]
        while self._takes_word("or"):
            parts.append(self._all())
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def _all(self) -> Filter:
        parts = [self._one()]
        while self._takes_word("and") or self._goes_on():
            parts.append(self._one())
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _goes_on(self) -> bool:
        rest = self._rest()
        return bool(rest) and not rest.startswith(")") and not self._is_word("or")

    def _one(self) -> Filter:
        begins = self._at
        self._depth += 1
        if self._depth > NESTED_MAX:
            self._fail(f"more than {NESTED_MAX} parentheses or `not` stand in each other", begins)
        found: Filter
        if self._takes_word("not"):
            found = Not(self._one())
        elif self._rest().startswith("("):
            found = self._bracketed()
        else:
            found = self._term()
        self._depth -= 1
        return found

    def _bracketed(self) -> Filter:
        opened = self._at
        self._at += 1
        found = self._either()
        if not self._rest().startswith(")"):
            self._fail("this parenthesis is not closed", opened)
        self._at += 1
        return found

    def _is_word(self, word: str) -> bool:
        rest = self._rest()
        after = rest[len(word) : len(word) + 1]
        return rest[: len(word)].lower() == word and (not after or after.isspace() or after in "()")

    def _takes_word(self, word: str) -> bool:
        is_there = self._is_word(word)
        if is_there:
            self._at += len(word)
        return is_there

    def _term(self) -> Filter:
        rest, begins = self._rest(), self._at
        if not rest or rest[0] == ")" or any(self._is_word(word) for word in ("and", "or")):
            self._fail(f"here should stand a term such as state=failed; fields are {_FIELDS_TOLD}", begins)
        length = next((n for n, c in enumerate(rest) if c.isspace() or c in '()"=!<>~^'), len(rest))
        field = rest[:length]
        self._at += length
        _check_field(field, lambda why: self._fail(why, begins))
        comparison = self._comparison(field)
        self._rest()
        value_at = self._at
        value = self._value(field, comparison)
        try:
            leaf = _leaf(field, _NOT.get(comparison, comparison), value, self._now)
        except ValueError as error:
            self._fail(str(error), value_at)
        return Not(leaf) if comparison in _NOT else leaf

    def _comparison(self, field: str) -> Comparison:
        rest, at = self._rest(), self._at
        known = _comparisons_of(field)
        found = next((each for each in _LONGEST_FIRST if rest.startswith(each)), None)
        if found is None:
            self._fail(f"behind {field} stands a comparison: {' '.join(known)}", at)
        if found not in known:
            self._fail(f"{field} cannot be compared by {found}, but by {' '.join(known)}", at)
        self._at += len(found)
        return found

    def _value(self, field: str, comparison: Comparison) -> str:
        rest, begins = self._text[self._at :], self._at
        if rest.startswith('"'):
            return self._quoted()
        length = next((n for n, c in enumerate(rest) if c.isspace() or c in '()"'), len(rest))
        if not length:
            self._fail(f'{field}{comparison} needs a value; an empty one is ""', begins)
        self._at += length
        return rest[:length]

    def _quoted(self) -> str:
        found = _QUOTED.match(self._text, self._at)
        if found is None:
            self._fail("this quotation mark is not closed", self._at)
        self._at = found.end()
        return _ESCAPED.sub(r"\1", found[1])

    def _fail(self, why: str, at: int) -> NoReturn:
        raise FilterError(f"at character {at + 1}: {why}\n  {_printable(self._text)}\n  {' ' * at}^") from None


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)


_EQUALITY: Final = (Comparison.EQUAL, Comparison.DIFFERENT)
_TEXT: Final = (*_EQUALITY, Comparison.CONTAINS, Comparison.LACKS, Comparison.BEGINS)
_COMPARISONS: Final[Mapping[str, Sequence[Comparison]]] = {
    "state": _EQUALITY,
    "class": _EQUALITY,
    "cluster": _EQUALITY,
    "retried": _EQUALITY,
    "id": _TEXT,
    "error": _TEXT,
    "attempts": (*_EQUALITY, *ORDER),
    "line": (*_EQUALITY, *ORDER),
    "ended": ORDER,
}
_FIELDS_TOLD: Final = f"{', '.join(_COMPARISONS)}, {INPUT}NAME and {METADATA}NAME"
FIELDS: Final = (*_COMPARISONS, *_ROOTS)
"""The fields, for those who explain them."""


def _comparisons_of(field: str) -> Sequence[Comparison]:
    return _COMPARISONS.get(field, (*_TEXT, *ORDER))


def _check_field(field: str, fail: Callable[[str], NoReturn]) -> None:
    if field in _COMPARISONS:
        return
    if field.startswith(_ROOTS):
        if not all(field.split(".")):
            root, what = (INPUT, "the input") if field.startswith(INPUT) else (METADATA, "the metadata")
            fail(f"{field} names no member of {what}; {root}lang is one, and {root}prompt.text")
        return
    near = _nearest(field, (*_COMPARISONS, *(root[:-1] for root in _ROOTS)))
    named = f'there is no field "{field:.40}"' if field else "here should stand the name of a field"
    advice = f"did you mean {near}{'.NAME' if near + '.' in _ROOTS else ''}?" if near else f"fields are {_FIELDS_TOLD}"
    fail(f"{named}; {advice}")


def _nearest(word: str, known: Sequence[str]) -> str:
    return next(iter(difflib.get_close_matches(word.lower(), known, n=1)), "")


Word = TypeVar("Word", bound=StrEnum)


def _leaf(field: str, comparison: Comparison, value: str, now: int) -> Leaf:
    """The term `field` `comparison` `value`; raises ValueError for a value that does not fit."""
    found: Leaf
    match field:
        case "state":
            found = StateIs(_word(State, "state", value))
        case "class":
            found = ClassIs(_word(FailureClass, "class", value))
        case "cluster":
            found = ClusterIs(cluster_key(value))
        case "retried":
            found = RetriedFor(cluster_key(value))
        case "id" | "error":
            found = Text(field, comparison, value)
        case "attempts" | "line":
            found = Number(field, comparison, _whole(field, value))
        case "ended":
            found = _ended(comparison, value, now)
        case _:
            _, *path = field.split(".")
            found = Member(tuple(path), comparison, value, of_metadata=field.startswith(METADATA))
    return found


def _word(kind: type[Word], named: str, value: str) -> Word:
    known = [word.value for word in kind]
    if value.lower() in known:
        return kind(value.lower())
    near = _nearest(value, known)
    advice = f"did you mean {near}?" if near else f"there are {', '.join(known)}"
    raise ValueError(f'there is no {named} "{value:.40}"; {advice}')


def cluster_key(name: str) -> int:
    """The key of the cluster that `failures` calls `name`. Raises ValueError."""
    if len(name) != CLUSTER_DIGITS or set(name.lower()) - set("0123456789abcdef"):
        raise ValueError(f'"{name:.40}" is no cluster; the list of failures shows their names, such as 0f3a52c6d1e9')
    return int(name, 16)


def cluster_name(key: int) -> str:
    """What people call the cluster with this key."""
    return f"{key:0{CLUSTER_DIGITS}x}"


def _whole(field: str, value: str) -> int:
    if not (value.isascii() and value.isdigit() and int(value) <= NUMBER_MAX):
        raise ValueError(f'{field} is compared with a whole number, and not with "{value:.40}"')
    return int(value)


def _ended(comparison: Comparison, value: str, now: int) -> Number:
    """`ended>2h`: more than two hours ago; `ended>2026-01-31T08:00`: later than that."""
    try:
        return Number("ended", _TURNED[comparison], now - parse_duration(value))
    except ValueError:
        pass
    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        raise ValueError(
            f'"{value:.40}" is neither how long ago (30m, 2h, 1d) nor a time in UTC (2026-01-31T08:00)'
        ) from None
    time = time if time.tzinfo else time.replace(tzinfo=UTC)
    return Number("ended", comparison, round((time - EPOCH).total_seconds()) * SECOND_US)


_TURNED: Final = {
    Comparison.LESS: Comparison.MORE,
    Comparison.AT_MOST: Comparison.AT_LEAST,
    Comparison.MORE: Comparison.LESS,
    Comparison.AT_LEAST: Comparison.AT_MOST,
}
