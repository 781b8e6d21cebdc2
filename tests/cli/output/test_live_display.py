"""What is seen while a run goes on."""

import io
import os
from contextlib import redirect_stderr

import anyio
import msgspec
import pytest
from rich.console import Console

from orchestrator.cli.output.consoles import PlainConsole, QuietConsole, console_for_stderr, progress_line
from orchestrator.cli.output.live_display import Display, LiveConsole, terminal
from orchestrator.core.batches.batch_record import BatchStage
from orchestrator.core.diagnosis.service_rules import NO_WORKERS
from orchestrator.core.gates.gates import CANCELLED, PAUSED, REFUSED, STOPPED, SUSPECT, UNANSWERED, Gate
from orchestrator.core.lanes.via import Via
from orchestrator.core.pools.member_health import THROTTLED
from orchestrator.views.batches import BatchStatus
from orchestrator.views.status import Snapshot, StuckSummary
from tests.cli.samples import MEMBERS, WORKERS, WORKERS_SENTENCE, snapshot

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

REASON = "the service refused the API key (401)"
HALFWAY = snapshot(
    queued=3581,
    outstanding=280,
    succeeded=6101,
    failed=38,
    jobs_per_s=98.72,
    eta_s=39.2,
    throttled=3,
    were_uncertain=2,
    margin_min_s=1450.5,
    wall_s=62.7,
)


def a_screen(width: int = 80) -> Console:
    return Console(file=io.StringIO(), force_terminal=True, color_system=None, width=width, height=24, highlight=False)


def drawn(picture: Snapshot, width: int = 80) -> list[str]:
    screen = a_screen(width)
    screen.print(Display(picture))
    assert isinstance(screen.file, io.StringIO)
    return [line.rstrip() for line in screen.file.getvalue().splitlines()]


async def test_a_terminal_sees_four_aligned_lines() -> None:
    assert drawn(HALFWAY, 120) == [
        "captions  ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━                             6,139/10,000    61 %",
        "jobs      3,581 queued   280 outstanding   6,101 succeeded   38 failed",
        "speed     98.7 jobs/s   40 s left   1 min 02 s so far",
        "service   994 of 1,000 requests in 10 s, 3 throttled   2 were uncertain",
    ]


async def test_a_narrow_terminal_sees_the_same_on_more_lines() -> None:
    assert drawn(HALFWAY, 52) == [
        "captions  ━━━━━━━━━         6,139/10,000    61 %",
        "jobs      3,581 queued   280 outstanding",
        "          6,101 succeeded   38 failed",
        "speed     98.7 jobs/s   40 s left",
        "          1 min 02 s so far",
        "service   994 of 1,000 requests in 10 s, 3",
        "          throttled",
        "          2 were uncertain",
    ]


async def test_each_member_of_a_pool_has_a_line_below() -> None:
    lines = drawn(msgspec.structs.replace(HALFWAY, members=MEMBERS))
    assert [len(line) <= 80 for line in lines] == [True] * len(lines)
    heading, _, first, second, *told = lines[4:]
    assert heading.split() == ["member", "is", "done", "jobs/s", "execution", "cost"]
    assert first.split() == ["abc123", "well", "1,051", "4.2", "1.2", "s", "0.13"]
    assert second.split() == ["local:handlers.py:caption", "unwell", "6", "0.0", "250", "ms"]
    assert " ".join(told) == f"local:handlers.py:caption is not well: {THROTTLED}"
    line = progress_line(msgspec.structs.replace(HALFWAY, members=MEMBERS))
    assert line.endswith(f"; local:handlers.py:caption is not well: {THROTTLED}")


async def test_where_members_have_different_lanes_each_is_told() -> None:
    first, second = MEMBERS
    lines = drawn(msgspec.structs.replace(HALFWAY, members=(first, msgspec.structs.replace(second, via=Via.BOTH))))
    assert [line.split()[1:3] for line in (lines[4], *lines[6:8])] == [
        ["is", "via"],
        ["well", "queue"],
        ["unwell", "both"],
    ]


async def test_workers_by_need_have_a_line_with_why_there_are_so_many() -> None:
    *_, last = drawn(msgspec.structs.replace(HALFWAY, workers=WORKERS))
    assert last == f"workers   {WORKERS_SENTENCE}"
    line = progress_line(msgspec.structs.replace(HALFWAY, workers=WORKERS))
    assert WORKERS_SENTENCE in line


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("[red]x[/red]", ["[red]x[/red]"]),
        ("a/b c", ["a/b c"]),
        ("-lead", ["-lead"]),
        ("caption-the-archive-of-2025-b", ["caption-the-archive-of-2025-b", ""]),
        ("写" * 200, ["写" * 39 + " …", ""]),
    ],
)
async def test_a_name_is_drawn_as_it_is_and_a_long_one_on_a_line_of_its_own(name: str, shown: list[str]) -> None:
    labels = [line.split("  ")[0] for line in drawn(snapshot(run=name, queued=3))]
    assert labels == [*shown, "jobs", "speed", "service"]


