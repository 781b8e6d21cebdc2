"""What somebody does who has read the README and nothing else, with real processes: half of a run fails, the pages say
why, that kind is tried again from there once the cause is gone, and whoever wants to know is told.
"""

import html
import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import httpx
import pytest

from tests.benchmarks.processes import ORCHESTRATOR, clean_environment
from tests.dashboard.actions.forms import fields_of
from tests.dashboard.browser.site import Site, dashboard_process
from tests.dashboard.harness import Answer
from tests.dashboard.showcase import LEDGER

pytestmark = [pytest.mark.slow, pytest.mark.system]

JOBS: Final = 40
SECONDS_MAX: Final = 120.0

HANDLER: Final = """
from pathlib import Path

def caption(job):
    if job["input"]["n"] % 2 and not Path(FONT).exists():
        raise OSError("cannot open resource: fonts.ttf")
    return {"caption": f"A lighthouse, no. {job['input']['n']}"}
"""
TARGET: Final = """
[notify.me]
kind = "command"
command = ["sh", "-c", "cat >> told.jsonl; echo >> told.jsonl"]
"""


def make_folder(folder: Path) -> Path:
    """What they have: inputs, a function that lacks a font for half of them, and who is to be told."""
    (folder / "handler.py").write_text(HANDLER.replace("FONT", repr(str(folder / "fonts.ttf"))))
    (folder / "orchestrator.toml").write_text(TARGET)
    rows = (json.dumps({"n": n}) for n in range(JOBS))
    (folder / "prompts.jsonl").write_text("".join(f"{row}\n" for row in rows))
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_folder(tmp_path)


def typed(folder: Path, command: str) -> "subprocess.CompletedProcess[str]":
    """A command as it is pasted into a terminal."""
    [program, *words] = shlex.split(command)
    assert program == "orchestrator"
    return subprocess.run(
        [*ORCHESTRATOR, *words],
        cwd=folder,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )


class Reader:
    """Somebody who follows links and presses buttons by what stands on them, without script."""

    def __init__(self, site: Site) -> None:
        self.client = httpx.Client(base_url=site.origin, follow_redirects=True, trust_env=False)
        self.client.headers.update({"Accept": "text/html", "Origin": site.origin, "Sec-Fetch-Site": "same-origin"})
        self._shown(self.client.get(site.link))
        [fields] = self._forms("Sign in")
        self._shown(self.client.post("/login", data=fields[1]))

    def _shown(self, answer: httpx.Response) -> None:
        assert answer.status_code == 200, answer.text
        self.page = Answer(answer)

    def go(self, path: str) -> None:
        self._shown(self.client.get(path))

    def follow(self, text: str) -> None:
        """The first link with that text."""
        found = re.findall(r'<a [^>]*?href="([^"]*)"[^>]*>(.*?)</a>', self.page.html, re.DOTALL)
        told = [html.unescape(href) for href, inner in found if re.sub(r"<[^>]+>", "", inner).strip() == text]
        assert told, f"{text}: {self.page.text}"
        self.go(told[0])

    def _forms(self, button: str) -> list[tuple[str, dict[str, str]]]:
        found = []
        for action, inner in re.findall(
            r'<form method="post" action="([^"]*)"[^>]*>(.*?)</form>', self.page.html, re.DOTALL
        ):
            if re.search(rf"<button[^>]*>{re.escape(button)}", inner):
                hidden = re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', inner)
                found.append((action, {name: html.unescape(value) for name, value in hidden}))
        assert found, f"{button}: {self.page.text}"
        return found

    def press(self, button: str) -> None:
        """The first button whose label begins so; then the one that confirms it."""
        [(action, fields), *_] = self._forms(button)
        self._shown(self.client.post(action, data=fields))
        self._shown(self.client.post(action, data=fields_of(self.page)))


@pytest.fixture
def reader(folder: Path) -> Iterator[Reader]:
    """Who looks at what a run has come to of which half has failed."""
    words = "run prompts.jsonl --endpoint local:handler.py:caption --output results.jsonl --max-attempts 1 --notify me"
    ended = typed(folder, f"orchestrator {words} --ledger {LEDGER}")
    assert ended.returncode == 1, ended.stderr
    assert f"{JOBS // 2} of {JOBS} jobs succeeded" in ended.stderr
    with dashboard_process(folder, clean_environment()) as site:
        reader = Reader(site)
        with closing(reader.client):
            yield reader


def told_of(folder: Path) -> list[str]:
    lines = (folder / "told.jsonl").read_text().splitlines()
    return [json.loads(line)["type"] for line in lines if line]


def test_they_see_it_find_why_mend_it_try_it_again_and_are_told(folder: Path, reader: Reader) -> None:
    assert f"{JOBS // 2} failed" in reader.page.text, "on the first page"
    assert told_of(folder) == ["run.partial"]
    reader.follow("prompts")
    assert f"Over: {JOBS // 2} of {JOBS} succeeded; {JOBS // 2} failed." in reader.page.text
    reader.follow("Failures")
    assert "1. 20 jobs 100 % of them" in reader.page.text
    assert "OSError: cannot open resource: fonts.ttf" in reader.page.text
    [job, *_] = re.findall(r'href="(/runs/1/jobs/\d+)"', reader.page.html)
    failures = "/runs/1/failures"
    reader.go(job)
    assert "handler.py" in reader.page.text, "the line that has raised it"
    assert "raise OSError" in reader.page.text

    (folder / "fonts.ttf").touch()
    reader.go(failures)
    reader.press(f"Retry {JOBS // 2}")
    [command] = re.findall(r"next process that works on this ledger: (orchestrator .*?) Action", reader.page.text)
    reader.go("/")
    assert "1 thing needs you" in reader.page.text, "somebody has to work on it"
    assert typed(folder, command).returncode == 0

    reader.go(failures)
    assert "No job has failed." in reader.page.text
    reader.go("/")
    assert "Nothing needs you" in reader.page.text
    assert len((folder / "results.jsonl").read_text().splitlines()) == JOBS
    assert told_of(folder) == ["run.partial", "run.done"]
    reader.follow("Messages")
    assert reader.page.text.count("taken") == 2
