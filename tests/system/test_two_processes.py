"""One process works on a ledger at a time; others may look beside it, under its one name."""

import os
import signal

import pytest

from tests.system.processes import FAST, Desk, Service

pytestmark = pytest.mark.system


@pytest.mark.slow
def test_a_ledger_under_a_second_name_is_refused_by_whoever_comes_second(desk: Desk, service: Service) -> None:
    service.change(hold=True)
    desk.inputs(20)
    command = ("run", "prompts.jsonl", "--endpoint", "ep1", "--serverless-url", service.url, "--json", *FAST)
    first = desk.start(*command)
    service.wait("accepted", 20)
    os.link(desk.folder / "orchestrator.db", desk.folder / "linked.db")

    for other in (command, ("resume", "prompts"), ("limits", "set", "prompts", "run=1/10"), ("status",)):
        ended = desk.call(*other, "--ledger", "linked.db")
        assert (ended.exit_code, ended.stdout) == (2, ""), ended
        assert "linked.db: this file has 2 names (hard links)" in ended.stderr
    assert len(service.accepted()) == 20

    service.change(hold=False)
    assert first.ended().exit_code == 0, "who was there first is not disturbed"
    assert not list(desk.folder.glob("linked.db-*"))


@pytest.mark.slow
def test_status_and_results_can_be_asked_for_while_it_runs(desk: Desk, service: Service) -> None:
    desk.inputs(300, filler=1_000)
    place = ("--endpoint", "ep1", "--serverless-url", service.url, *FAST)
    assert desk.call("run", "prompts.jsonl", *place).exit_code == 0
    service.change(hold=True)
    desk.inputs(310, filler=1_000)
    program = desk.start("run", "prompts.jsonl", *place)
    service.wait("accepted", 310)

    status, results = desk.call("status"), desk.call("results", "prompts")
    head = desk.shell("orchestrator results prompts | head -n 1")

    assert status.exit_code == results.exit_code == 0
    assert "prompts" in status.stdout + status.stderr
    assert results.stderr == ""
    assert [line.split('"')[3] for line in results.stdout.splitlines()] == [f"row-{n}" for n in range(300)]
    assert head.stderr == ""
    assert head.stdout == results.stdout.splitlines(keepends=True)[0]
    program.signal(signal.SIGTERM)
    assert program.ended().exit_code == 143