async def test_thirty_columns_are_enough_for_the_name_and_every_figure() -> None:
    assert drawn(msgspec.structs.replace(HALFWAY, run="caption-the-archive-of-2025-b"), 30) == [
        "caption-the-archive-of-2025-b",
        "         6,139/10,000",
        "         61 %",
        "jobs     3,581 queued",
        "         280 outstanding",
        "         6,101 succeeded",
        "         38 failed",
        "speed    98.7 jobs/s",
        "         40 s left",
        "         1 min 02 s so far",
        "service  994 of 1,000",
        "         requests in 10 s,",
        "         3 throttled",
        "         2 were uncertain",
    ]


async def test_a_close_call_is_shown_and_any_other_margin_is_not() -> None:
    close = msgspec.structs.replace(HALFWAY, margin_min_s=245.0, safe_offline_s=1_700.0)
    assert "closest call: collected 4 min before expiry" in drawn(close, 120)[-1]
    assert "may be offline for 28 min" in progress_line(close)
    assert "closest" not in " ".join(drawn(HALFWAY, 120))


async def test_reading_is_one_line() -> None:
    assert drawn(snapshot(reading=True, rows_read=120_000)) == [
        "captions  reading the input: 120,000 rows checked so far"
    ]


async def test_before_there_is_anything_to_say_nothing_is_made_up() -> None:
    assert drawn(snapshot(queued=3))[2:] == [
        "speed     ...   0 s so far",
        "service   994 of 1,000 requests in 10 s, none throttled",
    ]


async def test_the_live_view_draws_and_leaves_nothing_behind() -> None:
    screen = a_screen()
    console = LiveConsole(screen)
    with anyio.move_on_after(1):
        await console.follow(lambda: HALFWAY)
    console.interrupted(2)
    console.info("280 jobs are [still] at the service")
    console.warn("careful")
    console.warn("no file \x1b[2J")
    assert isinstance(screen.file, io.StringIO)
    text = screen.file.getvalue()
    assert text.count("captions") == 5, "one for each quarter of a second, and one to be taken away"
    assert "280 jobs are [still] at the service\n" in text
    assert "warning: careful\n" in text
    assert "warning: no file \\x1b[2J\n" in text
    assert "\x1b[?25h" in text, "the cursor is shown again"
    assert (console.first, console.signal) == (HALFWAY, 2)


class _Unplugged(io.StringIO):
    def write(self, text: str) -> int:
        raise OSError(5, "Input/output error")


async def test_a_terminal_that_goes_away_does_not_stop_the_run() -> None:
    console = LiveConsole(Console(file=_Unplugged(), force_terminal=True, width=80))
    with anyio.move_on_after(1) as scope:
        await console.follow(lambda: HALFWAY)
    assert scope.cancelled_caught


async def test_elsewhere_a_line_is_printed_every_five_seconds_and_at_the_end(
    capsys: pytest.CaptureFixture[str],
) -> None:
    looks = iter(range(1000))

    def look() -> Snapshot:
        return snapshot(queued=1000, succeeded=next(looks))

    with anyio.move_on_after(12):
        await PlainConsole().follow(look)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "captions: 1 of 1,001 jobs finished (0 %); 994 of 1,000 requests in 10 s, none throttled",
        "captions: 2 of 1,002 jobs finished (0 %); 994 of 1,000 requests in 10 s, none throttled",
        "captions: 3 of 1,003 jobs finished (0 %); 994 of 1,000 requests in 10 s, none throttled",
    ]


async def test_a_line_that_says_nothing_new_is_printed_once_a_minute(capsys: pytest.CaptureFixture[str]) -> None:
    with anyio.move_on_after(127):
        await PlainConsole().follow(lambda: snapshot(outstanding=2, succeeded=1))
    assert len(capsys.readouterr().err.splitlines()) == 3, "after 5 s, and a minute later each"


async def test_a_plain_line_says_what_matters() -> None:
    assert progress_line(HALFWAY) == (
        "captions: 6,139 of 10,000 jobs finished (61 %); 280 outstanding; 38 failed; 98.7 jobs/s; 40 s left;"
        " 994 of 1,000 requests in 10 s, 3 throttled; 2 were uncertain"
    )
    assert progress_line(snapshot(reading=True, rows_read=5000)) == "captions: reading the input, 5,000 rows checked"
    waiting = msgspec.structs.replace(snapshot(succeeded=2, uncertain=1, were_uncertain=3), window_used=0)
    assert progress_line(waiting) == "captions: 2 of 3 jobs finished (66 %); 1 uncertain; 3 were uncertain"
    idle = msgspec.structs.replace(snapshot(succeeded=2, eta_s=0.0), window_used=0)
    assert progress_line(idle) == "captions: 2 of 2 jobs finished (100 %)"


