"""Sentences that are said in several places."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.pipelines.pipeline import Schedule, when_it_fires
from orchestrator.core.text.wording import ELLIPSIS, collect_again, counted, shortened, visible, visible_json
from orchestrator.units import HOUR_US, MINUTE_US
from tests.texts import texts


@pytest.mark.parametrize(("n", "told"), [(0, "0 jobs"), (1, "1 job"), (2, "2 jobs"), (1_000, "1,000 jobs")])
def test_one_is_singular(n: int, told: str) -> None:
    assert counted(n, "job") == told


def test_a_plural_may_be_given() -> None:
    assert [counted(n, "reply", "replies") for n in (1, 2)] == ["1 reply", "2 replies"]


@pytest.mark.parametrize(
    ("left_s", "told"),
    [
        (1_799.9, "collect again within 29 min, or results expire"),
        (1.0, "collect again within 1 s, or results expire"),
        (0.9, "results may have expired already: resume soon"),
        (-5.0, "results may have expired already: resume soon"),
    ],
)
def test_when_to_collect_again_is_rounded_down(left_s: float, told: str) -> None:
    assert collect_again(left_s) == told


@pytest.mark.parametrize(
    ("text", "chars", "short"),
    [
        ("bad seed", 8, "bad seed"),
        ("bad seed 17", 9, "bad seed…"),
        ("bad seed 17", 10, "bad seed…"),
        ("bad seed 17", 8, "bad…"),
        ("bad  seed", 6, "bad…"),
        ("x" * 90, 10, "x" * 9 + "…"),
        ("bad " + "x" * 90, 50, "bad " + "x" * 45 + "…"),
        (" leading", 4, " le…"),
    ],
)
def test_a_long_text_ends_after_a_whole_word(text: str, chars: int, short: str) -> None:
    assert shortened(text, chars) == short


@given(texts(), st.integers(1, 40))
def test_what_is_shortened_fits_and_begins_as_the_text_does(text: str, chars: int) -> None:
    short = shortened(text, chars)

    assert len(short) <= chars or short == text
    assert short == text or (short.endswith(ELLIPSIS) and text.startswith(short.removesuffix(ELLIPSIS)))


@pytest.mark.parametrize(
    ("schedule", "told"),
    [
        (None, "when it is triggered"),
        (Schedule(cron=("30 2 * * *", "0 9 * * 1"), zone="Asia/Tokyo"), "30 2 * * * and 0 9 * * 1 in Asia/Tokyo"),
        (Schedule(every_us=6 * HOUR_US), "every 6 h"),
        (Schedule(every_us=6 * HOUR_US, offset_us=15 * MINUTE_US), "every 6 h, 15 min later than the full ones"),
    ],
)
def test_when_a_pipeline_fires(schedule: Schedule | None, told: str) -> None:
    assert when_it_fires(schedule) == told


@given(texts())
def test_nothing_that_a_terminal_obeys_or_hides_is_left_in_what_is_visible(text: str) -> None:
    shown = visible(text)
    assert all(each.isprintable() or each == "\n" for each in shown)
    assert shown == text or not text.isprintable()


def test_marks_that_turn_the_direction_and_escapes_are_written_out() -> None:
    assert visible("gnp.\u202eexe\x1b[2J\r\nnext") == "gnp.\\u202eexe\\x1b[2J\\r\nnext"


@given(texts())
def test_json_shows_all_that_there_is_and_means_the_same(text: str) -> None:
    document = json.dumps({"said": text}, ensure_ascii=False)
    shown = visible_json(document)
    assert json.loads(shown) == {"said": text}
    assert shown.isprintable()


def test_json_on_several_lines_stays_so_and_what_is_hidden_is_escaped_as_json_does() -> None:
    assert visible_json('{\n"a": "\u202eb\x9b\U000e0001"}\n') == '{\n"a": "\\u202eb\\u009b\\udb40\\udc01"}\n'
