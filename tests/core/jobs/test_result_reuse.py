"""Which inputs are the same, and which result will do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.jobs.result_reuse import NOTHING_YET, Reuse, reuse_key, why_not, with_saved_members
from orchestrator.units import HOUR_US

AT = 1_767_225_600_000_000
PARTS = st.tuples(st.text(), st.text(), st.binary(), st.text())


@given(PARTS, PARTS)
def test_a_key_is_of_all_its_parts_and_of_nothing_else(
    one: tuple[str, str, bytes, str], other: tuple[str, str, bytes, str]
) -> None:
    assert (reuse_key(*one) == reuse_key(*other)) == (one == other)


def test_what_stands_in_another_part_is_another_key() -> None:
    assert reuse_key("ab", "c", b"d", "") != reuse_key("a", "bc", b"d", "")
    assert reuse_key("a", "b", b"c", "d") != reuse_key("a", "b", b"cd", "")


def test_a_key_stays_what_it_is() -> None:
    """Ledgers are full of them."""
    key = "762f9db656e3d407"
    assert len(reuse_key("https://api.example", "abc", b"\x01" * 16, "v1")) == 64
    assert reuse_key("https://api.example", "abc", b"\x01" * 16, "v1").startswith(key)


@pytest.mark.parametrize(
    ("ended_at", "why"),
    [
        (None, NOTHING_YET),
        (AT, None),
        (AT - HOUR_US, None),
        (AT - HOUR_US - 1, "the latest result is of 2025-12-31T22:59:59+00:00, older than 1 h"),
    ],
)
def test_a_result_is_taken_while_it_is_young(ended_at: int | None, why: str | None) -> None:
    assert why_not(Reuse(young_us=HOUR_US), ended_at, AT) == why


def test_runs_that_make_files_of_the_same_members_share_results_and_others_do_not() -> None:
    reuse = Reuse(young_us=1, version="v")
    assert with_saved_members(None, ["output.a"]) is None
    assert with_saved_members(reuse, []) == reuse
    assert with_saved_members(reuse, ["output.a"]) == with_saved_members(reuse, ["output.a"]) != reuse
    assert with_saved_members(reuse, ["output.a"]) != with_saved_members(reuse, ["output.b"])
