"""Rows are data: what of the environment is sent away is for people to say, and never a key of ours."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.service.row_variables import (
    EVERYTHING,
    NO_VARIABLES,
    OwnKeys,
    RefusedVariables,
    RowVariables,
    parse_allowed,
)
from orchestrator.core.service.s3_config import MissingVariables, S3Config

ENVIRON = {
    "S3_ID": "the-id",
    "S3_SECRET": "the-secret",
    "HOME": "/root",
    "ORCHESTRATOR_API_KEY": "key-1",
    "RUNPOD_API_KEY": "key-2",
    "WORK_KEY": "key-3",
    "S3_ALSO": "key-3",
    "HOOK_SECRET": "whsec",
}
KEYS = OwnKeys(names=frozenset({"HOOK_SECRET"}), values=frozenset({"key-3"}))


def config(name: str, other: str = "S3_ID") -> S3Config:
    return S3Config(access_id=f"env:{other}", access_secret=f"env:{name}", endpoint_url="https://their.example")


def test_what_is_allowed_by_name_or_pattern_is_resolved() -> None:
    for allowed in (["S3_ID", "S3_SECRET"], ["S3_*"]):
        resolved = RowVariables(ENVIRON, allowed, KEYS).resolve(config("S3_SECRET"))
        assert (resolved.access_id, resolved.access_secret) == ("the-id", "the-secret")
    bare = S3Config(bucket_name="b")
    assert NO_VARIABLES.resolve(bare) == bare


@pytest.mark.parametrize("name", ["HOME", "S3_SECRET", "NO_SUCH"])
def test_whatever_nobody_has_allowed_is_refused_set_or_not(name: str) -> None:
    with pytest.raises(RefusedVariables, match=f"refers to S3_ID and {name}, which no row may have unasked") as caught:
        RowVariables(ENVIRON, ["OTHER_*", "S3"]).resolve(config(name))
    assert caught.value.names == ("S3_ID", name)
    assert not caught.value.are_ours


@given(
    name=st.sampled_from(["ORCHESTRATOR_API_KEY", "RUNPOD_API_KEY", "WORK_KEY", "S3_ALSO", "HOOK_SECRET"]),
    allowed=st.lists(st.sampled_from(["S3_*", "WORK_KEY", "HOOK_*", EVERYTHING, "R*", "ORCHESTRATOR_*"])),
)
def test_no_row_gets_a_key_of_ours_whatever_is_allowed(name: str, allowed: list[str]) -> None:
    variables = RowVariables(ENVIRON, allowed, KEYS)
    with pytest.raises(RefusedVariables, match=f"refers to {name}, a key of this program's own") as caught:
        variables.resolve(config(name))
    assert caught.value.are_ours
    assert not variables.has(name)


def test_what_is_allowed_and_not_set_is_named() -> None:
    with pytest.raises(MissingVariables, match="s3Config refers to S3_NONE, which the environment does not set"):
        RowVariables(ENVIRON, ["S3_*"], KEYS).resolve(config("S3_NONE"))
    assert [RowVariables(ENVIRON, ["S3_*"], KEYS).has(name) for name in ("S3_NONE", "S3_ID", "HOME")] == [
        False,
        True,
        False,
    ]


def test_no_text_of_them_shows_a_value() -> None:
    assert "key-3" not in f"{KEYS!r} {RowVariables(ENVIRON, ['S3_*'], KEYS)!r}"


@pytest.mark.parametrize("text", ["*", "", "a b", "S3_*x", "1A", "ORCHESTRATOR_API_KEY", "RUNPOD_API_KEY", "x=y"])
def test_what_allows_everything_or_a_key_of_ours_is_no_name(text: str) -> None:
    with pytest.raises(ValueError, match=r"names no variables|a key of this program's own"):
        parse_allowed(text)


def test_a_name_and_how_names_begin_can_be_allowed() -> None:
    assert [parse_allowed(text) for text in ("S3_ID", "S3_*")] == ["S3_ID", "S3_*"]


def test_what_can_be_done_about_a_variable_that_rows_may_not_have_is_said() -> None:
    ours = RefusedVariables(["ORCHESTRATOR_API_KEY"], are_ours=True)
    assert ours.with_advice.endswith("; name another variable in the row")
    other = RefusedVariables(["S3_ID", "S3_KEY"], are_ours=False)
    assert other.with_advice.endswith("add <setting allow-env=S3_ID> <setting allow-env=S3_KEY>")
