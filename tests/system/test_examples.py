"""What a newcomer runs first."""

import json
import shutil
import subprocess
import sys

import pytest

from tests.system.emulators import emulated
from tests.system.processes import ROOT, SECONDS_MAX, Desk

pytestmark = pytest.mark.system

PROMPTS = 50


@pytest.mark.slow
def test_the_quickstart_runs(desk: Desk) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "quickstart.py")], cwd=desk.folder, env=desk.environment(),
        capture_output=True, text=True, timeout=SECONDS_MAX, check=True,
    )  # fmt: skip

    assert "A picture of a lighthouse in fog" in done.stdout
    assert "3 of 3 succeeded" in done.stdout
    assert done.stderr == ""


@pytest.mark.slow
def test_a_training_of_three_days_goes_on_from_its_checkpoints(desk: Desk) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "training.py")], cwd=desk.folder, env=desk.environment(),
        capture_output=True, text=True, timeout=SECONDS_MAX, check=True,
    )  # fmt: skip

    *_, result = done.stdout.splitlines()
    assert result.startswith("72 hours, in ")
    assert int(result.split()[3]) > 2, "no execution may take more than half of it, and one is taken away"
    assert done.stderr == ""


@pytest.mark.slow
def test_the_command_of_the_demo_runs_on_its_first_prompts(desk: Desk) -> None:
    lines = (ROOT / "examples" / "prompts.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    desk.write("prompts.jsonl", "".join(lines[:PROMPTS]))
    (desk.folder / "demo").mkdir()

    ended = desk.call(
        "run", "prompts.jsonl", "--endpoint", f"local:{ROOT / 'examples' / 'handlers.py'}:caption",
        "--listen", "127.0.0.1:0", "--ledger", "demo/orchestrator.db", "--output", "demo/results.jsonl",
        environ={"ORCHESTRATOR_API_KEY": ""},
    )  # fmt: skip

    assert ended.exit_code == 0, ended
    rows = desk.rows("demo/results.jsonl")
    assert len(rows) == PROMPTS == len({row["custom_id"] for row in rows})
    assert all(row["output"]["caption"].startswith("A picture of") for row in rows)
    assert f"all {PROMPTS} jobs succeeded" in ended.stderr


@pytest.mark.slow
def test_two_pods_write_captions_and_are_gone(desk: Desk) -> None:
    """With the commands that the file itself says."""
    shutil.copytree(ROOT / "examples" / "pods", desk.folder, dirs_exist_ok=True)
    file = desk.folder / "orchestrator.toml"
    said = [line.removeprefix("#").partition("  #")[0].split() for line in file.read_text().splitlines()]
    save, plan, run, left = (words[1:] for words in said if words[:1] == ["orchestrator"] and words[1] != "emulate")
    with emulated(desk, "--pod-server", "8000=server.py:app") as url:
        file.write_text(file.read_text().replace("http://127.0.0.1:8900", url))
        assert desk.call(*save).exit_code == 0
        assert "2 of captions, ready in about 3 min, assumed" in desk.call(*plan).stdout
        ended = desk.call(*run)
        assert ended.exit_code == 0, ended
        captions = [row["output"]["caption"] for row in desk.rows("captions.jsonl")]
        assert captions[0] == "A picture of a lighthouse in fog"
        assert "2 pods of captions" in ended.stderr
        assert json.loads(desk.call(*left, "--json").stdout) in ([], {"pods": []})
