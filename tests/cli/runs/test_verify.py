"""`orchestrator verify`: what it prints and how it ends."""

import json
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from orchestrator.api.outcomes.audit import ADVICE, AuditCounts, AuditFinding, Flaw
from orchestrator.api.outcomes.compare import Files
from orchestrator.api.outcomes.verify import Verification
from orchestrator.cli.framework.flags_to_requests import verify_request
from orchestrator.cli.runs.verify import show_progress, show_verification
from orchestrator.settings.command_requests import VerifyRequest
from tests.cli.command_line import Result, give, requested, shown

ROOT = Path(__file__).parents[3]
REFERENCE = (ROOT / "docs" / "reference" / "commands.md").read_text()
ENDED_S_MAX = 30.0
FIGURES = AuditCounts(
    runs=1, jobs=2_000, events=6_000, submissions=2_001, outcomes=2_000, checksums=1_999, file_bytes=10**6
)


def verification(*findings: AuditFinding, files: Files | None = None) -> Verification:
    return Verification(
        ledger="orchestrator.db", ok=not findings, findings=findings, figures=FIGURES, files=files, wall_s=1.25
    )


def told(found: Verification, *, as_json: bool = False) -> Result:
    return shown(partial(show_verification, found, as_json=as_json))


def asked(*words: str) -> VerifyRequest:
    _, flags, choices = requested("verify", *words)
    return verify_request(flags["run"], choices, complete=flags["complete"])


def test_a_good_ledger_is_one_line_with_figures() -> None:
    result = told(verification(files=Files(results=1_990, errors=10, newer=3, lacks=("r lacks 3",))))

    assert result.exit_code == 0
    assert result.stdout == (
        "r lacks 3\nok: orchestrator.db: 1 run, 2,000 jobs, 6,000 events, 2,001 submissions, 2,000 outcomes"
        " (1,999 with a checksum), 1.0 MB; 1,990 lines of results, 10 of errors; 1.2 s\n"
    )
    assert shown(partial(show_progress, "jobs", 1_000, 2_000)).stderr == "looking at jobs: 1,000 of 2,000\n"
    assert asked("--output", "results.jsonl") == VerifyRequest(
        ledger=Path("orchestrator.db"), output=Path("results.jsonl"), errors=Path("results.jsonl.errors.jsonl")
    )


def test_what_is_wrong_is_told_with_what_to_do_and_exit_code_1() -> None:
    finding = AuditFinding(kind=Flaw.CHECKSUM, count=12, examples=("the first", "the second"), advice="restore a copy")

    result = told(verification(finding))

    assert result.exit_code == 1
    assert result.stdout.splitlines()[:5] == [
        "checksum: 12 problems",
        "  the first",
        "  the second",
        "  ... and 10 more",
        "  what to do: restore a copy",
    ]
    assert result.stdout.splitlines()[5].startswith("12 problems: orchestrator.db: ")


def test_what_has_to_be_complete_and_is_not_is_told_once() -> None:
    finding = AuditFinding(kind=Flaw.INCOMPLETE, count=1, examples=("r lacks 3",), advice="go on")
    files = Files(results=7, errors=0, newer=3, lacks=("r lacks 3",))

    result = told(verification(finding, files=files))

    assert (result.exit_code, result.stdout.count("r lacks 3")) == (1, 1)
    assert asked("--output", "r", "--complete").complete
    assert "--complete needs --output" in give("verify", "--complete").stderr


def test_json_holds_all_of_it() -> None:
    finding = AuditFinding(kind=Flaw.HISTORY, count=1, examples=("a job",), advice="report it")

    result = told(verification(finding), as_json=True)

    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert found["ok"] is False
    assert found["findings"] == [{"kind": "history", "count": 1, "examples": ["a job"], "advice": "report it"}]
    assert found["figures"]["jobs"] == 2_000


STUBBORN = """
import anyio
from orchestrator.cli.framework.runner import execute
from orchestrator.cli.runs.verify import show_progress, until_interrupted

async def audit():
    with anyio.CancelScope(shield=True):  # as while the database checks its file
        show_progress("the file", 0, 0)
        await anyio.sleep(600)

async def work():
    return await until_interrupted(audit)

execute(work)
"""


def test_an_audit_ends_at_once_when_it_is_interrupted() -> None:
    with subprocess.Popen([sys.executable, "-c", STUBBORN], cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "looking at the file\n"
        process.send_signal(signal.SIGINT)
        try:
            assert process.wait(ENDED_S_MAX) == 130
        finally:
            process.kill()


def test_errors_without_output_is_refused() -> None:
    result = give("verify", "--errors", "e.jsonl")

    assert result.exit_code == 2
    assert "--errors needs --output" in result.stderr


@pytest.mark.parametrize("kind", list(Flaw))
def test_each_kind_of_finding_is_documented_and_has_advice(kind: Flaw) -> None:
    assert f"| `{kind}` |" in REFERENCE
    assert ADVICE[kind]


def test_the_run_is_named_by_its_name_alone_or_by_the_flag() -> None:
    request = VerifyRequest(
        ledger=Path("orchestrator.db"),
        name="night",
        output=Path("r.jsonl"),
        errors=Path("r.jsonl.errors.jsonl"),
    )
    assert asked("night", "--output", "r.jsonl") == asked("--name", "night", "--output", "r.jsonl") == request
    assert "day and --name night are two runs; name one" in give("verify", "day", "--name", "night").stderr
