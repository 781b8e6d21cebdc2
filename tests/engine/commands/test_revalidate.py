"""What was collected is judged anew, by whoever works on the ledger, or by who asks."""

import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from orchestrator.api.admin.revalidate import recheck
from orchestrator.api.outcomes.audit import AuditFinding, Findings, audit_ledger
from orchestrator.api.outcomes.job_detail import job_show
from orchestrator.api.runs.process_commands import beside
from orchestrator.emulator.jobs.jobs import WorkerResult as Answer
from orchestrator.errors import UsageError
from orchestrator.settings.run_settings import SCHEMA
from tests.api.desk import Desk, desk, numbers
from tests.simulation.world import ENDPOINT

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


def schema(d: Desk, **limits: int) -> str:
    """A file with the schema of outputs whose `n` is within these limits."""
    path = d.folder / "schema.json"
    path.write_text(json.dumps({"properties": {"n": limits}}))
    return str(path)


def changed(d: Desk, **limits: int) -> Mapping[str, Any]:
    return {"schema": SCHEMA.value_type.read((schema(d, **limits),))}


async def counts(d: Desk) -> Mapping[str, int]:
    async with d.orchestrator() as orc:
        run = await orc.run("captions")
        return run.counts


async def contradictions(d: Desk) -> tuple[AuditFinding, ...]:
    """What in the ledger contradicts something else."""
    async with beside(d.ledger, d.dependencies) as ledger:
        findings = Findings()
        await audit_ledger(ledger, findings, lambda *_: None)
        return findings.all()


async def done(d: Desk, jobs: int = 10, **options: Any) -> None:
    async with d.orchestrator() as orc:
        await (await orc.submit(numbers(jobs), endpoint=ENDPOINT, name="captions", **options)).wait()


async def test_results_that_are_none_any_more_are_tried_again_by_policy(tmp_path: Path) -> None:
    executions = itertools.count()
    async with desk(tmp_path, work=lambda raw, _: Answer(output=raw if next(executions) < 10 else b'{"n":0}')) as d:
        await done(d, max_attempts=2)
        preview = await recheck(d.ledger, "captions", changed(d, maximum=6), d.dependencies, dry_run=True)
        assert (preview.looked_at, preview.rejected, preview.again, preview.accepted) == (10, 3, 3, 0)
        assert not preview.is_done
        assert (await counts(d))["succeeded"] == 10, "nothing has changed"

        found = await recheck(d.ledger, "captions", changed(d, maximum=6), d.dependencies)
        assert found.is_done
        assert found.outcome == "10 outputs looked at: 3 rejected (3 of them to be tried again), 0 accepted after all"
        async with d.orchestrator() as orc:
            run = await orc.run("captions")
            await run.wait()
            assert run.counts["succeeded"] == 10
            assert d.service.paid == 13
            last = [result.custom_id async for result in run.results(order="input")][-1]
            shown = await job_show(d.ledger, "captions", last)
            events = [step.event for step in shown.timeline]
            assert events[3:] == ["revoked", "reopened", "claimed", "accepted", "completed"]
            assert shown.timeline[3].class_ == "invalid_output"
        assert await contradictions(d) == ()


@pytest.mark.slow
async def test_without_attempts_left_they_have_failed_and_are_results_again_once_they_fit(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await done(d, max_attempts=1)
        found = await recheck(d.ledger, "captions", changed(d, maximum=6), d.dependencies)
        assert (found.rejected, found.again) == (3, 0)
        assert ((await counts(d))["succeeded"], (await counts(d))["failed"]) == (7, 3)
        assert await contradictions(d) == ()
        schema(d, maximum=8)
        again = await recheck(d.ledger, "captions", {}, d.dependencies)
        assert (again.rejected, again.accepted) == (0, 2), "by the file as it is now"
        assert ((await counts(d))["succeeded"], (await counts(d))["failed"]) == (9, 1)
        assert await contradictions(d) == ()
        assert d.service.paid == 10


async def test_what_fails_for_another_reason_by_now_tells_that_one(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await done(d, max_attempts=1, schema=schema(d, maximum=6))
        found = await recheck(d.ledger, "captions", changed(d, minimum=100), d.dependencies)
        assert (found.rejected, found.failed_otherwise, found.again) == (7, 3, 0)
        async with d.orchestrator() as orc:
            [kind] = await (await orc.run("captions")).failures()
            assert (kind.count, "less than the minimum of 100" in kind.sample) == (10, True)
        assert await contradictions(d) == ()
        again = await recheck(d.ledger, "captions", {}, d.dependencies)
        assert (again.rejected, again.failed_otherwise) == (0, 0)


@pytest.mark.slow
async def test_of_a_cancelled_run_nothing_is_tried_again(tmp_path: Path) -> None:
    async with desk(tmp_path, workers=1, seconds=lambda _: 10.0) as d:
        async with d.orchestrator() as orc:
            run = await orc.submit(numbers(10), endpoint=ENDPOINT, name="captions", max_attempts=3)
            await anyio.sleep(75)
            await run.cancel()
            await run.wait()
            succeeded = run.counts["succeeded"]
        assert 3 < succeeded < 10
        found = await recheck(d.ledger, "captions", changed(d, maximum=2), d.dependencies)
        assert (found.rejected, found.again) == (succeeded - 3, 0)
        assert ((await counts(d))["succeeded"], (await counts(d))["failed"]) == (3, succeeded - 3)


async def test_who_works_on_the_ledger_carries_it_out_and_goes_by_it_from_then_on(tmp_path: Path) -> None:
    async with desk(tmp_path) as d, d.orchestrator() as orc:
        run = await orc.submit(numbers(10), endpoint=ENDPOINT, name="captions", max_attempts=1)
        await run.wait()
        wanted = schema(d, maximum=6)
        looked = await run.recheck(schema=wanted, dry_run=True)
        assert (looked.rejected, looked.is_done, run.counts["failed"]) == (3, False, 0)
        found = await run.recheck(schema=wanted)
        assert (found.rejected, found.is_done) == (3, True)
        await run.wait()
        assert (run.counts["succeeded"], run.counts["failed"]) == (7, 3)
        more = await orc.submit([{"n": 99}], endpoint=ENDPOINT, name="captions")
        await more.wait()
        assert run.counts["failed"] == 4


async def test_a_validator_that_cannot_be_used_changes_nothing(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await done(d, 2)
        changes = {"schema": SCHEMA.value_type.read((schema(d, maximum="x"),))}  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="this is no JSON Schema"):
            await recheck(d.ledger, "captions", changes, d.dependencies)
        assert (await counts(d))["succeeded"] == 2
        async with d.orchestrator() as orc:
            with pytest.raises(UsageError, match="schema=: "):
                await (await orc.run("captions")).recheck(schema=d.folder / "none.json")
