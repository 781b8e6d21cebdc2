"""Everything that one gives an `Account`, or gets from it, has its name in one module and stands on its page."""

import collections.abc
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import httpx
import msgspec
import pytest

import orchestrator.account
from orchestrator.account import Account
from orchestrator.client import Service

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "account.md").read_text(encoding="utf-8")
PARTS = ("pods", "endpoints", "templates", "secrets")
RAISED = "ActionRefusedError AnswerError GraphQLError NotSent ProblemError Unanswered UsageError WaitError"


def account() -> Account:
    return Account(Service("http://jobs", "key", transport=httpx.MockTransport(lambda _: httpx.Response(200))))


def methods(part: str) -> dict[str, Any]:
    members = inspect.getmembers(type(getattr(account(), part)), inspect.isfunction)
    return {name: method for name, method in members if not name.startswith("_")}


def classes(hint: Any) -> Iterator[type]:
    """Those of ours that a hint names."""
    if get_origin(hint) in (Union, UnionType) or get_args(hint):
        for each in get_args(hint):
            yield from (
                classes(each) if not isinstance(each, list) else (found for one in each for found in classes(one))
            )
    elif inspect.isclass(hint) and hint.__module__.startswith("orchestrator"):
        yield hint
        if issubclass(hint, msgspec.Struct):
            for each in get_type_hints(hint).values():
                yield from classes(each)


@pytest.mark.parametrize("part", PARTS)
def test_whatever_a_method_takes_or_returns_has_a_public_name(part: str) -> None:
    for name, method in methods(part).items():
        hints = get_type_hints(method, {"Callable": collections.abc.Callable})
        missing = {each.__name__ for hint in hints.values() for each in classes(hint)} - set(
            orchestrator.account.__all__
        )
        assert missing == set(), f"{part}.{name}"


def test_what_is_raised_has_a_public_name() -> None:
    assert set(orchestrator.account.__all__) >= set(RAISED.split())


@pytest.mark.parametrize("name", orchestrator.account.__all__)
def test_every_public_name_stands_on_the_page(name: str) -> None:
    assert getattr(orchestrator.account, name).__doc__
    assert re.search(rf"\b{name}\b", PAGE)


@pytest.mark.parametrize("part", PARTS)
def test_every_method_stands_on_the_page_with_its_parameters(part: str) -> None:
    for name, method in methods(part).items():
        told = re.search(rf"`{part}\.{name}\((.*?)\)`", PAGE)
        assert told is not None, name
        parameters = [each for each in inspect.signature(method).parameters if each != "self"]
        assert [each for each in parameters if not re.search(rf"\b{each}\b", told[1])] == [], name
