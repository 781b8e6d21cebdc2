"""What jobs of all runs are given after their failures, wherever they are, and how many executions may be repeated (the
budget of retries).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from orchestrator.core.jobs.escalation import EXECUTIONS, NextEscalation, budget_of, with_step
from orchestrator.core.jobs.escalation_text import description_of
from orchestrator.core.jobs.job import Escalation, Job
from orchestrator.core.jobs.lifecycle import Event
from orchestrator.core.jobs.run_counters import FREE_EXECUTIONS, RETRIED_EXECUTIONS, is_free
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.core.text.wording import counted
from orchestrator.engine.runtime.progress import Progress
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings.parsers.brake_parsers import format_percentage
from orchestrator.settings.run_settings import RunSettings

SPENT: Final = "the retry budget of the run is spent ({} of {}: {})"


class RetryBudgets:
    """Of one process; shared by all of its endpoints, so that a budget holds across them."""

    def __init__(self, settings_of: Mapping[int, RunSettings]) -> None:
        self._settings_of = settings_of
        self.progress: dict[int, Progress] = {}
        """How the runs stand of which that is followed."""

        self._numbers: dict[tuple[int, str], int] = {}
        self._names: dict[tuple[int, int], str] = {}
        self._promised: Counter[int] = Counter()
        """Repetitions that were granted, and that the feed has not told of yet."""

    def place(self, run: Run) -> None:
        """`run` may be at that endpoint."""
        self._numbers[run.id, run.endpoint] = run.endpoint_id
        self._names[run.id, run.endpoint_id] = run.endpoint

    def name_of(self, run: int, endpoint: int) -> str:
        """What the endpoint of that number, where `run` may be, is called; empty where it may not be there."""
        return self._names.get((run, endpoint), "")

    def on_steps(self, taken: Sequence[Transition]) -> None:
        """Takes in the steps of a transaction."""
        if self._promised:
            again = [step for step in taken if step.event is Event.RETRIED and step.trouble in EXECUTIONS]
            kept = [step.after.run for step in again if not is_free(step)]
            self._promised -= Counter(kept)  # which drops those that come to nothing

    def why_spent(self, run: int, trouble: FailureClass) -> str | None:
        """Why no execution of `run` may be repeated that ended in `trouble`; None where one may, which counts then."""
        share, progress = self._settings_of[run].retry_budget, self.progress.get(run)
        if share is None or progress is None or trouble not in EXECUTIONS:
            return None
        allowed = budget_of(share, progress.total)
        spent = progress.count(RETRIED_EXECUTIONS) - progress.count(FREE_EXECUTIONS)
        if spent + self._promised[run] >= allowed:
            return SPENT.format(format_percentage(share), counted(progress.total, "job"), f"{allowed:,}")
        self._promised[run] += 1
        return None

    def escalation(self, job: Job, taken: NextEscalation) -> Escalation:
        """What the step that was `taken` gives to `job`.

        An endpoint that this process does not know of the run is none: the job stays where it is.
        """
        step = taken.step
        there = None if step.endpoint is None else self._numbers.get((job.run, step.endpoint))
        return Escalation(
            endpoint=job.endpoint if there is None else there,
            escalated=with_step(job.escalated, taken),
            description=description_of(step, None if there is None else step.endpoint),
            is_free=step.is_free,
        )
