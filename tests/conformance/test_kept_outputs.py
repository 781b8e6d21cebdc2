"""Outputs that are kept in another form than before: if nobody has changed them meanwhile, and counted by why."""

import pytest

from orchestrator.api.outcomes.audit import Findings, audit_ledger
from orchestrator.core.jobs.job import Outcome, Unsaved
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.jobs.transitions import completed
from orchestrator.core.outputs.save_rules import SaveRule
from orchestrator.ledger import Ledger
from orchestrator.ledger.jobs.results import FinishedJob
from orchestrator.settings.run_settings import RunSettings
from tests.ledger.ledgers import OpenLedger, a_run, brought_to
from tests.simulation.clock import EPOCH_AT

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

WHOLE = b'{"image":"' + b"iVBORw0KGgo" * 500 + b'"}'
SMALL = b'{"image":{"file":"/out/a.png","bytes":8,"sha256":"ab"}}'


async def a_result(ledger: Ledger, unsaved: Unsaved | None, saved: tuple[str, ...] = ()) -> FinishedJob:
    """That of the only job."""
    job = await brought_to(ledger, State.OUTSTANDING, EPOCH_AT)
    outcome = Outcome(
        submission=job.submission,
        remote_id=job.remote_id,
        status="COMPLETED",
        output=WHOLE,
        saved=saved,
        unsaved=unsaved,
    )
    assert await ledger.writer.step(completed(job, outcome, reason="status", at=ledger.now()))
    return await found(ledger, job.run)


async def found(ledger: Ledger, run: int) -> FinishedJob:
    [job] = await ledger.jobs.results.page(run, [State.SUCCEEDED], after=(-1, 0), most=9, bytes_max=1 << 20)
    return job


async def test_an_output_is_replaced_unless_somebody_has_done_so_already(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        run = await a_run(ledger)
        before = await a_result(ledger, None)
        assert (before.saved, await ledger.jobs.outputs.with_files(after=0, most=9)) == ((), [])
        assert await ledger.jobs.outputs.replace(before, SMALL, saved=("output.image",))
        assert not await ledger.jobs.outputs.replace(before, b"null", saved=())
        after = await found(ledger, run.id)
        assert (after.output, after.saved) == (SMALL, ("output.image",))
        assert await ledger.jobs.outputs.with_files(after=0, most=9) == [after.job]
        assert await ledger.jobs.outputs.with_files(after=after.job, most=9) == []
        findings = Findings()
        await audit_ledger(ledger, findings, lambda *_: None)
        assert findings.all() == ()


@pytest.mark.parametrize(
    ("why", "name"),
    [(Unsaved.DISK, "unsaved_for_disk"), (Unsaved.LATER, "unsaved_yet"), (Unsaved.MEMBER, "unsaved")],
)
async def test_results_whose_members_are_no_files_are_counted_by_why(
    open_file: OpenLedger, why: Unsaved, name: str
) -> None:
    async with open_file() as ledger:
        run = await a_run(ledger)
        result = await a_result(ledger, why, ("output.a", "output.b.*"))
        assert result.saved == ("output.a", "output.b.*")
        assert (await ledger.runs.counts(run.id))[name] == 1
        await ledger.jobs.outputs.recount(run.id, {why: -1})
        assert (await ledger.runs.counts(run.id))[name] == 0


async def test_results_that_were_not_to_become_files_before_count_as_those_that_are_none_yet(
    open_file: OpenLedger,
) -> None:
    image, video = (SaveRule((member,), f"/out/{member}/{{custom_id}}") for member in ("image", "video"))
    async with open_file() as ledger:
        run = await a_run(ledger, 2)
        before = await ledger.runs.configure(run.id, RunSettings(save=(image,)), before=run.settings)
        assert (await ledger.runs.counts(run.id)).get("unsaved_yet", 0) == 0
        await a_result(ledger, None)
        for rules, waiting in (((image,), 0), ((image, video), 1), ((video,), 1), ((), 1), ((image,), 1)):
            before = await ledger.runs.configure(run.id, RunSettings(save=rules), before=before)
            assert (await ledger.runs.counts(run.id)).get("unsaved_yet", 0) == waiting
