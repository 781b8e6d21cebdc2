"""What messages say to people."""

import json
from typing import Any

import msgspec
import pytest

from orchestrator.core.pipelines.due_fires import Gap, GapKind
from orchestrator.core.pipelines.message_text import Letter, filled, letter_of, parse_letter_template, plain_text
from orchestrator.core.pipelines.notifications import StageCounts, flow_message, missed_message
from orchestrator.core.pipelines.pipeline import News
from orchestrator.core.pipelines.receivers import NEWS_WORDS
from orchestrator.core.pipelines.run_messages import FailureSample, MessageFigures, RunNews, run_message
from tests.factories import S


def worded(body: bytes) -> bytes:
    """With its commands as they would be typed."""
    message: dict[str, Any] = json.loads(body)
    message["data"]["commands"] = [f"orchestrator {step}" for step, *_ in message["data"]["commands"]]
    return json.dumps(message).encode()


def test_a_letter_of_a_run_says_what_why_how_many_what_it_cost_the_kinds_and_what_to_do() -> None:
    figures = MessageFigures(spent=3.124, budget=25.0, kinds=(FailureSample(1_581, "CUDA out of memory"),))
    body = run_message(
        RunNews.PARTIAL,
        run="night-2",
        jobs={"succeeded": 68_419, "failed": 1_581},
        at=0,
        why="many failed",
        figures=figures,
    )
    letter = letter_of(worded(body), "https://jobs.example/find?run=night-2")
    assert not letter.is_good
    assert plain_text(letter).splitlines() == [
        "night-2 is done, and some have no result",
        "many failed",
        "",
        "rows: 70,000",
        "succeeded: 68,419",
        "failed: 1,581",
        "spent: 3.12 of 25.00",
        "",
        "Failures:",
        "  1,581 × CUDA out of memory",
        "",
        "What to do:",
        "  orchestrator show-run",
        "  orchestrator show-failures",
        "  orchestrator retry-run",
        "",
        "https://jobs.example/find?run=night-2",
    ]


def test_a_letter_of_a_flow_has_its_stages_and_one_of_a_schedule_what_was_missed() -> None:
    stages = [StageCounts(stage="caption", run="p/caption", jobs={"succeeded": 77, "failed": 3})]
    body = flow_message(News.FAILED, pipeline="p", flow="p@20260101T000000Z", fire_us=0, why="", stages=stages, at=0)
    letter = letter_of(worded(body))
    assert letter.title == "p@20260101T000000Z has failed"
    assert dict(letter.figures)["caption"] == "77 of 80 succeeded, 3 failed"
    gap = Gap(kind=GapKind.MISSED, after_us=0, until_us=9 * S, first_us=S, fires=2)
    missed = letter_of(worded(missed_message(pipeline="p", zone="UTC", gap=gap, at=0)))
    assert (missed.title, dict(missed.figures)["missed"]) == ("p has missed fires", "2 fires")
    assert plain_text(Letter(name="p", news="done", title="p is done")) == "p is done"


def test_a_run_without_a_budget_and_without_anything_spent_says_no_more() -> None:
    spent = run_message(RunNews.DONE, run="r", jobs={"succeeded": 1}, at=0, figures=MessageFigures(spent=0.5))
    assert dict(letter_of(worded(spent)).figures)["spent"] == "0.50"
    assert "spent" not in dict(letter_of(worded(run_message(RunNews.DONE, run="r", jobs={}, at=0))).figures)


@pytest.mark.parametrize("news", NEWS_WORDS)
def test_there_are_words_for_all_that_is_told(news: str) -> None:
    body = json.dumps({"type": f"run.{news}", "data": {"run": "r", "commands": []}}).encode()
    letter = letter_of(body)
    assert letter.title not in (f"r {news}", "r ")
    assert letter.is_good == (news in ("started", "done", "recovered"))


def test_no_name_and_no_reason_breaks_a_line_or_hides_how_it_is_read() -> None:
    body = run_message(RunNews.ON_HOLD, run="a\r\nBcc: x\u202eb", jobs={}, at=0, why="x\ry")
    letter = letter_of(worded(body))
    assert not {"\r", "\n", "\u202e"} & set(letter.title + letter.why)


def test_a_template_is_filled_with_what_the_letter_says_once() -> None:
    letter = Letter(name="{link}", news="held", title="t", why="w", figures=(("rows", "3"), ("failed", "1")))
    template = parse_letter_template("{{{name}}} {news} {title}: {why} ({figures}) {kinds}{commands}{link}")
    assert filled(template, letter) == "{{link}} held t: w (rows 3, failed 1) "


@pytest.mark.parametrize(
    ("template", "why"),
    [(" ", "a text of"), ("x" * 4_001, "a text of"), ("{nmae}", '"{nmae}" means nothing'), ("{ x", "a brace")],
)
def test_a_template_that_means_nothing_is_refused(template: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_letter_template(template)


def test_of_an_object_that_a_worker_reports_the_type_and_the_message_are_told() -> None:
    """As the service hands it on: a JSON object in a string, with the traceback."""
    reported = {"error_type": "<class 'OSError'>", "error_message": "no fonts.ttf", "error_traceback": "Traceback ..."}
    figures = MessageFigures(kinds=(FailureSample(30, json.dumps(reported)),))
    letter = letter_of(worded(run_message(RunNews.PARTIAL, run="r", jobs={}, at=0, figures=figures)))
    assert letter.kinds == ("30 × OSError: no fonts.ttf",)


def test_kinds_are_cut_to_a_line_and_few() -> None:
    kinds = tuple(FailureSample(n, f"{n} " + "very\nlong " * 100) for n in range(9))
    found = msgspec.json.decode(
        run_message(RunNews.FAILED, run="r", jobs={}, at=0, figures=MessageFigures(kinds=kinds))
    )
    told = found["data"]["kinds"]
    assert len(told) == 3
    assert all(len(kind["error"]) <= 160 and "\n" not in kind["error"] for kind in told)
