"""Judges outputs anew that were collected, by what their run takes for a result now: what `runs recheck` asks for.

A page is one transaction: it is small, since others wait for the write lock meanwhile, and a process that ends in
between leaves every count true. A job changes once: what it ends with later was judged by the new rules.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import msgspec

from orchestrator.core.jobs.job import Job, Outcome
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.jobs.revalidation import Rechecked, is_meant, other_reason, step_of, tried_again
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.core.service.job_record import Record
from orchestrator.core.service.outcomes import verdict_of
from orchestrator.engine.collecting.validation_pool import ValidationPool
from orchestrator.errors import DamagedError, UsageError
from orchestrator.ledger import Ledger
from orchestrator.ledger.commands.command_types import NO_RUN, Command, NewValidator, Reply
from orchestrator.ledger.jobs.results import FinishedJob
from orchestrator.ledger.runs.runs import Run
from orchestrator.ledger.transitions.error_kinds import Restated
from orchestrator.settings.run_settings import RunSettings
from orchestrator.units import MIB

PAGE: Final = 50
PAGE_BYTES_MAX: Final = MIB
"""So many jobs, with so much of outputs, are changed by one transaction: that takes some 10 ms."""

Again = partial[Transition | None]


def validated_by(run: Run, asked: NewValidator) -> RunSettings:
    """The settings of `run` with that validator."""
    return msgspec.structs.replace(
        run.settings, schema=asked.schema, check=asked.check, output_required=asked.output_required
    )


@dataclass(kw_only=True, eq=False)
class Revalidator:
    """Of one process. `settings_of`: the settings by which its runs go."""

    ledger: Ledger
    validators: ValidationPool
    settings_of: dict[int, RunSettings]

    async def recheck_asked(self, command: Command) -> Reply:
        """Carries out a RECHECK: the run goes by the new validator from now on. Raises `UsageError` where that cannot
        be had here, or cannot say.
        """
        asked = msgspec.json.decode(command.argument, type=NewValidator)
        found = [] if command.run is None else await self.ledger.runs.all([command.run])
        if not found:
            return Reply(NO_RUN, is_refused=True)
        [run] = found
        settings = validated_by(run, asked)
        self.validators.load(settings)
        settings = await self.ledger.runs.configure(run.id, settings, before=run.settings)
        self.settings_of[run.id] = settings
        return Reply(str(await self.recheck(run, settings, command)))

    async def recheck(self, run: Run, settings: RunSettings, command: Command | None = None) -> Rechecked:
        """Looks at all outputs of `run`, which goes by `settings`; without a `command` nothing is changed.

        Raises `UsageError` where they are not there any more as they came.
        """
        if run.settings.save:
            raise UsageError(
                f"{run.name} has made files of members of its outputs, and those cannot be judged again as they came"
            )
        total = Rechecked()
        is_cancelled = (await self.ledger.runs.controls(run.id)).cancel
        again: Again = partial(tried_again, max_attempts=0 if is_cancelled else settings.max_attempts)
        async for page in self._pages(run, until=self.ledger.now() if command is None else command.asked_at):
            jobs = await self.ledger.jobs.of([each.job for each in page])
            found = [await self._judged(jobs[each.job], each, settings) for each in page]
            steps = [each for each in found if isinstance(each, Transition)]
            restated = [each for each in found if isinstance(each, Restated)]
            again = partial(again, at=self.ledger.now())
            if command is not None and (steps or restated):
                done = await self.ledger.commands.apply(
                    command.id, steps, partial(_following, again), restated=restated
                )
                steps = [step for step in steps if step.after.id in done]
            total = _sum(total, len(page), steps, len(restated), again)
        return total

    async def _pages(self, run: Run, *, until: int) -> AsyncIterator[list[FinishedJob]]:
        """What had ended until then."""
        after = (-1, 0)
        while page := await self.ledger.jobs.results.page(
            run.id, [State.SUCCEEDED, State.FAILED], after=after, most=PAGE, bytes_max=PAGE_BYTES_MAX
        ):
            after = (page[-1].line, page[-1].job)
            yield [each for each in page if (each.ended_at or 0) <= until]

    async def _judged(self, job: Job, finished: FinishedJob, settings: RunSettings) -> Transition | Restated | None:
        """What becomes of `job`; None where it stays as it is."""
        try:
            outcome = _outcome(job, finished)
        except DamagedError:
            return None  # the errors file tells
        if job.state is not finished.state or not is_meant(job, outcome):
            return None
        record = Record(remote_id=job.remote_id, status="COMPLETED", output=outcome.output)
        judged = await self.validators.judged(job.run, record)
        if judged.unjudged is not None:
            raise UsageError(f"{judged.unjudged}; that was at {finished.custom_id}, and those before are dealt with")
        verdict = verdict_of(record, output_required=settings.output_required, rejected=judged.invalid)
        why = verdict.message if verdict.trouble else None
        if (reason := other_reason(job, outcome, why)) is not None:
            return Restated(job=job.id, run=job.run, was=outcome.message or "", now=reason)
        return step_of(job, outcome, why, at=self.ledger.now())


def _following(again: Again, job: Job) -> Transition | None:
    return again(job) if job.state is State.FAILED else None


def _sum(total: Rechecked, looked_at: int, steps: Sequence[Transition], restated: int, again: Again) -> Rechecked:
    rejected = [step.after for step in steps if step.after.state is State.FAILED]
    return Rechecked(
        looked_at=total.looked_at + looked_at,
        rejected=total.rejected + len(rejected),
        again=total.again + sum(again(job) is not None for job in rejected),
        accepted=total.accepted + len(steps) - len(rejected),
        failed_otherwise=total.failed_otherwise + restated,
    )


def _outcome(job: Job, finished: FinishedJob) -> Outcome:
    return Outcome(
        submission=job.submission,
        remote_id=finished.remote_id,
        status=finished.status,
        output=finished.output,
        trouble=None if finished.trouble is None else FailureClass(finished.trouble),
        message=finished.message,
        delay_ms=finished.delay_ms,
        execution_ms=finished.execution_ms,
        worker=finished.worker,
    )
