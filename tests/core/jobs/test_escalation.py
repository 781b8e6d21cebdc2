"""Rules of what follows trouble: read as people write them, told by the word that is wrong, and carried out."""

import re
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.core.jobs.escalation import (
    FREE,
    FREE_MAX,
    TAKEN_AWAY,
    TROUBLES,
    UNCHANGED,
    EscalationRule,
    EscalationStep,
    NextEscalation,
    budget_of,
    endpoints_named,
    escalation_of,
    next_step,
    own_policy,
    policy_with,
    with_ids,
    with_step,
)
from orchestrator.core.jobs.escalation_text import (
    PERCENT_MAX,
    PERCENT_MIN,
    description_of,
    format_rule,
    parse_rule,
    problems_of,
)
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.core.text.durations import (
    EXECUTION_TIMEOUT_MS_MAX,
    EXECUTION_TIMEOUT_MS_MIN,
    Policy,
    encode_policy,
)

LONGER, ELSEWHERE = EscalationStep(percent=200), EscalationStep(endpoint="big")
MORE_TIME_THEN_ELSEWHERE = EscalationRule(troubles=(FailureClass.TIMED_OUT,), steps=(LONGER, ELSEWHERE))


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("timed_out: execution-timeout*2, then endpoint big", MORE_TIME_THEN_ELSEWHERE),
        ("  timed_out :execution-timeout * 2.00 then endpoint  big ", MORE_TIME_THEN_ELSEWHERE),
        (
            'failed ~ "worker was" : free',
            EscalationRule(troubles=(FailureClass.FAILED,), text="worker was", steps=(FREE,)),
        ),
        (
            'failed,timed_out~"a \\"b\\": c": free and endpoint big, then give-up',
            EscalationRule(
                troubles=(FailureClass.FAILED, FailureClass.TIMED_OUT),
                text='a "b": c',
                steps=(EscalationStep(is_free=True, endpoint="big"), EscalationStep(gives_up=True)),
            ),
        ),
        (
            "failed,lost: give-up",
            EscalationRule(troubles=(FailureClass.FAILED, FailureClass.LOST), steps=(EscalationStep(gives_up=True),)),
        ),
        (
            "failed: execution-timeout=90s and endpoint b, then give-up",
            EscalationRule(
                troubles=(FailureClass.FAILED,),
                steps=(EscalationStep(timeout_ms=90_000, endpoint="b"), EscalationStep(gives_up=True)),
            ),
        ),
        (
            "failed: map a={{ row.a }}, please and map b={{ 'x, then y' }}, then endpoint c",
            EscalationRule(
                troubles=(FailureClass.FAILED,),
                steps=(
                    EscalationStep(templates=(("a", "{{ row.a }}, please"), ("b", "{{ 'x, then y' }}"))),
                    EscalationStep(endpoint="c"),
                ),
            ),
        ),
        (
            'failed: map a="{{ row.a }}, then" and map b= {% if row.b %}1{% endif %}',
            EscalationRule(
                troubles=(FailureClass.FAILED,),
                steps=(EscalationStep(templates=(("a", "{{ row.a }}, then"), ("b", "{% if row.b %}1{% endif %}"))),),
            ),
        ),
    ],
)
def test_a_rule_is_read_as_people_write_it(text: str, rule: EscalationRule) -> None:
    assert parse_rule(text) == rule
    assert parse_rule(format_rule(rule)) == rule


NOT_APART = st.characters(
    exclude_categories=("Cs", "Zs", "Zl", "Zp"), exclude_characters="=\t\n\v\f\r\x1c\x1d\x1e\x1f\x85"
)
STEPS = st.builds(
    EscalationStep,
    percent=st.just(UNCHANGED),
    timeout_ms=st.none() | st.integers(EXECUTION_TIMEOUT_MS_MIN, EXECUTION_TIMEOUT_MS_MAX),
    endpoint=st.none() | st.text("AZaz09_-", min_size=1, max_size=20),
    templates=st.lists(
        st.tuples(st.text(NOT_APART, min_size=1, max_size=8), st.text(min_size=1)),
        max_size=2,
        unique_by=lambda pair: pair[0],
    ).map(tuple),
) | st.builds(EscalationStep, percent=st.integers(PERCENT_MIN, PERCENT_MAX))


