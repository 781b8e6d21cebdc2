"""Rules of what follows trouble: read as people write them, told by the word that is wrong, and carried out."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.escalation import (
    PERCENT_MAX,
    PERCENT_MIN,
    TROUBLES,
    UNCHANGED,
    Rule,
    Step,
    budget_of,
    decoded,
    endpoints_of,
    format_rule,
    next_step,
    parse_rule,
    policy_with,
    problems_of,
    told,
    with_step,
)
from orchestrator.core.policy import EXECUTION_TIMEOUT_MS_MAX, EXECUTION_TIMEOUT_MS_MIN, Policy
from orchestrator.core.responses import Trouble

LONGER, ELSEWHERE = Step(percent=200), Step(endpoint="big")
MORE_TIME_THEN_ELSEWHERE = Rule(troubles=(Trouble.TIMED_OUT,), steps=(LONGER, ELSEWHERE))


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("timed_out: execution-timeout*2, then endpoint big", MORE_TIME_THEN_ELSEWHERE),
        ("  timed_out :execution-timeout * 2.00 then endpoint  big ", MORE_TIME_THEN_ELSEWHERE),
        ("failed,lost: give-up", Rule(troubles=(Trouble.FAILED, Trouble.LOST), steps=(Step(gives_up=True),))),
        (
            "failed: execution-timeout=90s and endpoint b, then give-up",
            Rule(troubles=(Trouble.FAILED,), steps=(Step(timeout_ms=90_000, endpoint="b"), Step(gives_up=True))),
        ),
        (
            "failed: map a={{ row.a }}, please and map b={{ 'x, then y' }}, then endpoint c",
            Rule(
                troubles=(Trouble.FAILED,),
                steps=(Step(templates=(("a", "{{ row.a }}, please"), ("b", "{{ 'x, then y' }}"))), Step(endpoint="c")),
            ),
        ),
        (
            'failed: map a="{{ row.a }}, then" and map b= {% if row.b %}1{% endif %}',
            Rule(
                troubles=(Trouble.FAILED,),
                steps=(Step(templates=(("a", "{{ row.a }}, then"), ("b", "{% if row.b %}1{% endif %}"))),),
            ),
        ),
    ],
)
def test_a_rule_is_read_as_people_write_it(text: str, rule: Rule) -> None:
    assert parse_rule(text) == rule
    assert parse_rule(format_rule(rule)) == rule


NOT_APART = st.characters().filter(lambda letter: letter != "=" and not letter.isspace())
STEPS = st.builds(
    Step,
    percent=st.just(UNCHANGED),
    timeout_ms=st.none() | st.integers(EXECUTION_TIMEOUT_MS_MIN, EXECUTION_TIMEOUT_MS_MAX),
    endpoint=st.none() | st.from_regex(r"[A-Za-z0-9_-]{1,20}", fullmatch=True),
    templates=st.lists(
        st.tuples(st.text(NOT_APART, min_size=1, max_size=8), st.text(min_size=1)),
        max_size=2,
        unique_by=lambda pair: pair[0],
    ).map(tuple),
) | st.builds(Step, percent=st.integers(PERCENT_MIN, PERCENT_MAX))


@given(
    st.lists(st.sampled_from(TROUBLES), min_size=1, unique=True),
    st.lists(STEPS.filter(lambda step: step != Step()), min_size=1, max_size=4),
    st.booleans(),
)
def test_what_is_written_is_read_as_it_was(troubles: list[Trouble], steps: list[Step], gives_up: bool) -> None:
    last = [Step(gives_up=True)] if gives_up else []
    rule = Rule(troubles=tuple(troubles), steps=(*steps, *last))
    assert parse_rule(format_rule(rule)) == rule


@given(st.text())
def test_no_text_makes_reading_raise_anything_else(text: str) -> None:
    for each in (text, f"failed: {text}", f"failed: map a={text}", f"failed: execution-timeout{text}"):
        try:
            parse_rule(each)
        except ValueError as error:
            assert re.match(r'at (its end|".+" \(character \d+\)): ', str(error), re.DOTALL)  # noqa: PT017


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "at its end: write CLASS: ACTION"),
        ("timedout: give-up", 'at "timedout:" (character 1): did you mean timed_out?'),
        ("failed, cancelled: give-up", 'at "cancelled:" (character 9): the classes are failed, timed_out'),
        ("failed, failed: give-up", 'at "failed," (character 1): a class stands there twice'),
        ("failed:", "at its end: the actions are execution-timeout, endpoint, map, give-up"),
        ("failed: endpont x", 'at "endpont" (character 9): did you mean endpoint?'),
        ("failed: endpoint", "at its end: write endpoint and its id"),
        ("failed: endpoint a and endpoint b", 'at "endpoint" (character 24): a step has one endpoint'),
        ("failed: endpoint a, endpoint b", 'at "endpoint" (character 21): steps have ", then" between them'),
        ("failed: execution-timeout", "at its end: write execution-timeout*2"),
        ("failed: execution-timeout*1", 'at "execution-timeout*1" (character 9): it is made longer'),
        ("failed: execution-timeout*101", "it is made longer, by up to 100 times"),
        ("failed: execution-timeout=3", "the service takes 5000 (5 s) to"),
        ("failed: execution-timeout=3y", 'at "execution-timeout=3y" (character 9): "3y" is not a duration'),
        ("failed: execution-timeout*2 and execution-timeout=3m", "a step has one execution-timeout"),
        ("failed: map x", 'at "x" (character 13): write map NAME=TEMPLATE'),
        ("failed: map x=", "at its end: write map NAME=TEMPLATE"),
        ("failed: map x=1 and map x=2", "x stands there twice"),
        ('failed: map x="1', "the quotation marks do not end"),
        ("failed: give-up and endpoint b", "give-up stands alone"),
        ("failed: give-up, then endpoint b", "nothing comes after give-up"),
    ],
)
def test_a_mistake_is_told_by_the_word_that_is_wrong(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        parse_rule(text)


def test_rules_have_to_agree_with_one_another_and_with_the_attempts() -> None:
    rules = [MORE_TIME_THEN_ELSEWHERE, parse_rule("failed, lost: endpoint c")]
    assert problems_of(rules, max_attempts=3) is None
    assert "take 3 executions of a job, and 2 are allowed" in (problems_of(rules, max_attempts=2) or "")
    assert problems_of([parse_rule("lost: endpoint b, then endpoint c")], max_attempts=1) is None
    assert "two rules for lost" in (problems_of([*rules, parse_rule("lost: give-up")], max_attempts=9) or "")
    assert problems_of([parse_rule("failed: endpoint b, then give-up")], max_attempts=2) is None
    assert endpoints_of([*rules, parse_rule("expired: endpoint big")]) == ["big", "c"]


def test_each_trouble_of_a_class_leads_to_the_next_step_and_then_all_stays() -> None:
    rules = (MORE_TIME_THEN_ELSEWHERE,)
    assert next_step(rules, Trouble.FAILED, None) is None
    assert next_step(rules, Trouble.TIMED_OUT, None) == LONGER
    once = with_step(None, Trouble.TIMED_OUT, LONGER)
    assert next_step(rules, Trouble.TIMED_OUT, once) == ELSEWHERE
    twice = with_step(once, Trouble.TIMED_OUT, ELSEWHERE)
    assert next_step(rules, Trouble.TIMED_OUT, twice) is None
    assert decoded(twice).percent == 200, "more time there as well"


def test_what_steps_give_adds_up() -> None:
    once = with_step(None, Trouble.FAILED, Step(percent=150, templates=(("a", "1"),)))
    twice = with_step(once, Trouble.LOST, Step(percent=200, templates=(("b", "2"),)))
    assert decoded(twice).taken == {Trouble.FAILED: 1, Trouble.LOST: 1}
    assert decoded(twice).templates == (("a", "1"), ("b", "2"))
    assert policy_with(Policy(execution_timeout_ms=10_000), twice).execution_timeout_ms == 30_000
    assert policy_with(Policy(), twice).execution_timeout_ms == 1_800_000
    given_anew = with_step(twice, Trouble.LOST, Step(timeout_ms=7_000))
    assert policy_with(Policy(execution_timeout_ms=10_000), given_anew).execution_timeout_ms == 7_000
    longest = with_step(None, Trouble.LOST, Step(percent=PERCENT_MAX))
    assert (
        policy_with(Policy(execution_timeout_ms=500_000_000), longest).execution_timeout_ms == EXECUTION_TIMEOUT_MS_MAX
    )


def test_a_policy_stays_as_it_is_without_more_time() -> None:
    policy = Policy(ttl_ms=60_000)
    assert policy_with(policy, None) is policy
    assert policy_with(policy, with_step(None, Trouble.LOST, ELSEWHERE)) is policy


@pytest.mark.parametrize(
    ("step", "endpoint", "words"),
    [
        (Step(percent=250), None, "2.5 times the execution timeout"),
        (Step(timeout_ms=60_000, endpoint="b"), "b", "execution timeout 1 min and endpoint b"),
        (Step(templates=(("a", "1"), ("b", "2"))), None, "another a and b"),
        (Step(endpoint="b"), None, "nothing new"),
    ],
)
def test_a_step_is_told_in_words(step: Step, endpoint: str | None, words: str) -> None:
    assert told(step, endpoint) == words


def test_a_budget_is_a_share_of_the_jobs_rounded_up() -> None:
    assert [budget_of(200_000, jobs) for jobs in (0, 1, 5, 6, 1_000)] == [0, 1, 1, 2, 200]
