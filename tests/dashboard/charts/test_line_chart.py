"""Lines over time: what is drawn, what is said of it, and how large it is."""

import math
import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.dashboard.charts.chart import Chart
from orchestrator.dashboard.charts.line_chart import BANDS_MAX, DASHES, HIGH, NOTES_MAX, NOTHING, WIDE, draw
from orchestrator.units import DAY_US, HOUR_US, SECOND_US
from orchestrator.views.series import Band, Series, Unit
from tests.texts import texts

NOON = 20_781 * DAY_US + 12 * HOUR_US
STEP = 10 * SECOND_US


def series(*values: float | None, name: str = "finished", unit: Unit = Unit.PER_SECOND) -> Series:
    return Series(name=name, unit=unit, points=[(NOON + STEP * n, value) for n, value in enumerate(values)])


def paths(chart: Chart) -> list[str]:
    return re.findall(r'<path d="([^"]*)"', chart.svg)


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.attributes: set[str] = set()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes.update(name for name, _ in attrs)
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes.update(name for name, _ in attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def checked(chart: Chart) -> _Tags:
    tags = _Tags()
    tags.feed(chart.svg)
    assert not tags.open
    assert not {"style", "onload", "onclick"} & tags.attributes
    return tags


def test_a_line_goes_from_point_to_point() -> None:
    chart = draw([series(0, 50, 100, 75)], title="Jobs a second", since=NOON, until=NOON + 40 * SECOND_US)
    assert paths(chart) == ["M0 1000 2500 500 5000 0 7500 250"]
    assert chart.values == ("100/s", "50/s", "0/s")
    assert [label.text for label in chart.times] == ["12:00:00", "12:00:10", "12:00:20", "12:00:30", "12:00:40"]
    assert chart.summary == "24 Nov 12:00. finished: lowest 0/s, highest 100/s, last 75/s."


def test_gaps_stay_gaps_and_a_point_between_two_is_a_dot() -> None:
    chart = draw([series(0, None, 100, None, 50, 50)], title="", since=NOON, until=NOON + 50 * SECOND_US)
    assert paths(chart) == ["M8000 500 10000 500", "M0 1000h0M4000 0h0"]
    assert chart.svg.count(" dot") == 1, "as thick as can be seen"
    assert "2 gaps" in chart.summary


@pytest.mark.parametrize("points", [[], [(NOON, None)], [(NOON - HOUR_US, 5.0)]])
def test_where_nothing_is_known_it_says_so(points: list[tuple[int, float | None]]) -> None:
    chart = draw([Series(name="a", points=points)], title="A", since=NOON, until=NOON + HOUR_US)
    assert (chart.svg, chart.summary) == ("", NOTHING)
    assert draw([], title="A").svg == ""


def test_one_point_is_a_dot() -> None:
    assert paths(draw([Series(name="a", points=[(NOON, 5.0)])], title=""))[0].endswith("h0")


def test_a_line_without_a_point_in_the_window_has_no_path_and_is_told_of() -> None:
    chart = draw([series(1, 2), series(None, None, name="sent")], title="")
    assert len(paths(chart)) == 1
    assert "sent: nothing is known." in chart.summary
    assert chart.lines[1].last == ""


def test_equal_values_are_a_line_above_the_ground() -> None:
    assert paths(draw([series(7, 7, 7)], title="", since=NOON, until=NOON + 20 * SECOND_US)) == [
        "M0 125 5000 125 10000 125"
    ]
    assert paths(draw([series(0, 0)], title="", since=NOON, until=NOON + 10 * SECOND_US)) == ["M0 1000 10000 1000"]


def test_negative_values_are_below_zero() -> None:
    chart = draw([series(-1, 1, unit=Unit.NUMBER)], title="", since=NOON, until=NOON + 10 * SECOND_US)
    assert chart.values == ("1", "0", "-1")
    assert paths(chart) == ["M0 1000 10000 0"]


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_no_number_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="cannot be drawn"):
        draw([series(1, value)], title="")


def test_lines_of_several_units_are_refused() -> None:
    with pytest.raises(ValueError, match="several units"):
        draw([series(1), series(1, unit=Unit.BYTES)], title="")