@pytest.mark.no_cover
@given(
    st.lists(st.sampled_from(TROUBLES), min_size=1, unique=True),
    st.lists(STEPS.filter(lambda step: step != EscalationStep()), min_size=1, max_size=4),
    st.booleans(),
)
@settings(max_examples=30)
def test_what_is_written_is_read_as_it_was(
    troubles: list[FailureClass], steps: list[EscalationStep], gives_up: bool
) -> None:
    last = [EscalationStep(gives_up=True)] if gives_up else []
    rule = EscalationRule(troubles=tuple(troubles), steps=(*steps, *last))
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
        ("failed:", "at its end: the actions are execution-timeout, endpoint, map, free, give-up"),
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
        ("failed: free and give-up", "give-up stands alone"),
        ("failed~worker: free", 'at "worker:" (character 8): write CLASS~"TEXT": ACTION'),
        ('failed~"worker', "the quotation marks do not end"),
        ('failed~"worker" free', 'write CLASS~"TEXT": ACTION'),
        ('failed~" ": free', "the text of an error has 1 to 200 characters"),
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
    texts = [parse_rule('failed~"A": free, then free'), parse_rule('failed~"b": endpoint b')]
    assert problems_of([*rules, *texts], max_attempts=3) is None
    assert "two rules for failed~a" in (problems_of([*texts, parse_rule('failed~"a": give-up')], max_attempts=3) or "")
    assert endpoints_named([*rules, parse_rule("expired: endpoint big")]) == ["big", "c"]


def step_taken(
    rules: Iterable[EscalationRule], given: bytes | None, trouble: FailureClass, step: EscalationStep, message: str = ""
) -> bytes:
    """What a job was given after such trouble, which leads to that step."""
    taken = next_step(rules, trouble, message, given)
    assert taken is not None
    assert taken.step == step
    return with_step(given, taken)


def test_each_trouble_of_a_class_leads_to_the_next_step_and_then_all_stays() -> None:
    rules = (MORE_TIME_THEN_ELSEWHERE,)
    assert next_step(rules, FailureClass.FAILED, "", None) is None
    once = step_taken(rules, None, FailureClass.TIMED_OUT, LONGER)
    twice = step_taken(rules, once, FailureClass.TIMED_OUT, ELSEWHERE)
    assert next_step(rules, FailureClass.TIMED_OUT, "", twice) is None
    assert escalation_of(twice).percent == 200, "more time there as well"


FREE_RULE = parse_rule('failed~"Worker Was": free, then endpoint big')


def test_a_worker_taken_away_by_the_service_costs_no_attempt_and_that_is_bounded() -> None:
    for sentence in TAKEN_AWAY:
        given = None
        for _ in range(FREE_MAX):
            given = step_taken((), given, FailureClass.FAILED, FREE, f"The {sentence.upper()}!")
        assert next_step((), FailureClass.FAILED, sentence, given) is None, "by then it may be the job"
        assert next_step((), FailureClass.TIMED_OUT, sentence, None) is None
    assert next_step((), FailureClass.FAILED, "CUDA out of memory", None) is None


def test_a_rule_for_what_an_error_says_goes_before_one_for_its_class_and_counts_apart() -> None:
    rules = (parse_rule("failed: execution-timeout*2"), FREE_RULE)
    once = step_taken(rules, None, FailureClass.FAILED, FREE, "the worker was taken away")
    twice = step_taken(rules, once, FailureClass.FAILED, LONGER, "CUDA")
    thrice = step_taken(rules, twice, FailureClass.FAILED, ELSEWHERE, "worker was")
    assert next_step(rules, FailureClass.FAILED, "worker was", thrice) is None
    assert escalation_of(thrice).free == 1


