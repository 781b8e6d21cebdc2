"""`orchestrator metrics`: shown, written to a file, and what is made of the registry."""

import json
from pathlib import Path

import pytest

from tests.cli.command_line import Result, call
from tests.cli.small_ledger import a_ledger
from tests.telemetry.promtool import promtool


def said(words: list[str]) -> Result:
    return call(words, environment={})


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return a_ledger(succeeded=2, queued=1)


def test_metrics_are_shown_as_prometheus_reads_them(ledger: Path) -> None:
    shown = said(["metrics"])
    assert shown.exit_code == 0
    assert 'orchestrator_jobs{endpoint="ep",state="succeeded"} 2.0' in shown.stdout
    assert "orchestrator_at_work" not in shown.stdout  # nobody ever was
    promtool("check", "metrics", stdin=shown.stdout.encode())


def test_metrics_are_values_for_programs(ledger: Path) -> None:
    values = json.loads(said(["metrics", "show", "--json"]).stdout)
    [jobs] = [each for each in values if each["labels"] == {"endpoint": "ep", "state": "succeeded"}]
    assert (jobs["name"], jobs["type"], jobs["value"]) == ("orchestrator_jobs", "gauge", 2)
    [margins] = [each for each in values if each["name"] == "orchestrator_result_margin_seconds"]
    assert margins["value"]["at_most"][-1] == 0


def test_metrics_are_written_beside_and_appear_whole(ledger: Path, tmp_path: Path) -> None:
    target = tmp_path / "collected" / "orchestrator.prom"
    target.parent.mkdir()
    target.write_text("of yesterday")
    written = json.loads(said(["metrics", "write", str(target), "--json"]).stdout)
    text = target.read_bytes()
    assert written == {
        "file": str(target),
        "series": len([line for line in text.splitlines() if not line.startswith(b"#")]),
        "bytes": len(text),
    }
    assert [path.name for path in target.parent.iterdir()] == [target.name]
    promtool("check", "metrics", stdin=text)


def test_a_folder_that_is_not_there_is_told(ledger: Path, tmp_path: Path) -> None:
    done = said(["metrics", "write", str(tmp_path / "none" / "orchestrator.prom")])
    assert done.exit_code == 2
    assert "none" in done.stderr


@pytest.mark.parametrize("words", [["metrics"], ["metrics", "write", "x.prom"]])
def test_without_a_ledger_that_is_told(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = said(words)
    assert done.exit_code == 2
    assert "there is no ledger here" in done.stderr
    assert not (tmp_path / "x.prom").exists()


def test_rules_and_the_dashboard_of_grafana_need_no_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rules = said(["metrics", "rules", "--url", "https://box.example/o"]).stdout
    (tmp_path / "rules.yml").write_text(rules)
    promtool("check", "rules", tmp_path / "rules.yml")
    assert 'dashboard: "https://box.example/o/pipelines"' in rules
    assert "dashboard:" not in said(["metrics", "rules"]).stdout
    assert json.loads(said(["metrics", "grafana"]).stdout)["uid"] == "orchestrator"
    (tmp_path / "orchestrator.toml").write_text('[dashboard]\nurl = "https://box.example/o"\n')
    assert 'dashboard: "https://box.example/o/pipelines"' in said(["metrics", "rules"]).stdout
    assert json.loads(said(["metrics", "grafana"]).stdout)["links"][0]["url"] == "https://box.example/o"
