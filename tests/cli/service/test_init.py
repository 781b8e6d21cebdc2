"""`orchestrator init`: three questions, a first configuration file, and the next command."""

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from orchestrator.cli.service.init import INPUT_DEFAULT, OUTPUT_DEFAULT, asked
from orchestrator.emulator.pytest_fixture import emulated_service
from orchestrator.errors import UsageError
from orchestrator.settings import run_request, run_settings
from orchestrator.settings.sources import choose
from tests.cli.command_line import Result, call

__all__ = ["emulated_service"]

KEY = "rpa_secret"
FILE = Path("orchestrator.toml")
LOCAL = ("--endpoint", "local:handlers.py:caption", "--input", "p.jsonl", "--output", "r.jsonl")


def init(*words: str, **environment: str) -> Result:
    return call(["init", *words], environment=environment)


@pytest.fixture
def _given() -> None:
    Path("handlers.py").write_text("def caption(job):\n    return job['input']\n")
    Path("p.jsonl").write_text('{"n": 1}\n')


@pytest.mark.usefixtures("_given")
def test_the_file_that_is_written_can_be_read_and_the_next_command_is_said() -> None:
    result = init(*LOCAL)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.splitlines() == [
        "orchestrator.toml is written",
        "local:handlers.py:caption: the function is there",
        "next:",
        "  orchestrator run p.jsonl --dry-run",
        "  orchestrator run p.jsonl",
    ]
    written = choose({}, {})
    assert (written[run_request.ENDPOINT], written[run_request.OUTPUT]) == (
        "local:handlers.py:caption",
        Path("r.jsonl"),
    )
    assert written[run_settings.MAX_ATTEMPTS] is None
    suggested = FILE.read_text().replace("\n# ", "\n").splitlines()
    FILE.write_text("\n".join(line for line in suggested if " = " in line))
    assert choose({}, {})[run_settings.MAX_ATTEMPTS] == 3, "what is suggested can be taken as it stands"


@pytest.mark.usefixtures("_given")
def test_a_file_that_is_there_stays_unless_told() -> None:
    FILE.write_text("max-attempts = 7")
    refused = init(*LOCAL)
    assert (refused.exit_code, FILE.read_text()) == (2, "max-attempts = 7")
    assert "orchestrator.toml is there already; --force writes it anew, --config another file" in refused.stderr
    other = init(*LOCAL, "--config", "other.toml")
    assert (other.exit_code, Path("other.toml").exists()) == (0, True)
    assert other.stderr.endswith("  orchestrator run p.jsonl --config other.toml\n")
    assert init(*LOCAL, "--force").exit_code == 0
    assert "max-attempts = 7" not in FILE.read_text()
    assert init(*LOCAL, "--config", "no/folder.toml").exit_code == 3


def test_an_endpoint_is_asked_how_it_is(emulated_service: Any) -> None:
    Path("p.jsonl").write_text('{"n": 1}\n')
    variables = emulated_service(lambda job: job["input"], keys=(KEY,)).environment()
    words = ("--endpoint", "abc123", "--input", "p.jsonl", "--output", "r.jsonl", "--json")
    well = init(*words, **variables)
    told = json.loads(well.stdout)
    assert (well.exit_code, told["ready"], told["next"]) == (0, True, "orchestrator run p.jsonl")
    assert "asked, and well: abc123 at http" in well.stderr
    assert KEY not in FILE.read_text() + well.stdout + well.stderr
    wrong = init(*words, "--force", **{**variables, "ORCHESTRATOR_API_KEY": "rpa_wrong"})
    assert (wrong.exit_code, json.loads(wrong.stdout)["ready"]) == (1, False)
    assert "warning: abc123 at http" in wrong.stderr
    keyless = init(*words, "--force")
    assert (keyless.exit_code, "there is no API key for it" in keyless.stderr) == (1, True)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (None, "handlers.py is not there yet"),
        ("def other(job): ...", "handlers.py has no caption"),
        ("def caption(", "handlers.py cannot be read as Python"),
    ],
)
def test_what_is_to_be_done_first_is_said(text: str | None, problem: str) -> None:
    if text is not None:
        Path("handlers.py").write_text(text)
    result = init(*LOCAL)
    assert (result.exit_code, FILE.exists()) == (1, True)
    assert f"warning: {problem}\nwarning: p.jsonl is not there yet\nthen:\n" in result.stderr


def test_nobody_is_asked_where_there_is_no_terminal() -> None:
    refused = init("--input", "p.jsonl")
    assert (refused.exit_code, refused.stdout, FILE.exists()) == (2, "", False)
    assert refused.stderr == "error: nobody is here to ask; give --endpoint, --output. Nothing was written\n"


def answered(typed: str, *given: str | None) -> tuple[str, ...]:
    """What a person at a terminal types."""
    screen, end = os.openpty()
    with os.fdopen(screen, "wb", buffering=0) as keyboard, os.fdopen(end, encoding="utf-8") as terminal:
        typing = threading.Thread(target=keyboard.write, args=(typed.encode(),))
        typing.start()
        try:
            return asked(given or (None, None, None), terminal)
        finally:
            typing.join()


def test_a_person_is_asked_three_questions_and_again_where_an_answer_cannot_be_used(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert answered("\nlocal:nowhere\nabc123\n\n\n") == ("abc123", INPUT_DEFAULT, OUTPUT_DEFAULT)
    told = capsys.readouterr().err
    assert told.count("Which endpoint (its id") == 3
    assert "Which file has the input? [prompts.jsonl]" in told
    assert answered("mine.csv\n", "abc123", None, "o.csv") == ("abc123", "mine.csv", "o.csv")
    with pytest.raises(UsageError, match="the questions were not answered; nothing was written"):
        answered("\x04")
