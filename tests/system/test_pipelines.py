"""Pipelines as users run them: the example with a report, a command that is stopped, a function that never returns."""

import json
import shutil
import sqlite3
import subprocess
from contextlib import closing

import pytest

from tests.system.processes import ROOT, Desk

pytestmark = [pytest.mark.system, pytest.mark.slow]

HANDLERS = "def same(job):\n    return dict(job['input'])\n"


def test_the_example_of_a_report_goes_from_captions_to_a_file_as_it_stands(desk: Desk) -> None:
    shutil.copytree(ROOT / "examples" / "report", desk.folder / "report", ignore=shutil.ignore_patterns("__pycache__"))
    assert desk.call("apply", "report/report.toml").exit_code == 0
    ended = desk.call("trigger", "report", "--at", "2027-03-28T00:00:00Z", "--wait", "--json")

    assert ended.exit_code == 0, ended.stderr
    assert "report@20270328T000000Z/report: 3 captions, 3 with a mean" in ended.stderr
    rows = desk.rows("report/out/report@20270328T000000Z.jsonl")
    assert [row["custom_id"] for row in rows] == ["p1", "p2", "p3", "all"]
    told = "This is a lighthouse in fog. There is nobody in it."
    assert rows[0]["output"] == {"caption": told, "mean": [24.0, 4.5]}
    assert rows[3]["output"] == {"flow": "report@20270328T000000Z", "captions": 3}
    kin = json.loads(desk.call("flows", "lineage", "report@20270328T000000Z", "p1/0", "--json").stdout)["rows"]
    assert [(row["stage"], row["custom_id"]) for row in kin] == [
        ("caption", "p1"),
        ("embed", "p1/0"),
        ("mean", "p1"),
        ("report", "p1"),
    ]


PIPELINE = """name = "{name}"
input = "in.jsonl"
[stage.first]
endpoint = "local:handlers.py:same"
[stage.second]
{second}
"""


def pipeline(desk: Desk, name: str, second: str) -> None:
    desk.write("handlers.py", HANDLERS)
    desk.write("in.jsonl", '{"custom_id": "r1", "input": {"n": 1}}\n')
    desk.write(f"{name}.toml", PIPELINE.format(name=name, second=second))
    assert desk.call("apply", f"{name}.toml").exit_code == 0


def runs(pid: int) -> bool:
    """Whether there is such a process, and nobody has only to hear of its end."""
    found = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return found.stdout.strip()[:1] not in ("", "Z")


def test_a_command_is_stopped_with_all_it_has_started_when_its_flow_is_cancelled(desk: Desk) -> None:
    pipeline(desk, "p", 'command = ["sh", "-c", "sleep 600 & echo pid $! >&2; wait"]')
    served = desk.start("serve", "--ledger", "orchestrator.db")
    served.until_said("serving")
    assert desk.call("trigger", "p", "--at", "2027-03-28T00:00:00Z").exit_code == 0
    pid = int(served.until_said("p@20270328T000000Z/second: pid").split()[-1])
    assert runs(pid)
    assert desk.call("cancel", "p@20270328T000000Z", "--yes").exit_code == 0
    served.until_said("has been cancelled")
    assert not runs(pid)
    served.kill()


def test_a_function_that_never_returns_holds_up_its_own_stage_alone(desk: Desk) -> None:
    desk.write("steps.py", "import threading\n\n\ndef never(row):\n    threading.Event().wait()\n")
    pipeline(desk, "stuck", 'step = "steps.py:never"\nendpoint = "local:handlers.py:same"')
    pipeline(desk, "free", 'endpoint = "local:handlers.py:same"')
    served = desk.start("serve", "--ledger", "orchestrator.db")
    served.until_said("serving")
    for name in ("stuck", "free"):
        assert desk.call("trigger", name, "--at", "2027-03-28T00:00:00Z").exit_code == 0
    served.until_said("free@20270328T000000Z has succeeded")
    with closing(sqlite3.connect(desk.folder / "orchestrator.db")) as connection:
        assert connection.execute("SELECT count(*) FROM owed").fetchone() == (1,)
    served.kill()
