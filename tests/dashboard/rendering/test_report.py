"""A report: one file that stands alone, no larger than what goes into a message."""

import re
from datetime import UTC
from pathlib import Path

import pytest
from msgspec.structs import replace

from orchestrator.dashboard.payload_redaction import Payloads
from orchestrator.dashboard.rendering.report import SIZE_MAX, read_report, report_page, write_report
from orchestrator.errors import UsageError
from orchestrator.units import SECOND_US
from orchestrator.views.runs.report import ReportContent
from tests.dashboard.pages.a_night import SECRET, night_ledger
from tests.simulation.clock import VirtualClock
from tests.simulation.database import async_creator

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def of_night(folder: Path, name: str = "night-2", shows: Payloads = Payloads()) -> tuple[ReportContent, Path]:  # noqa: B008  it is frozen
    path, clock = await night_ledger(folder), VirtualClock()
    clock.jump(30 * 60 * SECOND_US)
    return await read_report(path, name, shows=shows, clock=clock, connect=async_creator(path)), path


async def test_it_has_verdict_figures_kinds_holds_charts_and_settings(tmp_path: Path) -> None:
    report, path = await of_night(tmp_path)
    written = write_report(report, path, UTC, tmp_path / "night.html")
    html = (tmp_path / "night.html").read_text(encoding="utf-8")
    assert (written.size, written.left_out, written.name) == (len(html.encode()), [], "night-2")
    for said in (
        "Over: 64 of 80 succeeded; 16 failed.",
        "least margin",
        "CUDA out of memory",
        "pause, paused by ann",
        "the limit of run went from 1,000 to 500 requests",
        "<figcaption>Jobs a second",
        "<dt>max-attempts</dt><dd>2</dd>",
        "<dt>budget</dt><dd>5</dd>",
        "https://hooks.example/…",
    ):
        assert said in html, said


def test_it_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    """What is written beside it is gone afterwards, and an old one stays where a new one cannot be written."""
    target = tmp_path / "night.html"
    target.write_text("of before")
    report = ReportContent(name="x", made_at=0, ledger="l.db", flow=None, runs=(), texts_hidden=False)
    write_report(report, tmp_path / "l.db", UTC, target)
    assert target.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert [each.name for each in tmp_path.iterdir()] == ["night.html"]
    with pytest.raises(UsageError, match="does not exist"):
        write_report(report, tmp_path / "l.db", UTC, tmp_path / "nowhere" / "report.html")


async def test_it_stands_alone_and_nothing_in_it_is_obeyed(tmp_path: Path) -> None:
    report, path = await of_night(tmp_path)
    html = report_page(report, path, UTC).html.decode()
    assert len(html) <= SIZE_MAX
    assert "<script" not in html
    assert re.search(r"(src|href|action)=", html) is None
    assert "url(" not in html
    assert "@import" not in html
    assert "<style>" in html
    assert "\u202e" not in html
    assert "<i>the seed" not in html
    assert "T0/secret" not in html


async def test_what_workers_said_can_be_left_out(tmp_path: Path) -> None:
    open_report, path = await of_night(tmp_path)
    assert SECRET in report_page(open_report, path, UTC).html.decode(), "a worker has said it"
    hidden, _ = await of_night(tmp_path, shows=Payloads(are_hidden=True))
    html = report_page(hidden, path, UTC).html.decode()
    assert SECRET not in html
    assert "MemoryError" in html


async def test_where_there_is_no_room_for_all_charts_go_first_and_that_is_told(tmp_path: Path) -> None:
    report, path = await of_night(tmp_path)
    many = replace(report, runs=[*report.runs] * 4)
    whole = len(report_page(many, path, UTC).html)
    page = report_page(many, path, UTC, size_max=whole - 1)
    assert len(page.html) < whole
    assert page.left_out == ["the charts of 1 run"]
    assert "Left out for want of room: the charts of 1 run." in page.html.decode()
    assert page.html.decode().count("Over: 64 of 80 succeeded") == 4
    long = replace(report.runs[0], status=replace(report.runs[0].status, endpoint="e" * 100_000))
    cut = report_page(replace(report, runs=[long] * 4), path, UTC)
    assert len(cut.html) <= SIZE_MAX
    assert "all of 2 runs" in cut.left_out


async def test_the_beginning_of_a_name_is_enough_and_one_that_nothing_has_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no run or flow called 'nihgt'"):
        await of_night(tmp_path, "nihgt")
    report, _ = await of_night(tmp_path, "train")
    assert report.name == "training"