def test_times_that_stand_still_or_go_back() -> None:
    points = [(NOON + STEP, 5.0), (NOON, 1.0), (NOON + STEP, 10.0), (NOON - STEP, 0.0)]
    chart = draw([Series(name="a", points=points)], title="", since=NOON - STEP, until=NOON + STEP)
    assert paths(chart) == ["M0 1000 5000 900 10000 0"]
    assert "last 10" in chart.summary
    still = draw([Series(name="a", points=[(NOON, 1.0), (NOON, 2.0)])], title="")
    assert paths(still)[0].endswith("h0")


def test_two_lines_of_300_points_are_some_6_kb() -> None:
    busy = [series(*(80 + 20 * math.sin(n / 7 + place) for n in range(300)), name=str(place)) for place in (0, 1)]
    chart = draw(busy, title="", since=NOON, until=NOON + 3_000 * SECOND_US)
    assert len(chart.svg) < 7_000
    assert len("".join(paths(chart))) < 6_000


def test_lines_differ_by_dashes_not_by_colour_alone() -> None:
    css = [line.css for line in draw([series(1, name=str(n)) for n in range(6)], title="").lines]
    assert css[0] == "line tone-1 solid"
    assert [each.split()[2] for each in css] == list(DASHES)
    states = [Series(name=state, points=[(NOON, 1.0)], state=state) for state in ("succeeded", "failed")]
    assert [line.css for line in draw(states, title="").lines] == ["line succeeded solid", "line failed dashed"]


def test_bands_are_numbered_and_told() -> None:
    bands = [
        Band(kind="hold", since=NOON + 30 * SECOND_US, until=None, text="20 of 20 failed."),
        Band(kind="pause", since=NOON + 5 * SECOND_US, until=NOON + 10 * SECOND_US, text="lunch"),
        Band(kind="pause", since=NOON - DAY_US, until=NOON - HOUR_US, text="long ago"),
    ]
    chart = draw([series(1, 2, 3, 4)], bands, title="", since=NOON, until=NOON + 40 * SECOND_US)
    assert [(band.mark, band.kind, band.text) for band in chart.bands] == [
        ("1", "pause", "lunch"),
        ("2", "hold", "20 of 20 failed."),
    ]
    assert '<rect x="12.5%" width="12.5%" height="100%" class="band pause"/>' in chart.svg
    assert '<rect x="75%" width="25%" height="100%" class="band hold"/>' in chart.svg
    assert "Pause, 24 Nov 12:00: lunch. Hold, since 24 Nov 12:00: 20 of 20 failed." in chart.summary


def test_of_many_bands_the_latest_have_notes() -> None:
    bands = [Band(kind="limit", since=NOON + n, until=NOON + n, text=f"to {n}") for n in range(500)]
    chart = draw([series(1, 2)], bands, title="", since=NOON, until=NOON + 40 * SECOND_US)
    assert chart.svg.count('class="band limit"') == BANDS_MAX
    assert [band.text for band in chart.bands] == [f"to {n}" for n in range(500 - NOTES_MAX, 500)]
    assert chart.more_bands == BANDS_MAX - NOTES_MAX
    assert chart.svg.count("<text") == NOTES_MAX


@given(
    st.lists(
        st.builds(
            Series,
            name=texts(max_size=20),
            unit=st.just(Unit.SECONDS),
            points=st.lists(st.tuples(st.integers(0, 2**52), st.none() | st.floats(-1e9, 1e9)), max_size=40),
            state=texts(max_size=9),
        ),
        max_size=8,
    ),
    st.lists(st.builds(Band, kind=texts(max_size=9), since=st.integers(0, 2**52), until=st.none() | st.integers(0, 2**52), text=texts()), max_size=9),
    st.none() | st.integers(0, 2**52),
    st.none() | st.integers(0, 2**52),
)  # fmt: skip
def test_whatever_is_drawn_is_well_formed_within_its_frame(
    lines: list[Series], bands: list[Band], since: int | None, until: int | None
) -> None:
    chart = draw(lines, bands, title="any", since=since, until=until)
    checked(chart)
    assert chart.summary
    for path in paths(chart):
        numbers = [float(number) for number in re.findall(r"-?[0-9.]+", path.replace("h0", ""))]
        assert all(0 <= x <= WIDE for x in numbers[0::2])
        assert all(0 <= y <= HIGH for y in numbers[1::2])
