"""Tokens: what was made under a key is known again under it, and nothing else is."""

import hashlib
import hmac
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.service.job_record import Record
from orchestrator.core.service.webhook_token import (
    HOOKS_PATH,
    KEY_BYTES,
    MAC_BYTES,
    SELF_TESTS,
    Notice,
    self_test_answer,
    submission_of,
    token,
)
from tests.texts import texts

KEY = bytes(range(KEY_BYTES))

keys = st.binary(min_size=KEY_BYTES, max_size=KEY_BYTES)
submissions = st.integers(0, 10**18 - 1)


def test_a_token_is_the_number_and_the_first_half_of_its_hmac() -> None:
    mac = hmac.new(KEY, b"42", hashlib.sha256).digest()[:MAC_BYTES]

    assert token(KEY, 42) == f"42.{mac.hex()}"


def test_the_path_of_webhooks_ends_where_the_token_begins() -> None:
    assert HOOKS_PATH == "/hooks/"


@given(keys, submissions)
def test_a_token_names_its_submission(key: bytes, submission: int) -> None:
    assert submission_of(key, token(key, submission)) == submission


@given(keys, submissions)
def test_a_token_is_safe_in_a_path_and_has_the_length_it_says(key: bytes, submission: int) -> None:
    text = token(key, submission)

    assert 34 <= len(text) <= 51
    assert set(text) <= set("0123456789abcdef.")


@given(keys, keys, submissions)
def test_a_token_of_another_key_names_nothing(key: bytes, other: bytes, submission: int) -> None:
    assert submission_of(other, token(key, submission)) == (submission if key == other else None)


@given(st.data(), submissions)
def test_a_token_with_one_character_changed_names_nothing(data: st.DataObject, submission: int) -> None:
    text = token(KEY, submission)
    place = data.draw(st.integers(0, len(text) - 1))
    character = data.draw(st.characters().filter(lambda character: character != text[place]))

    assert submission_of(KEY, text[:place] + character + text[place + 1 :]) is None


@given(submissions, submissions)
def test_a_mac_serves_no_other_submission(one: int, other: int) -> None:
    mac = token(KEY, one).partition(".")[2]

    assert submission_of(KEY, f"{other}.{mac}") == (one if one == other else None)


@given(texts())
def test_no_text_is_a_token_by_chance(text: str) -> None:
    assert submission_of(KEY, text) is None


@pytest.mark.parametrize(
    "alter",
    [
        lambda text: text + "\n",
        lambda text: " " + text,
        lambda text: "0" + text,
        lambda text: "+" + text,
        lambda text: text.upper().replace("7.", "7.A", 1),
        lambda text: text + "00",
        lambda text: text[:-1],
        lambda text: text.replace("7", "\N{FULLWIDTH DIGIT SEVEN}", 1),
        lambda text: text.replace("7", "\N{ARABIC-INDIC DIGIT SEVEN}", 1),
        lambda text: text.partition(".")[0] + ".",
        lambda text: text.replace(".", ""),
        lambda text: "1" * 5_000 + text,
    ],
)
def test_another_spelling_of_a_token_names_nothing(alter: Callable[[str], str]) -> None:
    assert submission_of(KEY, alter(token(KEY, 7))) is None


def test_a_hint_is_known_by_its_submission_alone_and_has_no_output() -> None:
    hint = Notice(submission=1, received_at=2, record=None)
    assert (hint.record, hint.key, hint.bytes) == (None, (1, ""), 0)


def test_what_says_the_same_of_a_submission_is_the_same_notice() -> None:
    told = Record(remote_id="r", status="COMPLETED", output=b'"four"')
    first, again = (Notice(submission=1, received_at=at, record=told) for at in (2, 3))
    other = Notice(submission=1, received_at=2, record=Record(remote_id="r", status="FAILED"))
    assert first.key == again.key
    assert first.key != other.key
    assert (first.bytes, other.bytes) == (6, 0)


def test_a_self_test_has_tokens_that_no_submission_has_and_an_answer_that_only_the_key_gives() -> None:
    number = SELF_TESTS.start
    assert number > 28_000 * 365 * 86_400 * 1_000_000, "as a time it is far away"
    assert submission_of(KEY, token(KEY, SELF_TESTS[-1])) == SELF_TESTS[-1], "it fits a token"
    answer = self_test_answer(KEY, number)
    assert answer not in token(KEY, number)
    assert answer not in (self_test_answer(KEY[::-1], number), self_test_answer(KEY, number + 1))
