"""The two streams, when somebody reads them and when nobody does any more."""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path
from typing import TextIO

import msgspec
import pytest
from rich.console import Console

from orchestrator.api.foreground.progress_line import progress_text
from orchestrator.cli.framework.runner import execute
from orchestrator.cli.output import streams, tables
from orchestrator.cli.output.live_display import Display
from orchestrator.cli.service import api_output
from orchestrator.client.jobs.service_answers import JsonAnswer
from orchestrator.core.jobs.lifecycle import State
from tests.cli.command_line import shown
from tests.cli.samples import snapshot


@contextmanager
def unread_pipe() -> Iterator[TextIO]:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w", encoding="utf-8") as file:
        yield file


def test_a_reader_that_left_is_noticed_once_and_never_again() -> None:
    with unread_pipe() as pipe, redirect_stdout(pipe):
        with pytest.raises(streams.ReaderLeftError):
            streams.put(b"x" * 1_000_000)
        streams.put(b"into nothing, as Python's own last flush will be")
        streams.flush()


def test_a_reader_that_left_is_noticed_at_the_latest_when_the_rest_is_handed_on() -> None:
    with unread_pipe() as pipe, redirect_stdout(pipe), pytest.raises(streams.ReaderLeftError):
        streams.put_json({"run": "captions"})


def test_a_reader_that_left_has_had_what_it_wanted() -> None:
    async def command() -> int:
        raise streams.ReaderLeftError

    assert execute(command) == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has it")
def test_a_full_disk_behind_standard_output_is_no_defect(capfd: pytest.CaptureFixture[str]) -> None:
    async def command() -> int:
        streams.put_json({"run": "captions"})
        return 0

    with Path("/dev/full").open("w", encoding="utf-8") as full, redirect_stdout(full):
        assert execute(command) == 3
    assert "standard output cannot be written (No space left on device)" in capfd.readouterr().err


def test_a_person_that_left_is_no_reason_to_stop() -> None:
    with unread_pipe() as pipe:
        with redirect_stderr(pipe):
            streams.say("is anybody there?")
        os.dup2(os.open(os.devnull, os.O_WRONLY), pipe.fileno())  # or closing the pipe would fail as well


@pytest.mark.parametrize(("no_color", "text"), [("", "\x1b[1;38;5;160merror:\x1b[0m no\r\n"), ("1", "error: no\r\n")])
def test_a_terminal_sees_colours_unless_it_wants_none(
    no_color: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", no_color)
    screen, end = os.openpty()
    with os.fdopen(end, "w", encoding="utf-8") as tty, redirect_stderr(tty):
        streams.complain("no")
    said = b""
    while not said.endswith(b"\n"):  # the terminal may hand on the end of the line by itself
        said += os.read(screen, 1000)
    assert said.decode() == text


def test_without_a_terminal_there_are_none(capsys: pytest.CaptureFixture[str]) -> None:
    streams.headline("all")
    streams.warn("careful")
    assert capsys.readouterr().err == "all\nwarning: careful\n"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a\x1b[31mb", "a\\x1b[31mb"),
        ("one\ntwo", "one\ntwo"),
        ("\r\t\x07\x00\x7f\x9b", "\\r\\t\\x07\\x00\\x7f\\x9b"),
        ("\u202e", "\\u202e"),
        ("caf\udce9", "caf\\udce9"),
        ("été 写真 [red]x[/red] 'a' \\", "été 写真 [red]x[/red] 'a' \\"),
    ],
)
def test_what_a_terminal_would_obey_or_not_show_is_written_out(
    text: str, written: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for say in (streams.say, streams.headline, streams.warn, streams.complain):
        say(text)
    assert capsys.readouterr().err == f"{written}\n{written}\nwarning: {written}\nerror: {written}\n"


def test_a_terminal_gets_long_lines_broken_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    class Screen(StringIO):
        def isatty(self) -> bool:
            return True

    said = Screen()
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("TERM", "dumb")
    with redirect_stderr(said):
        streams.say("one line that is far too long\n  short")
        streams.complain("/a/path/that/is/longer/than/a/line is no ledger")
    assert said.getvalue().splitlines() == [
        "one line that is far",
        "too long",
        "  short",
        "error:",
        "/a/path/that/is/longer/than/a/line",
        "is no ledger",
    ]


class Terminal(TextIOWrapper):
    """A screen of which the test sees what is on it."""

    def __init__(self) -> None:
        super().__init__(BytesIO(), encoding="utf-8", write_through=True)

    def isatty(self) -> bool:
        return True

    @property
    def text(self) -> str:
        buffer = self.buffer
        assert isinstance(buffer, BytesIO)
        return buffer.getvalue().decode()


HOSTILE = "gnp.\u202eexe \x9b2J \x1b[31m"


@pytest.mark.parametrize(
    "put",
    [
        lambda text: streams.put_json({"error": text}),
        lambda text: streams.put_data(msgspec.json.encode({"output": text}) + b"\n"),
        lambda text: api_output.put_answer(msgspec.json.encode({"output": text})),
        lambda text: api_output.put_event({"text": text}),
        lambda text: api_output.put_json_answer(
            JsonAnswer(value={"a": text}, raw=msgspec.json.encode({"a": text})), as_json=False
        ),
        lambda text: tables.put_lines([text, f"  {text}"]),
        lambda text: tables.put_parts(tables.lines([(text, f"{text}\n\tFile")])),
        lambda text: tables.put_parts(tables.columns(("A", "B"), [(text, text)])),
        lambda text: tables.put_parts(
            tables.of_names("A", [text], [tables.Figures("B", [text])], remarks=tables.Figures("C", [text]), width=120)
        ),
    ],
)
def test_a_worker_s_words_neither_move_nor_hide_anything_in_any_view(put: Callable[[str], None]) -> None:
    with redirect_stdout(Terminal()) as screen:
        put(HOSTILE)
    assert "\\u202e" in screen.text
    assert all(each.isprintable() or each == "\n" for each in re.sub(r"\x1b\[[0-9;]*m", "", screen.text))
    assert "\x1b[31m" not in screen.text


def test_in_a_pipe_no_name_is_broken_and_no_remark_shortened_unless_columns_says_how_wide_it_is() -> None:
    name, remark = "captions-" * 12, "one sentence that goes on " * 20

    def put() -> None:
        tables.put_parts(
            tables.of_names("RUN", [name], [tables.Figures("JOBS", ["7"])], remarks=tables.Figures("WHY", [remark])),
            tables.columns(("FLOW", "WHY"), [("f", remark)]),
            tables.lines([("why", remark)]),
        )

    lines = shown(put).stdout.splitlines()
    assert [len(lines), sum(remark.strip() in line for line in lines), sum(name in line for line in lines)] == [7, 3, 1]
    assert max(map(len, shown(put, COLUMNS="60").stdout.splitlines())) <= 60


def test_data_that_nobody_looks_at_is_as_it_came(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    streams.put_data(HOSTILE.encode())
    streams.flush()
    assert capfdbinary.readouterr().out == HOSTILE.encode()


def test_the_display_of_a_run_shows_what_is_hidden_in_a_sentence() -> None:
    screen = StringIO()
    moved = msgspec.structs.replace(snapshot(queued=3), run=HOSTILE, why_blocked=HOSTILE, finding=HOSTILE)
    Console(file=screen, width=120, color_system=None).print(Display(moved))
    for told in (screen.getvalue(), progress_text(msgspec.structs.replace(moved, counts=dict.fromkeys(State, 0)))):
        assert "\\u202e" in told
        assert all(each.isprintable() or each == "\n" for each in told)
