"""The filter language: what its texts mean, what is wrong with others, and which jobs a tree means."""

from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.filters.filter import (
    EVERY,
    And,
    ClassIs,
    ClusterIs,
    Comparison,
    Filter,
    FilterFacts,
    Member,
    Not,
    Number,
    Or,
    RetriedFor,
    StateIs,
    Text,
    asks_input,
    asks_message,
    asks_metadata,
    asks_retried,
    matches,
    pushed,
    required,
)
from orchestrator.core.filters.filter_parser import (
    FIELDS,
    NESTED_MAX,
    TEXT_MAX,
    FilterError,
    cluster_key,
    cluster_name,
    parse,
)
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.service.failure_class import FailureClass
from tests.factories import S
from tests.texts import texts

NOW = 1_800_000_000 * S

FAILED = FilterFacts(
    state=State.FAILED, trouble="timed_out", error_key=0x0F3A52C6D1E9, message="CUDA out of memory", custom_id="night-7",
    attempts=3, line=500, ended_at=NOW - 3 * 3_600 * S, retried={0xABC},
    metadata={"shop": {"n": 7}},
    input={"lang": "de", "n": 7, "x": 1.5, "flag": True, "gone": None, "prompt": {"parts": ["one", {"k": "v"}]}},
)  # fmt: skip
QUEUED = FilterFacts(
    state=State.QUEUED, trouble=None, error_key=None, message=None, custom_id="day-1", attempts=0, line=1, ended_at=None
)

TERMS: dict[str, Filter] = {
    "state=failed": StateIs(State.FAILED),
    "state=FAILED": StateIs(State.FAILED),
    "state!=queued": Not(StateIs(State.QUEUED)),
    "class=timed_out": ClassIs(FailureClass.TIMED_OUT),
    "cluster=0f3a52c6d1e9": ClusterIs(0x0F3A52C6D1E9),
    "retried!=000000000abc": Not(RetriedFor(0xABC)),
    'error~"CUDA out"': Text("error", Comparison.CONTAINS, "CUDA out"),
    'error!~"no \\"such\\" \\\\ \\n"': Not(Text("error", Comparison.CONTAINS, 'no "such" \\ \\n')),
    'id=""': Text("id", Comparison.EQUAL, ""),
    "id ^= night-": Text("id", Comparison.BEGINS, "night-"),
    "attempts>2": Number("attempts", Comparison.MORE, 2),
    "line<=500": Number("line", Comparison.AT_MOST, 500),
    "ended>2h": Number("ended", Comparison.LESS, NOW - 7_200 * S),
    "ended<=30m": Number("ended", Comparison.AT_LEAST, NOW - 1_800 * S),
    "ended>2026-01-31T08:00": Number("ended", Comparison.MORE, 1_769_846_400 * S),
    "ended<2026-01-31T10:00+02:00": Number("ended", Comparison.LESS, 1_769_846_400 * S),
    "input.prompt.text>=x": Member(("prompt", "text"), Comparison.AT_LEAST, "x"),
    "": EVERY,
    "  ": EVERY,
}


@pytest.mark.parametrize("text", TERMS)
def test_a_term_is_a_field_a_comparison_and_a_value(text: str) -> None:
    assert parse(text, now=NOW) == TERMS[text]


def test_terms_are_joined_by_words_and_parentheses() -> None:
    def tree(text: str) -> Filter:
        return parse(text, now=NOW)

    a, b, c = Number("line", Comparison.EQUAL, 1), Number("line", Comparison.EQUAL, 2), StateIs(State.QUEUED)

    assert tree("line=1 line=2 state=queued") == tree("line=1 and line=2 AND state=queued") == And((a, b, c))
    assert tree("line=1 or line=2 state=queued") == Or((a, And((b, c))))
    assert tree("(line=1 or line=2)state=queued") == And((Or((a, b)), c))
    assert tree("not line=1 line=2") == And((Not(a), b))
    assert tree("not(not (line=1))") == Not(Not(a))
    assert tree("input.or=1 or id=or") == Or(
        (Member(("or",), Comparison.EQUAL, "1"), Text("id", Comparison.EQUAL, "or"))
    )


