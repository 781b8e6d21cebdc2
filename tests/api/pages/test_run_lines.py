"""Runs in a list: their states, figures and order, and flows as one line with their stages."""

from pathlib import Path

import pytest

from orchestrator.api.pages.run_lines import run_lines
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.pipelines.flow_lifecycle import FlowKind
from orchestrator.core.pools.member import MemberSettings
from orchestrator.ledger import Ledger
from orchestrator.ledger.flows.flow_rows import Flow
from orchestrator.ledger.reports.run_list import RunsWanted
from orchestrator.settings.run_settings import RunSettings
from tests.factories import S
from tests.ledger.ledgers import a_run, brought_to, opened
from tests.ledger.pipelines import applied
from tests.ledger.statements import statements
from tests.simulation.clock import EPOCH_AT

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

AT = EPOCH_AT + 1_000 * S


async def test_runs_are_lines_newest_first_with_their_figures(tmp_path: Path) -> None:
    async with opened(tmp_path / "l.db") as ledger:
        first = await a_run(ledger, 2, name="night", settings=RunSettings(price_per_second=0.5))
        second = await a_run(ledger, 3, name="day")
        for number, state in ((1, State.SUCCEEDED), (2, State.FAILED), (3, State.OUTSTANDING)):
            await brought_to(ledger, state, AT + number * 10 * S, job=number)
        new, old = await run_lines(ledger, None, among=[first.id, second.id])
        assert (new.name, new.run, new.standing, new.mark) == ("day", second.id, "waiting", "held")
        assert (new.total, new.done, new.failed, new.ended_at, new.spent) == (3, 0, 0, None, None)
        assert new.safe_offline_s is not None
        assert (old.name, old.run, old.standing, old.mark) == ("night", first.id, "partial", "partial")
        assert (old.total, old.done, old.failed) == (2, 2, 1)
        assert old.sentence == "Over: 1 of 2 succeeded; 1 failed."
        assert old.ended_at == AT + 22 * S
        assert old.took_s == pytest.approx((old.ended_at - old.began_at) / S)
        assert old.spent is not None
        assert await run_lines(ledger, None, among=[]) == ()


async def test_more_runs_that_have_pools_take_no_more_questions(tmp_path: Path) -> None:
    async with opened(tmp_path / "l.db") as ledger:
        pool = RunSettings(members=(MemberSettings("ep", 0.5), MemberSettings("other", 1.0)))
        numbers = []
        for number in (1, 2, 3):
            run = await a_run(ledger, name=f"night-{number}", settings=pool)
            await ledger.runs.at_endpoint(run, "other")
            await brought_to(ledger, State.SUCCEEDED, AT + number * 10 * S, job=number)
            numbers.append(run.id)
        with statements() as asked_of_one:
            await run_lines(ledger, None, among=numbers[:1])
        with statements() as asked_of_all:
            lines = await run_lines(ledger, None, among=numbers)
        assert len(asked_of_all) == len(asked_of_one)
        assert [line.spent is not None for line in lines] == [True] * 3


async def test_stages_are_folded_under_their_flow_whichever_of_them_is_asked_for(tmp_path: Path) -> None:
    async with opened(tmp_path / "l.db") as ledger:
        flow = await a_started_flow(ledger)
        ends = []
        for name, first_job, again in (("caption", 1, 1), ("caption", 3, 2), ("embed", 5, 1)):
            run = await a_run(ledger, 2, name=f"{flow.name}/{name}~{again}", settings=RunSettings(price_per_second=1.0))
            await ledger.flows.begin_stage(flow.id, name, run=run.id, source="/in", sha256="x", again=again)
            ends.append(run.id)
            await brought_to(ledger, State.SUCCEEDED, AT + first_job * S, job=first_job)
        single = await a_run(ledger, 1, name="alone")
        [line] = await run_lines(ledger, None, among=[ends[2]])
        assert (line.name, line.run, line.flow, line.pipeline) == (flow.name, None, flow.id, "p")
        assert [(stage.stage, stage.run) for stage in line.stages] == [("caption", ends[1]), ("embed", ends[2])]
        assert (line.total, line.done, line.standing, line.mark) == (4, 2, "running", "running")
        assert line.spent is not None
        assert [each.name for each in await run_lines(ledger, None, among=[single.id, *ends])] == ["alone", flow.name]


async def test_runs_are_chosen_by_state_and_name_a_page_at_a_time(tmp_path: Path) -> None:
    async with opened(tmp_path / "l.db") as ledger:
        for number, (name, state) in enumerate(
            (("a_1", State.SUCCEEDED), ("A%2", State.FAILED), ("b_3", State.QUEUED), ("b4", State.CANCELLED)), 1
        ):
            await a_run(ledger, 1, name=name)
            await brought_to(ledger, state, AT + number * 10 * S, job=number)
        listing = ledger.reports.run_list
        assert await listing.page(before=None, most=9) == [4, 3, 2, 1]
        assert await listing.page(before=3, most=1) == [2]
        assert await listing.page(wanted=RunsWanted.OPEN, before=None, most=9) == [3]
        assert await listing.page(wanted=RunsWanted.ENDED, before=None, most=9) == [4, 2, 1]
        assert await listing.page(wanted=RunsWanted.TROUBLED, before=None, most=9) == [4, 2]
        assert await listing.page(name="A", before=None, most=9) == [2, 1]
        assert await listing.page(name="_", before=None, most=9) == [3, 1], "it stands for itself"
        assert await listing.page(name="%", before=None, most=9) == [2]


async def a_started_flow(ledger: Ledger) -> Flow:
    defined = await applied(ledger, now=EPOCH_AT)
    [name] = await ledger.flows.add(defined.id, defined.name, defined.definition, [EPOCH_AT], FlowKind.TRIGGERED)
    found = await ledger.flows.named(name)
    assert found is not None
    await ledger.flows.start([found.id])
    return found
