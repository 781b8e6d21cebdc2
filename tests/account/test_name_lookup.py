"""Names in the place of ids."""

from typing import NamedTuple

import pytest

from orchestrator.account.name_lookup import by_name, id_of
from orchestrator.account.transport.rest_client import ProblemError
from orchestrator.client.jobs.refusals import Refusal
from orchestrator.core.text.name_match import looks_like_an_id
from orchestrator.errors import UsageError


class Thing(NamedTuple):
    id: str | None
    name: str


pytestmark = pytest.mark.anyio

THINGS = (Thing("a1", "captions"), Thing("b2", "upscale"), Thing("c3", "twins"), Thing("d4", "twins"), Thing(None, "x"))


@pytest.mark.parametrize("text", ["abc123", "ep1", "0op1aez3bgxmkx"])
def test_an_id_has_small_letters_and_digits(text: str) -> None:
    assert looks_like_an_id(text)


@pytest.mark.parametrize("text", ["captions", "captions-2", "Captions2", "captions 2", "", "a_1"])
def test_whatever_else_is_a_name(text: str) -> None:
    assert not looks_like_an_id(text)


def test_a_name_leads_to_its_id_and_an_id_to_itself() -> None:
    assert [id_of("endpoint", given, THINGS) for given in ("captions", "b2", "d4")] == ["a1", "b2", "d4"]
    assert id_of("endpoint", "b2", (Thing("e5", "b2"), *THINGS)) == "b2", "another one is called so"


@pytest.mark.parametrize(
    ("given", "among", "message"),
    [
        ("caption", THINGS, "there is no endpoint caption; did you mean captions?"),
        ("zzz", THINGS, "there is no endpoint zzz; the account has captions, twins, upscale, x"),
        ("zzz", [Thing(f"i{n}", f"name{n:02}") for n in range(12)], "name08, name09 and 2 more"),
        ("zzz", (), "there is no endpoint zzz; the account has no endpoints"),
        ("twins", THINGS, "2 endpoints are called twins: c3, d4; say which, by its id. Nothing was sent"),
        ("x", THINGS, "there is no endpoint x; did you mean x?"),
    ],
)
def test_a_name_of_none_or_of_several_is_an_error(given: str, among: tuple[Thing, ...], message: str) -> None:
    with pytest.raises(UsageError) as refused:
        id_of("endpoint", given, among)
    assert message in str(refused.value)


class Asked:
    """A service that knows `THINGS`, and what was asked of it."""

    def __init__(self, status: int = 404) -> None:
        self.calls: list[str] = []
        self.status = status

    async def known(self) -> tuple[Thing, ...]:
        self.calls.append("list")
        return (*THINGS, Thing("e5", "name1"))

    async def call(self, given: str) -> str:
        self.calls.append(given)
        if given not in {"a1", "e5"}:
            raise ProblemError("show", Refusal(status=self.status, title="T", detail="", errors=()))
        return f"done with {given}"

    async def __call__(self, given: str) -> str:
        return await by_name("thing", given, self.call, self.known)


async def test_an_id_needs_no_list_and_a_name_that_looks_like_one_is_found_in_the_end() -> None:
    asked = Asked()
    assert [await asked(given) for given in ("a1", "captions", "name1")] == [
        "done with a1",
        "done with a1",
        "done with e5",
    ]
    assert asked.calls == ["a1", "list", "a1", "name1", "list", "e5"]


@pytest.mark.parametrize(("status", "calls"), [(404, ["zz9", "list"]), (403, ["zz9"])])
async def test_what_the_service_said_of_an_id_is_what_is_raised(status: int, calls: list[str]) -> None:
    asked = Asked(status)
    with pytest.raises(ProblemError) as refused:
        await asked("zz9")
    assert (refused.value.status, asked.calls) == (status, calls)
