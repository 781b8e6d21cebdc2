"""The policy's wire form and bounds, and durations as people write them."""

import contextlib
import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.text.durations import (
    DURATION_US_MAX,
    EXECUTION_TIMEOUT_MS_MAX,
    EXECUTION_TIMEOUT_MS_MIN,
    TTL_MS_MAX,
    TTL_MS_MIN,
    Policy,
    decode_policy,
    encode_policy,
    format_duration,
    merge_policies,
    parse_duration,
    policy_problems,
    rough_duration,
    with_own,
)
from tests.texts import texts

policies = st.builds(
    Policy,
    execution_timeout_ms=st.none() | st.integers(EXECUTION_TIMEOUT_MS_MIN, EXECUTION_TIMEOUT_MS_MAX),
    ttl_ms=st.none() | st.integers(TTL_MS_MIN, TTL_MS_MAX),
    low_priority=st.none() | st.booleans(),
)


def test_a_policy_stands_on_the_wire_under_the_names_of_the_service() -> None:
    policy = Policy(execution_timeout_ms=5_000, ttl_ms=10_000, low_priority=False)

    assert encode_policy(policy) == b'{"executionTimeout":5000,"ttl":10000,"lowPriority":false}'


def test_what_a_policy_does_not_say_is_not_sent() -> None:
    assert encode_policy(Policy()) == b"{}"
    assert encode_policy(Policy(ttl_ms=10_000)) == b'{"ttl":10000}'


@given(policies)
def test_every_policy_within_the_bounds_survives_the_wire(policy: Policy) -> None:
    assert decode_policy(encode_policy(policy)) == policy


def test_null_in_a_policy_is_the_same_as_leaving_the_key_out() -> None:
    assert decode_policy(b'{"ttl":null,"lowPriority":null,"executionTimeout":null}') == Policy()


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b'"fast"', 'policy must be an object such as {"ttl": 86400000}'),
        (b"[]", 'policy must be an object such as {"ttl": 86400000}'),
        (b'{"ttl":5000}', "policy.ttl is 5000 ms; the service takes 10000 (10 s) to 604800000 (7 days)"),
        (
            b'{"executionTimeout":604800001}',
            "policy.executionTimeout is 604800001 ms; the service takes 5000 (5 s) to 604800000 (7 days)",
        ),
        (b'{"execution_timeout":9000}', 'policy has no key "execution_timeout"; did you mean executionTimeout?'),
        (b'{"color":1}', 'policy has no key "color"; its keys are executionTimeout, ttl, lowPriority'),
        (b'{"ttl":"1h"}', "policy.ttl must be a whole number of milliseconds"),
        (b'{"ttl":true}', "policy.ttl must be a whole number of milliseconds"),
        (b'{"ttl":60000.0}', "policy.ttl must be a whole number of milliseconds"),
        (b'{"executionTimeout":[]}', "policy.executionTimeout must be a whole number of milliseconds"),
        (b'{"lowPriority":1}', "policy.lowPriority must be true or false"),
    ],
)
def test_a_wrong_policy_is_refused_in_words_for_its_author(raw: bytes, text: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        decode_policy(raw)


def test_everything_that_is_wrong_with_a_policy_is_said_at_once() -> None:
    with pytest.raises(ValueError, match=r"no key .*; policy.ttl must .*; policy.lowPriority must"):
        decode_policy(b'{"speed":1,"ttl":"1h","lowPriority":"yes"}')
    assert len(policy_problems(Policy(ttl_ms=0, execution_timeout_ms=0))) == 2


@pytest.mark.parametrize("ttl_ms", [TTL_MS_MIN, TTL_MS_MAX])
def test_the_bounds_themselves_are_allowed(ttl_ms: int) -> None:
    """Contract, `executionTimeout` and `ttl`: their bounds."""
    assert policy_problems(Policy(ttl_ms=ttl_ms)) == ()


def test_a_row_wins_over_its_run_field_by_field() -> None:
    run = Policy(execution_timeout_ms=5_000, ttl_ms=10_000, low_priority=True)

    assert merge_policies(run, Policy()) == run
    assert merge_policies(run, Policy(ttl_ms=20_000, low_priority=False)) == Policy(
        execution_timeout_ms=5_000, ttl_ms=20_000, low_priority=False
    )


@given(policies, policies)
def test_a_merged_policy_takes_each_field_from_the_row_or_else_from_the_run(run: Policy, row: Policy) -> None:
    merged, theirs, ours = (msgspec.structs.asdict(policy) for policy in (merge_policies(run, row), run, row))

    assert merged == {name: theirs[name] if ours[name] is None else ours[name] for name in ours}


@pytest.mark.parametrize(
    ("text", "duration_us"),
    [
        ("250ms", 250_000),
        ("90s", 90_000_000),
        ("30m", 1_800_000_000),
        ("24h", 86_400_000_000),
        ("7d", 604_800_000_000),
        ("12", 12_000_000),
        ("1.5", 1_500_000),
        ("0", 0),
        (" 1.5 h ", 5_400_000_000),
        ("0.0000014", 1),
        ("7 days", 604_800_000_000),
    ],
)
def test_a_duration_is_a_number_and_a_unit(text: str, duration_us: int) -> None:
    assert parse_duration(text) == duration_us


@pytest.mark.parametrize("text", ["", "h", "-1s", "1e3", "5 parsecs", "1h30m", ".5", "१२", "1,5s", "nan", "1" * 50])
def test_what_is_no_duration_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a duration; write a number and a unit: 250ms, 90s, 30m, 24h or 7d"):
        parse_duration(text)


def test_an_absurdly_long_duration_is_refused() -> None:
    with pytest.raises(ValueError, match=r'^"36501d" is too long; the longest duration is 36500 days$'):
        parse_duration("36501d")


@pytest.mark.parametrize(
    ("duration_us", "text"),
    [
        (0, "0 s"),
        (1, "0.001 ms"),
        (1_500, "1.5 ms"),
        (250_000, "250 ms"),
        (90_000_000, "90 s"),
        (1_800_000_000, "30 min"),
        (7_200_000_000, "2 h"),
        (86_400_000_000, "1 day"),
        (604_800_000_000, "7 days"),
    ],
)
def test_a_duration_is_written_in_the_largest_unit_that_fits(duration_us: int, text: str) -> None:
    assert format_duration(duration_us) == text


@given(st.integers(0, DURATION_US_MAX))
def test_a_duration_that_was_written_is_read_back_exactly(duration_us: int) -> None:
    assert parse_duration(format_duration(duration_us)) == duration_us


@given(texts())
def test_no_text_makes_the_parser_raise_anything_but_a_value_error(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert 0 <= parse_duration(text) <= DURATION_US_MAX


@pytest.mark.parametrize(
    ("duration_us", "text"),
    [(0, "1 s"), (61_900_000, "61 s"), (119_999_999, "119 s"), (120_000_000, "2 min"), (3_659_000_000, "1 h")],
)
def test_a_rough_duration_is_in_whole_minutes_or_seconds(duration_us: int, text: str) -> None:
    assert rough_duration(duration_us) == text


@given(st.none() | policies, policies)
def test_each_field_of_a_job_s_own_policy_wins(row: Policy | None, own: Policy) -> None:
    merged = decode_policy(with_own(None if row is None else encode_policy(row), encode_policy(own)))
    assert merged == merge_policies(row or Policy(), own)
    assert with_own(None, encode_policy(own)) == encode_policy(own)
