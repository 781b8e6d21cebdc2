"""The example of a nightly batch, as it stands: its pipeline, its units, and what Airflow runs."""

import configparser
import json
import re
import shlex

import pytest

from tests.system.processes import ROOT, Desk

pytestmark = pytest.mark.system

NIGHTLY = ROOT / "examples" / "nightly"
AT = "2027-03-28T02:30:00+00:00"
"""How Airflow writes the end of a data interval."""


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


@pytest.mark.parametrize("unit", ["orchestrator.service", "orchestrator-tick.service"])
def test_the_units_start_commands_that_there_are(unit: str, desk: Desk) -> None:
    found = configparser.ConfigParser(interpolation=None)
    found.optionxform = str  # type: ignore[method-assign, assignment]  # names of units have capitals
    found.read(NIGHTLY / unit)
    program, *arguments = shlex.split(found["Service"]["ExecStart"])
    assert program.endswith("/bin/orchestrator")
    flags = desk.call("help", arguments[0]).stdout
    assert all(word in flags for word in arguments if word.startswith("--"))
    assert ("WatchdogSec" in found["Service"]) == (found["Service"]["Type"] == "notify")
