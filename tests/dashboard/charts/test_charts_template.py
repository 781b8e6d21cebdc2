"""The template around charts: all texts are there for who sees no drawing, and nothing has a style of its own."""

from datetime import UTC
from pathlib import Path
from typing import Any

import jinja2
import pytest

import orchestrator.dashboard
from orchestrator.dashboard.charts.chart_functions import chart_functions
from orchestrator.units import SECOND_US
from orchestrator.views.series import Band, Bucket, FireSign, Series, Stretch, TimeBar, Unit

TEMPLATES = Path(orchestrator.dashboard.__file__).parent / "templates"


@pytest.fixture(scope="module")
def macros() -> Any:
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    made.filters.update(sign=lambda state: f"[{state}]", word=lambda state: state.upper(), look=str)
    return made.get_template("charts.html").module


DRAW = chart_functions(UTC)
MARKUP = "<script>alert(1)</script>"


def test_a_chart_has_its_legend_labels_bands_and_summary(macros: Any) -> None:
    lines = [
        Series(name=f"sent {MARKUP}", unit=Unit.PER_SECOND, points=[(0, 1.0), (9 * SECOND_US, 92.0)]),
        Series(name="finished", unit=Unit.PER_SECOND, points=[(0, 1.0), (9 * SECOND_US, None)]),
    ]
    html = macros.chart(DRAW["draw"](lines, [Band(kind="pause", since=0, until=None, text=MARKUP)], title=MARKUP))
    assert MARKUP not in html
    assert "<figcaption>&lt;script&gt;" in html
    assert "<b>92/s</b>" in html
    assert '<span class="band-key pause">1</span> pause, since 1 Jan 00:00: &lt;script&gt;' in html
    assert '<time datetime="1970-01-01T00:00:00+00:00">00:00:00</time>' in html
    assert "<span>100/s</span><span>50/s</span><span>0/s</span>" in html
    assert "finished: lowest 1/s, highest 1/s, last not known, 1 gap." in html
    assert "style=" not in html


def test_a_chart_of_nothing_says_so(macros: Any) -> None:
    html = macros.chart(DRAW["draw"]([], title="Jobs"))
    assert '<p class="empty">Nothing was sampled in that time' in html
    assert "<svg" not in html


def test_a_histogram_has_bounds(macros: Any) -> None:
    html = macros.chart(DRAW["histogram"]([Bucket(up_to=60, count=1)], title="Margin"))
    assert "<span>0 s</span><span>1 min</span>" in html


def test_a_bar_names_its_parts(macros: Any) -> None:
    html = macros.bar(DRAW["state_bar"]({"succeeded": 3, "failed": 1}))
    assert "SUCCEEDED <b>3</b>" in html
    assert "75 %" in html
    html = macros.bar(DRAW["attempt_bar"]([Stretch(kind="queue", seconds=3)]))
    assert "QUEUE <b>3 s</b>" in html


def test_a_spark_says_what_it_shows(macros: Any) -> None:
    assert "last hour: 3, at most 2, last 2" in macros.spark(DRAW["spark_bars"]([1, 2], title="last hour"))


def test_of_many_fires_all_have_a_text_and_the_older_ones_give_way(macros: Any) -> None:
    fires = [FireSign(state="succeeded", text=f"fire {n}", href=f"/flows/{n}" if n else "") for n in range(14)]
    html = macros.strip(fires, lambda path: f"/prefix{path}")
    assert html.count('<li class="older"') == 5
    assert '<a href="/prefix/flows/13">[succeeded]<span class="unseen">fire 13</span></a>' in html
    assert html.count("<a ") == 13


def test_bars_in_time_say_their_state_and_time(macros: Any) -> None:
    bars = [TimeBar(name=MARKUP, since=0, until=SECOND_US, state="succeeded", text="80 in, 77 done")]
    html = macros.timeline(DRAW["time_bars"](bars, now=SECOND_US))
    assert MARKUP not in html
    assert "[succeeded] SUCCEEDED" in html
    assert "80 in, 77 done" in html
