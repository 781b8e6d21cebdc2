"""`watch` shows what `run` shows."""

import json
from pathlib import Path

import pytest

from tests.cli.fake_api import FakeApp, invoke, snapshot


def test_a_run_is_shown_to_its_end() -> None:
    app = FakeApp()
    app.snapshots = [snapshot(outstanding=1, succeeded=2), snapshot(succeeded=3)]
    result = invoke(app, "watch", "captions")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "captions: 3 of 3 jobs finished (100 %)" in result.stderr
    assert app.asked == [(Path("orchestrator.db"), "captions")]


@pytest.mark.parametrize(("failed", "code"), [(0, 0), (1, 1)])
def test_as_json_each_line_is_how_it_stands(failed: int, code: int) -> None:
    app = FakeApp()
    app.snapshots = [snapshot(outstanding=3, succeeded=0), snapshot(succeeded=3 - failed, failed=failed)]
    result = invoke(app, "watch", "--json")
    assert (result.exit_code, result.stderr) == (code, "")
    last = json.loads(result.stdout.splitlines()[-1])
    assert last["counts"] == {"succeeded": 3 - failed, "failed": failed}
