"""How figures, moments and texts stand on a page."""

from datetime import UTC
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from jinja2 import UndefinedError

from orchestrator.dashboard.rendering.jinja_environment import Urls, environment, static_digest
from orchestrator.settings.words_and_defaults import LEDGER_DEFAULT
from orchestrator.units import DAY_US, MINUTE_US, SECOND_US
from tests.dashboard.samples import SEARCHED

NOW = 1_782_208_327 * SECOND_US
HERE = environment(LEDGER_DEFAULT, ZoneInfo("Europe/Berlin"))


def shown(source: str, **names: object) -> str:
    return HERE.from_string(source).render(now=NOW, **names)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{{ 12345|count }}", "12,345"),
        ("{{ 0.031|share }}", "3.1 %"),
        ("{{ 450|duration }} {{ 450|lasting }}", "7 min 7 min 30 s"),
        ("{{ 92.3|rate }}", "92/s"),
        ("{{ 3.12|money }}", "3.12"),
        ("{{ 2048|bytes }}", "2.0 KiB"),
        ("{{ 'outstanding'|word }}, {{ 'queue-full'|word }}", "at the service, queue full"),
        ("{{ 'timed_out'|look }} {{ 'done'|look }}", "queued succeeded"),
        ("{{ 'a longer <setting ttl>'|sentence }}", "a longer --ttl"),
    ],
)
def test_figures_are_shown_as_everywhere(source: str, text: str) -> None:
    assert shown(source) == text


@pytest.mark.parametrize("name", ["count", "share", "duration", "lasting", "rate", "money", "bytes", "ago", "time"])
def test_a_figure_that_there_is_not_is_a_dash(name: str) -> None:
    assert shown("{{ nothing|" + name + " }}", nothing=None) == "–"


def test_a_sign_goes_with_a_word_or_says_it_to_who_cannot_see_it() -> None:
    assert shown("{{ 'failed'|sign }}") == '<span class="sign failed"><span aria-hidden="true">✕</span></span>'
    assert shown("{{ 'paused'|sign(alone=true) }}") == (
        '<span class="sign held" title="paused"><span aria-hidden="true">‖</span>'
        '<span class="unseen">paused </span></span>'
    )


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (NOW, "11:52:07"),
        (NOW - 2 * DAY_US, "Sun 11:52"),
        (NOW - 40 * DAY_US, "2026-05-14 11:52"),
        (NOW + 30 * DAY_US, "2026-07-23 11:52"),
    ],
)
def test_a_moment_is_by_the_clock_of_the_place_and_as_short_as_it_can_be(at: int, text: str) -> None:
    assert f">{text}</time>" in shown("{{ at|time }}", at=at)


def test_a_moment_says_when_exactly_for_programs_and_for_who_points_at_it() -> None:
    assert 'datetime="2026-06-23T11:52:07+02:00" title="2026-06-23 11:52:07+02:00"' in shown("{{ now|time }}")
    assert shown("{{ at|ago }}", at=NOW - 7 * MINUTE_US) == "7 min ago"


def test_nothing_stands_for_none_and_a_name_that_is_not_there_is_a_mistake() -> None:
    assert shown("[{{ nothing }}]", nothing=None) == "[]"
    with pytest.raises(UndefinedError):
        shown("{{ no_such_name }}")


def test_what_a_browser_would_obey_is_written_out_wherever_a_text_stands() -> None:
    made = environment(Path("ledger.db"), UTC, SEARCHED)
    assert made.from_string('<p title="{{ a }}">{{ a }}</p>').render(a="\u202e<b>\x00\n\t\u2066") == (
        '<p title="\\u202e&lt;b&gt;\\x00\n\t\\u2066">\\u202e&lt;b&gt;\\x00\n\t\\u2066</p>'
    )


def test_addresses_begin_with_the_prefix_and_those_of_files_change_with_them() -> None:
    urls = Urls("/jobs")
    assert urls.url("/runs/17", where="a=1&b", after=None) == "/jobs/runs/17?where=a%3D1%26b"
    assert urls.static("style.css") == f"/jobs/static/style.css?v={static_digest('style.css')}"
