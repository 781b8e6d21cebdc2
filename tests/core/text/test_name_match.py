"""Names are known by as much of them as is theirs alone."""

import pytest

from orchestrator.core.text.name_match import NEAREST_AMONG_MAX, looks_like_an_id, meant_by, nearest

NAMES = ["night", "night-2", "noon", "day"]


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("night", ["night"]),
        ("night-", ["night-2"]),
        ("n", ["night", "night-2", "noon"]),
        ("no", ["noon"]),
        ("d", ["day"]),
        ("x", []),
        ("", []),
    ],
)
def test_a_name_is_meant_by_itself_or_by_what_it_begins_with(text: str, meant: list[str]) -> None:
    assert list(meant_by(text, NAMES)) == meant


def test_a_mistyped_name_is_near_the_one_that_was_meant() -> None:
    assert nearest("nihgt", NAMES) == "night"
    assert nearest("Q", NAMES) is None
    assert nearest("noon", ["noon", *("x" * n for n in range(NEAREST_AMONG_MAX))]) is None, "it is too long ago"


def test_what_looks_like_an_id_is_taken_for_one() -> None:
    assert looks_like_an_id("abc123def456gh")
    assert not looks_like_an_id("My endpoint")
