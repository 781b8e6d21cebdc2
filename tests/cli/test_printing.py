"""The two streams, when somebody reads them and when nobody does any more."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import TextIO

import pytest

from orchestrator.cli import printing
from orchestrator.cli.execution import execute


@contextmanager
def unread_pipe() -> Iterator[TextIO]:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w", encoding="utf-8") as file:
        yield file


def test_a_reader_that_left_is_noticed_once_and_never_again() -> None:
    with unread_pipe() as pipe, redirect_stdout(pipe):
        with pytest.raises(printing.ReaderLeftError):
            printing.put(b"x" * 1_000_000)
        printing.put(b"into nothing, as Python's own last flush will be")
        printing.flush()


def test_a_reader_that_left_is_noticed_at_the_latest_when_the_rest_is_handed_on() -> None:
    with unread_pipe() as pipe, redirect_stdout(pipe), pytest.raises(printing.ReaderLeftError):
        printing.put_json({"run": "captions"})


def test_a_reader_that_left_has_had_what_it_wanted() -> None:
    async def command() -> int:
        raise printing.ReaderLeftError

    assert execute(command) == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has it")
def test_a_full_disk_behind_standard_output_is_no_defect(capfd: pytest.CaptureFixture[str]) -> None:
    async def command() -> int:
        printing.put_json({"run": "captions"})
        return 0

    with Path("/dev/full").open("w", encoding="utf-8") as full, redirect_stdout(full):
        assert execute(command) == 3
    assert "standard output cannot be written (No space left on device)" in capfd.readouterr().err


def test_a_person_that_left_is_no_reason_to_stop() -> None:
    with unread_pipe() as pipe:
        with redirect_stderr(pipe):
            printing.say("is anybody there?")
        os.dup2(os.open(os.devnull, os.O_WRONLY), pipe.fileno())  # or closing the pipe would fail as well


@pytest.mark.parametrize(("no_color", "text"), [("", "\x1b[1;38;5;160merror:\x1b[0m no\r\n"), ("1", "error: no\r\n")])
def test_a_terminal_sees_colours_unless_it_wants_none(
    no_color: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", no_color)
    screen, end = os.openpty()
    with os.fdopen(end, "w", encoding="utf-8") as tty, redirect_stderr(tty):
        printing.complain("no")
    said = b""
    while not said.endswith(b"\n"):  # the terminal may hand on the end of the line by itself
        said += os.read(screen, 1000)
    assert said.decode() == text


def test_without_a_terminal_there_are_none(capsys: pytest.CaptureFixture[str]) -> None:
    printing.headline("all")
    printing.warn("careful")
    assert capsys.readouterr().err == "all\nwarning: careful\n"


@pytest.mark.parametrize(
    ("text", "shown"),
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
    text: str, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for say in (printing.say, printing.headline, printing.warn, printing.complain):
        say(text)
    assert capsys.readouterr().err == f"{shown}\n{shown}\nwarning: {shown}\nerror: {shown}\n"


def test_a_terminal_gets_long_lines_broken_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    class Screen(StringIO):
        def isatty(self) -> bool:
            return True

    said = Screen()
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("TERM", "dumb")
    with redirect_stderr(said):
        printing.say("one line that is far too long\n  short")
        printing.complain("/a/path/that/is/longer/than/a/line is no ledger")
    assert said.getvalue().splitlines() == [
        "one line that is far",
        "too long",
        "  short",
        "error:",
        "/a/path/that/is/longer/than/a/line",
        "is no ledger",
    ]