def test_a_free_step_that_gives_something_gives_it_also_once_it_costs_an_attempt() -> None:
    rules = (parse_rule('failed~"gone": free and endpoint big'),)
    given = step_taken(rules, None, FailureClass.FAILED, EscalationStep(is_free=True, endpoint="big"), "gone")
    given = step_taken(rules, given, FailureClass.FAILED, FREE, "gone")
    [first] = rules[0].steps
    spent = with_step(None, NextEscalation(first, "x"))
    for _ in range(FREE_MAX):
        spent = with_step(spent, NextEscalation(FREE, "x"))
    assert step_taken(rules, spent, FailureClass.FAILED, ELSEWHERE, "gone")


def test_what_steps_give_adds_up() -> None:
    once = with_step(None, NextEscalation(EscalationStep(percent=150, templates=(("a", "1"),)), FailureClass.FAILED))
    twice = with_step(once, NextEscalation(EscalationStep(percent=200, templates=(("b", "2"),)), FailureClass.LOST))
    assert escalation_of(twice).taken == {FailureClass.FAILED: 1, FailureClass.LOST: 1}
    assert escalation_of(twice).templates == (("a", "1"), ("b", "2"))
    assert policy_with(Policy(execution_timeout_ms=10_000), twice).execution_timeout_ms == 30_000
    assert policy_with(Policy(), twice).execution_timeout_ms == 1_800_000
    given_anew = with_step(twice, NextEscalation(EscalationStep(timeout_ms=7_000), FailureClass.LOST))
    assert policy_with(Policy(execution_timeout_ms=10_000), given_anew).execution_timeout_ms == 7_000
    longest = with_step(None, NextEscalation(EscalationStep(percent=PERCENT_MAX), FailureClass.LOST))
    assert (
        policy_with(Policy(execution_timeout_ms=500_000_000), longest).execution_timeout_ms == EXECUTION_TIMEOUT_MS_MAX
    )


def test_a_policy_stays_as_it_is_without_more_time() -> None:
    policy = Policy(ttl_ms=60_000)
    assert policy_with(policy, None) is policy
    assert policy_with(policy, with_step(None, NextEscalation(ELSEWHERE, FailureClass.LOST))) is policy


@pytest.mark.parametrize(
    ("step", "endpoint", "words"),
    [
        (EscalationStep(percent=250), None, "2.5 times the execution timeout"),
        (EscalationStep(timeout_ms=60_000, endpoint="b"), "b", "execution timeout 1 min and endpoint b"),
        (EscalationStep(templates=(("a", "1"), ("b", "2"))), None, "another a and b"),
        (EscalationStep(endpoint="b"), None, "nothing new"),
        (FREE, None, ""),
    ],
)
def test_a_step_is_told_in_words(step: EscalationStep, endpoint: str | None, words: str) -> None:
    assert description_of(step, endpoint) == words


def test_a_budget_is_a_share_of_the_jobs_rounded_up() -> None:
    assert [budget_of(200_000, jobs) for jobs in (0, 1, 5, 6, 1_000)] == [0, 1, 1, 2, 200]


def test_endpoints_that_rules_name_are_found_once_and_replaced_by_their_ids() -> None:
    rules = (parse_rule("failed: endpoint big, then endpoint huge"), parse_rule("timed_out: endpoint big"))
    assert endpoints_named(rules) == ["big", "huge"]
    assert endpoints_named(with_ids(rules, {"big": "abc123"})) == ["abc123", "huge"]


def test_a_job_s_own_policy_wins_over_that_of_its_run() -> None:
    of_run = Policy(execution_timeout_ms=60_000, ttl_ms=600_000)
    assert own_policy(of_run, None, None) == of_run
    own = encode_policy(Policy(execution_timeout_ms=90_000))
    assert own_policy(of_run, own, None) == Policy(execution_timeout_ms=90_000, ttl_ms=600_000)