WRONG = {
    "stat=x": (1, "did you mean state?"),
    "line=1 clas=x": (8, "did you mean class?"),
    "inputs=3": (1, "did you mean input.NAME?"),
    "wibble=3": (1, "fields are state, class"),
    "=3": (1, "here should stand the name of a field"),
    "input.=3": (1, "names no member"),
    "state=faild": (7, "did you mean failed?"),
    "state=zzz": (7, "there are queued, submitting"),
    "class=timeout": (7, "did you mean timed_out?"),
    "cluster=3": (9, "is no cluster"),
    "cluster=0f3a52c6d1eg": (9, "is no cluster"),
    "state": (6, "stands a comparison: = !="),
    "state>queued": (6, "cannot be compared by >, but by = !="),
    "line~3": (5, "but by = != < <= > >="),
    "line=x": (6, "a whole number"),
    "line=99999999999999999999": (6, "a whole number"),
    "ended>soon": (7, "neither how long ago"),
    "ended=2h": (6, "but by < <= > >="),
    "error=": (7, 'an empty one is ""'),
    'error="x': (7, "not closed"),
    "(line=1": (1, "not closed"),
    "line=1)": (7, "no parenthesis that this one closes"),
    "()": (2, "here should stand a term"),
    "line=1 or": (10, "here should stand a term"),
    "and line=1": (1, "here should stand a term"),
    "not": (4, "here should stand a term"),
    "(" * (NESTED_MAX + 1) + "line=1": (NESTED_MAX + 1, "stand in each other"),
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_is_told_with_its_place(text: str) -> None:
    character, why = WRONG[text]

    with pytest.raises(FilterError) as caught:
        parse(text, now=NOW)

    told, shown, mark = str(caught.value).split("\n")
    assert told.startswith(f"at character {character}: ")
    assert why in told
    assert shown == f"  {text}"
    assert mark == f"{' ' * (character + 1)}^"


def test_what_has_no_place_is_refused_too() -> None:
    with pytest.raises(FilterError, match="has 2001 characters"):
        parse("x" * (TEXT_MAX + 1), now=NOW)
    with pytest.raises(FilterError, match="no text in UTF-8"):
        parse("id=\udcff", now=NOW)
    with pytest.raises(FilterError, match="\n  line =x\n"):
        parse("line\n=x", now=NOW)


@given(texts(max_size=60))
def test_any_text_is_a_filter_or_refused(text: str) -> None:
    with suppress(FilterError):
        assert isinstance(hash(parse(text, now=NOW)), int)


def test_the_name_of_a_cluster_leads_back_to_it() -> None:
    assert cluster_key(cluster_name(7)) == 7
    assert len(cluster_name(7)) == len(cluster_name(2**48 - 1))
    assert "state" in FIELDS


MEANT = [
    "", "state=failed", "class=timed_out", "cluster=0F3A52C6D1E9", "error~cuda", 'error="CUDA out of memory"',
    "error^=CUDA", "id^=night-", "id~GHT", "id=night-7", "id!=x", "attempts>2", "attempts>=3", "attempts<4",
    "attempts<=3", "attempts=3", "attempts!=4", "line=500", "ended>2h", "ended<4h", "input.lang=de", "input.lang~D",
    "input.lang>da", "input.lang^=d", "input.n=7", "input.n=7.0", "input.n>6.5", "input.n<10", "input.n~7", "input.x=1.5",
    "input.flag=true", "input.gone=null", "input.flag>a", "input.prompt.parts.0=one", "input.prompt.parts.1.k=v",
    "not state=queued", "retried=000000000abc", "state=queued or line=500", "input.absent!=x",
]  # fmt: skip
NOT_MEANT = [
    "state=queued", "class=failed", "cluster=000000000000", "retried=0f3a52c6d1e9", "error~x", "error=cuda", "error^=out", "id=night",
    "attempts<3", "ended>4h", "ended<2h", "input.lang=DE", "input.n=8", "input.n=seven", "input.n>seven",
    "input.prompt=one", "input.prompt.parts.2=x", "input.prompt.parts.x=1", "input.lang.x=1", "input.absent=x",
    "input.flag=1", "state=failed line=1", "line=1 or line=2",
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"), [*((text, True) for text in MEANT), *((text, False) for text in NOT_MEANT)]
)
def test_a_filter_means_a_job_or_not(text: str, expected: bool) -> None:
    tree = parse(text, now=NOW)

    assert matches(tree, FAILED) is expected
    assert matches(Not(tree), FAILED) is not expected


@pytest.mark.parametrize(
    "text",
    ["class=failed", "cluster=000000000000", "retried=000000000abc", "error~x", 'error=""', "ended>0s", "input.a=x"],
)
def test_what_a_job_does_not_have_meets_nothing(text: str) -> None:
    assert not matches(parse(text, now=NOW), QUEUED)
    assert matches(parse(f"not {text}", now=NOW), QUEUED)


leaf_trees = st.sampled_from(
    [tree for text in (*MEANT, *NOT_MEANT) if not isinstance(tree := parse(text, now=NOW), And | Or)]
)
trees = st.recursive(
    leaf_trees,
    lambda inner: (
        inner.map(Not)
        | st.lists(inner, max_size=3).map(lambda parts: And(tuple(parts)))
        | st.lists(inner, max_size=3).map(lambda parts: Or(tuple(parts)))
    ),
    max_leaves=8,
)
facts = st.sampled_from([FAILED, QUEUED, msgspec.structs.replace(FAILED, line=1, message=None, input=[])])


@given(trees, facts)
def test_pushing_every_not_down_to_the_terms_changes_nothing(tree: Filter, job: FilterFacts) -> None:
    assert matches(pushed(tree), job) is matches(tree, job)


@given(trees, facts)
def test_a_job_that_is_meant_meets_every_required_term(tree: Filter, job: FilterFacts) -> None:
    if matches(tree, job):
        assert all(matches(leaf, job) for leaf in required(pushed(tree)))


def test_it_is_told_what_a_filter_asks() -> None:
    assert asks_input(parse("line=1 or not input.x=1", now=NOW))
    assert not asks_input(parse("error~x id~x", now=NOW))
    assert asks_message(parse("line=1 or not error=x", now=NOW))
    assert not asks_message(parse("id~x class=lost", now=NOW))
    assert asks_retried(parse("line=1 or not retried=000000000abc", now=NOW))
    assert not asks_retried(parse("cluster=000000000abc", now=NOW))


def test_what_rows_carry_is_asked_for_apart_from_their_inputs() -> None:
    of_both = parse("meta.shop.n=7 input.lang=de", now=NOW)
    assert matches(of_both, FAILED)
    assert not matches(parse("meta.lang=de", now=NOW), FAILED)
    assert not matches(parse("input.shop.n=7", now=NOW), FAILED)
    assert not matches(of_both, QUEUED)
    assert (asks_input(of_both), asks_metadata(of_both)) == (True, True)
    assert (asks_input(parse("meta.a=1", now=NOW)), asks_metadata(parse("not meta.a=1", now=NOW))) == (False, True)
    assert not asks_metadata(parse("input.a=1", now=NOW))
    with pytest.raises(FilterError, match=r"meta\.\.a names no member of the metadata; meta\.lang is one"):
        parse("meta..a=1", now=NOW)
    with pytest.raises(FilterError, match=r'there is no field "metta"; did you mean meta\.NAME\?'):
        parse("metta=1", now=NOW)
