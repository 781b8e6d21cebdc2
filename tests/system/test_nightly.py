"""The example of a nightly batch, as it stands: its pipeline, and what Airflow runs."""

import json
import re
import shlex

import pytest

from tests.system.processes import ROOT, Desk

pytestmark = pytest.mark.system

NIGHTLY = ROOT / "examples" / "nightly"
AT = "2027-03-28T02:30:00+00:00"
"""How Airflow writes the end of a data interval."""


@pytest.mark.slow
def test_the_command_of_airflow_carries_out_the_flow_of_its_interval_once(desk: Desk) -> None:
    nightly = desk.folder / "nightly"
    nightly.mkdir()
    (desk.folder / "handlers.py").write_bytes((ROOT / "examples" / "handlers.py").read_bytes())
    (nightly / "captions.toml").write_bytes((NIGHTLY / "captions.toml").read_bytes())
    (nightly / "inbox").mkdir()
    (nightly / "inbox" / "2027-03-28.jsonl").write_text('{"input": {"prompt": "a lighthouse"}}\n')
    assert desk.call("apply", "nightly/captions.toml").exit_code == 0

    dag = (NIGHTLY / "airflow_dag.py").read_text(encoding="utf-8")
    [command] = re.findall(r"bin/orchestrator (trigger .*)\"\n", dag)
    words = shlex.split(command.replace("{{ data_interval_end }}", AT))
    ended = [desk.call(*words) for _ in range(2)]

    assert [verdict.exit_code for verdict in ended] == [0, 0], ended
    flows = [json.loads(verdict.stdout) for verdict in ended]
    assert [flow["name"] for flow in flows] == ["captions@20270328T023000Z"] * 2
    assert flows[0]["ended_at"] == flows[1]["ended_at"]
    [row] = desk.rows("nightly/out/2027-03-28.jsonl")
    assert "lighthouse" in json.dumps(row["output"])
