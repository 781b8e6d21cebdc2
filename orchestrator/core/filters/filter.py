"""Filters: which jobs of a run are meant, as a tree, and whether a job is one of them. `core.filters.filter_parser`
reads them.

What a job does not have (the time of its end, an error, a member of its input) meets no comparison, and so meets each
`not`.
"""

from collections.abc import Collection, Iterator, Sequence
from enum import StrEnum
from typing import Final, TypeVar

import msgspec

from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.core.text.wording import folded


class Comparison(StrEnum):
    """How a value is compared."""

    EQUAL = "="
    DIFFERENT = "!="
    LESS = "<"
    AT_MOST = "<="
    MORE = ">"
    AT_LEAST = ">="
    CONTAINS = "~"
    LACKS = "!~"
    BEGINS = "^="


ORDER: Final = (Comparison.LESS, Comparison.AT_MOST, Comparison.MORE, Comparison.AT_LEAST)


class StateIs(msgspec.Struct, frozen=True):
    """Jobs in a state."""

    state: State


class ClassIs(msgspec.Struct, frozen=True):
    """Jobs that failed, or were cancelled, whose failure is of a class."""

    trouble: FailureClass


class ClusterIs(msgspec.Struct, frozen=True):
    """Jobs that failed, or were cancelled, with a message of one kind (`core.text.error_text`)."""

    key: int


class RetriedFor(msgspec.Struct, frozen=True):
    """Jobs of which an execution failed with a message of that kind, and another one has followed or is to follow."""

    key: int


class Text(msgspec.Struct, frozen=True):
    """Jobs with such a custom_id (`of` is "id") or such a message ("error"): EQUAL, CONTAINS or BEGINS."""

    of: str
    comparison: Comparison
    text: str


class Number(msgspec.Struct, frozen=True):
    """Jobs with such a number of attempts (`of` is "attempts"), line ("line") or time of their end ("ended", in
    microseconds UTC): all but CONTAINS, LACKS, BEGINS and DIFFERENT.
    """

    of: str
    comparison: Comparison
    number: int


class Member(msgspec.Struct, frozen=True):
    """Jobs with such a member of their input, or `of_metadata`, of what their row carries unsent; a part of `path` that
    is a number also leads into an array.
    """

    path: tuple[str, ...]
    comparison: Comparison
    text: str
    of_metadata: bool = False


class Not(msgspec.Struct, frozen=True):
    """Jobs that are not meant by `one`."""

    one: "Filter"


class And(msgspec.Struct, frozen=True):
    """Jobs that are meant by each of `parts`; where there are none, all."""

    parts: tuple["Filter", ...]


class Or(msgspec.Struct, frozen=True):
    """Jobs that are meant by one of `parts`."""

    parts: tuple["Filter", ...]


Leaf = StateIs | ClassIs | ClusterIs | RetriedFor | Text | Number | Member
Filter = Leaf | Not | And | Or

EVERY: Final = And(())
"""All jobs."""


class FilterFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What filters ask of a job."""

    state: State
    trouble: str | None
    """The class of its trouble, where it has failed or was cancelled."""

    error_key: int | None
    message: str | None
    custom_id: str
    attempts: int
    line: int
    ended_at: int | None
    input: object = None
    """As decoded; only where the filter asks for it (`asks_input`)."""

    metadata: object = None
    """The same, of what its row carries (`asks_metadata`)."""

    retried: Collection[int] = ()
    """The kinds of its executions that failed and were followed by another one (`asks_retried`)."""


# --- what a tree asks


def leaves(tree: Filter) -> Iterator[Leaf]:
    """The terms of `tree`."""
    match tree:
        case And(parts) | Or(parts):
            for part in parts:
                yield from leaves(part)
        case Not(one):
            yield from leaves(one)
        case _:
            yield tree


def asks_input(tree: Filter) -> bool:
    """Whether the inputs have to be read to tell."""
    return any(isinstance(leaf, Member) and not leaf.of_metadata for leaf in leaves(tree))


def asks_metadata(tree: Filter) -> bool:
    """Whether what rows carry has to be read to tell."""
    return any(isinstance(leaf, Member) and leaf.of_metadata for leaf in leaves(tree))


def asks_message(tree: Filter) -> bool:
    """Whether the messages of failures have to be read to tell."""
    return any(isinstance(leaf, Text) and leaf.of == "error" for leaf in leaves(tree))


def asks_retried(tree: Filter) -> bool:
    """Whether the executions that were followed by another one have to be read to tell."""
    return any(isinstance(leaf, RetriedFor) for leaf in leaves(tree))


def required(tree: Filter) -> Iterator[Leaf]:
    """Terms that every job meets that `tree` means."""
    match tree:
        case And(parts):
            for part in parts:
                yield from required(part)
        case Or() | Not():
            return
        case _:
            yield tree


def pushed(tree: Filter, *, negated: bool = False) -> Filter:
    """The same jobs (or with `negated` all others), with `Not` directly before terms only."""
    match tree:
        case Not(one):
            return pushed(one, negated=not negated)
        case And(parts) | Or(parts):
            turned = tuple(pushed(part, negated=negated) for part in parts)
            return And(turned) if isinstance(tree, And) is not negated else Or(turned)
        case _:
            return Not(tree) if negated else tree


# --- of one job


def matches(tree: Filter, facts: FilterFacts) -> bool:
    """Whether `tree` means the job of which `facts` tell."""
    match tree:
        case And(parts):
            return all(matches(part, facts) for part in parts)
        case Or(parts):
            return any(matches(part, facts) for part in parts)
        case Not(one):
            return not matches(one, facts)
        case _:
            return _meets(tree, facts)


def _meets(leaf: Leaf, facts: FilterFacts) -> bool:
    match leaf:
        case StateIs(state):
            met = facts.state is state
        case ClassIs(trouble):
            met = facts.trouble == trouble.value
        case ClusterIs(key):
            met = facts.error_key == key
        case RetriedFor(key):
            met = key in facts.retried
        case Text(of, comparison, text):
            met = _is_text(facts.custom_id if of == "id" else facts.message, comparison, text)
        case Number(of, comparison, number):
            known = {"attempts": facts.attempts, "line": facts.line, "ended": facts.ended_at}[of]
            met = known is not None and _in_order(known, comparison, number)
        case _:
            root = facts.metadata if leaf.of_metadata else facts.input
            met = _is_member(_member(root, leaf.path), leaf.comparison, leaf.text)
    return met


def _is_text(known: str | None, comparison: Comparison, text: str) -> bool:
    if known is None:
        return False
    match comparison:
        case Comparison.EQUAL:
            return known == text
        case Comparison.BEGINS:
            return known.startswith(text)
        case _:
            return folded(text) in folded(known)


Ordered = TypeVar("Ordered", int, float, str)


def _in_order(known: Ordered, comparison: Comparison, given: Ordered) -> bool:
    match comparison:
        case Comparison.LESS:
            return known < given
        case Comparison.AT_MOST:
            return known <= given
        case Comparison.MORE:
            return known > given
        case Comparison.AT_LEAST:
            return known >= given
        case _:
            return known == given


_MISSING: Final = object()


def _member(known: object, path: Sequence[str]) -> object:
    """The member of a decoded JSON value, or `_MISSING`."""
    for name in path:
        match known:
            case dict() if name in known:
                known = known[name]
            case list() if name.isdecimal() and int(name) < len(known):
                known = known[int(name)]
            case _:
                return _MISSING
    return known


def _is_member(known: object, comparison: Comparison, text: str) -> bool:
    """Numbers are compared as numbers, everything else as its text: `true`, `null`, a string without its quotes."""
    match known:
        case bool() | None:
            return _is_scalar("null" if known is None else str(known).lower(), comparison, text)
        case int() | float() if comparison in (*ORDER, Comparison.EQUAL):
            number = _number(text)
            return number is not None and _in_order(known, comparison, number)
        case str() | int() | float():
            return _is_scalar(str(known), comparison, text)
        case _:
            return False


def _is_scalar(known: str, comparison: Comparison, text: str) -> bool:
    return _in_order(known, comparison, text) if comparison in ORDER else _is_text(known, comparison, text)


def _number(text: str) -> float | int | None:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return None