async def test_a_full_queue_at_the_service_is_shown() -> None:
    waiting = msgspec.structs.replace(HALFWAY, queue_full=True)
    assert "its queue is full: waiting" in " ".join(drawn(waiting, 120))
    assert "its queue is full: waiting" in progress_line(waiting)


async def test_a_full_line_is_shown_with_what_it_brings() -> None:
    full = msgspec.structs.replace(HALFWAY, line_bytes_per_s=8_041_000.0)
    assert "the line is full: 8.0 MB/s" in " ".join(drawn(full, 120))
    assert "the line is full: 8.0 MB/s" in progress_line(full)


async def test_whatever_holds_a_run_up_is_shown_for_as_long_as_it_does() -> None:
    paused = msgspec.structs.replace(HALFWAY, why_blocked=PAUSED, eta_s=None)
    assert drawn(paused)[2:] == [
        "speed     98.7 jobs/s   1 min 02 s so far",
        "service   paused: nothing is sent",
        "          994 of 1,000 requests in 10 s, 3 throttled   2 were uncertain",
    ]
    still = msgspec.structs.replace(HALFWAY, finding=NO_WORKERS)
    assert drawn(still)[3] == f"service   {NO_WORKERS}"
    assert f"captions: {NO_WORKERS}; 6,139 of" in progress_line(still)
    assert f"captions: {NO_WORKERS}; {SUSPECT}; " in progress_line(msgspec.structs.replace(still, why_blocked=SUSPECT))
    gone = msgspec.structs.replace(HALFWAY, unreachable_s=185.4)
    assert drawn(gone)[3] == "service   unreachable for 3 min 05 s"
    assert "captions: paused: nothing is sent; 6,139 of 10,000 jobs finished" in progress_line(paused)
    assert "unreachable for 3 min 05 s" in progress_line(gone)
    silent = msgspec.structs.replace(gone, why_blocked=UNANSWERED, gate=Gate.UNANSWERED)
    assert drawn(silent) == drawn(gone), "the one explains the other"


@pytest.mark.parametrize("held_up", [PAUSED, CANCELLED, SUSPECT, REFUSED, UNANSWERED, f"{STOPPED}: {REASON}"])
async def test_every_reason_to_send_nothing_fits_a_line(held_up: str) -> None:
    held = msgspec.structs.replace(snapshot(queued=3), why_blocked=held_up)
    first, *others = drawn(held)[3:]
    assert held_up in first
    assert len(others) <= 1


async def test_at_the_end_nothing_is_told_of_jobs_at_the_service() -> None:
    stuck = StuckSummary(in_progress=1, examples=("night-7",))
    under_way = msgspec.structs.replace(snapshot(outstanding=1, succeeded=9), stuck=stuck, safe_offline_s=1_700.0)
    ended = msgspec.structs.replace(under_way, counts={**under_way.counts, "outstanding": 0, "succeeded": 10})
    assert "1 stuck (night-7); may be offline for 28 min" in progress_line(under_way)
    assert "stuck" not in progress_line(ended)
    assert "offline" not in progress_line(ended)


async def test_before_the_first_request_no_limit_is_drawn() -> None:
    silent = msgspec.structs.replace(snapshot(queued=3), window_used=0, window_allowed=0, window_s=None)
    assert drawn(silent)[-1] == "service   nothing sent so far"


async def test_quiet_is_quiet_until_the_end_is_near(capsys: pytest.CaptureFixture[str]) -> None:
    console = QuietConsole()
    with anyio.move_on_after(60):
        await console.follow(lambda: HALFWAY)
    console.info("4 rows went from the file")
    assert capsys.readouterr().err == ""
    console.warn("careful")
    console.interrupted(15)
    console.info("continue with: orchestrator resume captions")
    assert capsys.readouterr().err == "warning: careful\ncontinue with: orchestrator resume captions\n"
    assert (console.signal, console.first) == (15, HALFWAY)


async def test_the_view_suits_where_standard_error_leads(capsys: pytest.CaptureFixture[str]) -> None:
    assert type(console_for_stderr(quiet=True)) is QuietConsole
    console = console_for_stderr(quiet=False)
    assert type(console) is PlainConsole
    console.info("hello")
    assert capsys.readouterr().err == "hello\n"
    assert terminal().stderr


async def test_a_terminal_is_drawn_on_unless_it_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    _, end = os.openpty()
    with os.fdopen(end, "w", encoding="utf-8") as tty, redirect_stderr(tty):
        assert type(console_for_stderr(quiet=False)) is LiveConsole
        monkeypatch.setenv("TERM", "dumb")
        assert type(console_for_stderr(quiet=False)) is PlainConsole


def test_each_batch_at_the_service_has_a_line() -> None:
    batch = BatchStatus(
        batch="batch_7", stage=BatchStage.RUNNING, rows=5_000, completed=70, failed=1, made_at=1, begun_at=2
    )
    assert drawn(msgspec.structs.replace(HALFWAY, batches=(batch,)))[-1].split() == [
        *("batch_7", "running", "1970-01-01", "00:00"),
        *("5,000", "70", "1"),
    ]
