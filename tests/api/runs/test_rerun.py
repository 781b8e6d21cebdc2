"""Flows that go on after their end: jobs that are tried again, and stages that are carried out anew."""

import json
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import pytest

from orchestrator.api.flows.triggers import flow_rerun
from orchestrator.api.runs.process_commands import retry
from orchestrator.core.jobs.transitions import reopened
from orchestrator.errors import UsageError
from tests.api.flows.test_stages import READING, ended, service, triggered
from tests.engine.flowing import Flowing, flowing
from tests.engine.flows.test_gathering import gathering, made
from tests.engine.scripted import Scripted, says
from tests.simulation.clock import VirtualClock
from tests.simulation.database import CommitWatch
from tests.simulation.run import Crash, run, run_until_crash

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

HOUR_S: Final = 3_600.0


async def goes_on(p: Flowing) -> None:
    p.scheduler.on_change()
    await anyio.sleep(60)


async def test_from_a_stage_on_there_are_new_runs_and_the_old_ones_stay(tmp_path: Path) -> None:
    transport = service()
    async with flowing(tmp_path, transport=transport) as p:
        name = await triggered(p, gathering(tmp_path, "caption", rows=3))
        await p.idle()
        before = {run: await made(p, f"{name}/{run}") for run in ("caption", "embed", "total")}
        file, sent = (tmp_path / "out.jsonl").read_text(), len(transport.of("run"))

        steps = tmp_path / "steps.py"
        steps.write_text(steps.read_text().replace("range(row", "range(1 + row"))
        found = await flow_rerun(tmp_path / "l.db", name, "embed", dependencies=READING)
        assert found.runs == (f"{name}/embed~2", f"{name}/total~2")
        assert await p.states() == {name: "running"}
        assert (tmp_path / "out.jsonl").read_text() == file
        await goes_on(p)

        assert await p.states() == {name: "succeeded"}
        assert {run: await made(p, f"{name}/{run}") for run in before} == before
        again = await made(p, f"{name}/embed~2")
        assert len(again) == 6 + 3
        assert len(await made(p, f"{name}/total~2")) == 3
        assert len(transport.of("run")) == sent + 9 + 3
        lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
        assert {line["custom_id"]: line["output"] for line in lines} == await made(p, f"{name}/total~2")
        await retries_of_replaced_runs_are_refused(p, tmp_path / "l.db", name)


async def retries_of_replaced_runs_are_refused(p: Flowing, ledger: Path, name: str) -> None:
    asked = await retry(ledger, f"{name}/embed", READING)
    assert (asked.outcome, asked.flow) == (None, name)
    p.engine.commands.on_change()
    await anyio.sleep(60)
    command = await p.ledger.commands.one(max((await p.ledger.commands.asked()).later))
    assert command.is_refused
    assert command.outcome == (f"{name}/embed was replaced, and nothing of it goes on; what to retry is {name}/embed~2")


@pytest.mark.parametrize(
    ("stage", "paid"), [("caption", 5), ("total", 0), pytest.param("embed", 5, marks=pytest.mark.slow)]
)
async def test_only_what_has_failed_is_paid_again(tmp_path: Path, stage: str, paid: int) -> None:
    """The step fails for r4 at first, of which four rows come then, and a group of them."""
    transport = service()
    async with flowing(tmp_path, transport=transport) as p:
        name = await triggered(p, gathering(tmp_path, "caption", rows=4, first="spread_or_fail"))
        await p.idle()
        assert await p.states() == {name: "partial"}
        sent, before = len(transport.of("run")), await made(p, f"{name}/total")

        steps = tmp_path / "steps.py"
        steps.write_text(steps.read_text().replace("> 3", "> 1 + 3"))
        await flow_rerun(tmp_path / "l.db", name, stage, only_failed=True, dependencies=READING)
        await goes_on(p)
        assert len(transport.of("run")) - sent == paid
        assert await p.states() == {name: "succeeded" if paid else "partial"}
        total = await made(p, f"{name}/total~2")
        assert list(total) == ["r1", "r2", "r3", "r4"]
        assert {row: total[row] for row in ("r1", "r2", "r3")} == {row: before[row] for row in ("r1", "r2", "r3")}
        assert isinstance(total["r4"], dict) is bool(paid)


class AtAcceptance:
    """Kills the world once the input of the run called `name` was taken in."""

    def __init__(self, path: Path, name: str) -> None:
        self._path, self._name = path, name
        self._crash = Crash()

    def committing(self) -> bool:
        return True

    def committed(self) -> None:
        with closing(sqlite3.connect(self._path)) as connection:
            query = "SELECT 1 FROM runs WHERE name = ? AND intake_accepted > 0"
            if connection.execute(query, (self._name,)).fetchone():
                self._crash.pull()


@pytest.mark.slow
def test_killed_as_its_input_was_taken_in_nothing_is_paid_again(tmp_path: Path) -> None:
    """By the run of all that is unfinished, which begins before the flow goes on, too."""
    transport, clock = service(), VirtualClock()

    async def fails_in_part() -> str:
        async with flowing(tmp_path, transport=transport, clock=clock) as p:
            name = await triggered(p, gathering(tmp_path, "caption", rows=4, first="spread_or_fail"))
            await p.idle()
            await flow_rerun(tmp_path / "l.db", name, "caption", only_failed=True, dependencies=READING)
            return name

    async def goes_on(commits: CommitWatch | None = None) -> None:
        async with flowing(tmp_path, transport=transport, clock=clock, commits=commits) as p:
            await p.engine.host.serve_all()
            await p.idle()

    name = run(fails_in_part)
    sent = len(transport.of("run"))
    steps = tmp_path / "steps.py"
    steps.write_text(steps.read_text().replace("> 3", "> 1 + 3"))
    dying = partial(goes_on, AtAcceptance(tmp_path / "l.db", f"{name}/caption~2"))
    crashed_at_s = run_until_crash(dying, start_s=HOUR_S)
    assert crashed_at_s is not None
    run(goes_on, start_s=crashed_at_s)
    assert len(transport.of("run")) - sent == 5


async def test_what_has_not_ended_is_not_carried_out_anew(tmp_path: Path) -> None:
    async with flowing(tmp_path, transport=Scripted(run=lambda _: says("IN_QUEUE", "r-1"))) as p:
        name = await triggered(p, gathering(tmp_path, "caption", rows=1))
        await anyio.sleep(1)
        with pytest.raises(UsageError, match="has not ended: it is running"):
            await flow_rerun(tmp_path / "l.db", name, "embed", dependencies=READING)
        with pytest.raises(UsageError, match="no stage called 'emved'"):
            await flow_rerun(tmp_path / "l.db", name, "emved", dependencies=READING)
        p.engine.groups.in_flight.cancel_scope.cancel()


async def test_a_flow_that_has_ended_goes_on_with_jobs_that_are_queued_again(tmp_path: Path) -> None:
    async with flowing(tmp_path, transport=service()) as p:
        name = await triggered(p, gathering(tmp_path, "caption", rows=2, step="none"))
        await p.idle()
        assert await p.states() == {name: "failed"}
        with (tmp_path / "steps.py").open("a") as steps:
            steps.write("\n\nnone = total\n")
        failed = await ended(p, f"{name}/total")
        for job in (await p.ledger.jobs.of([row.job for row in failed])).values():
            assert await p.ledger.writer.step(reopened(job, at=p.ledger.now()))
        assert await p.states() == {name: "running"}
        await goes_on(p)
        assert await p.states() == {name: "succeeded"}
        assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 2
