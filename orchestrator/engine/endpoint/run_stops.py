"""What stops single runs at one endpoint: executions that fail in a row (`stop-after-failures`), variables that their
jobs lack, and what is wrong with their outputs, here or elsewhere.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from orchestrator.clock import Clock
from orchestrator.core.gates.ended_executions import FAILED
from orchestrator.core.gates.failure_streak import Alarm, RunHealth
from orchestrator.core.gates.gates import RunFacts
from orchestrator.core.jobs.job import is_terminal
from orchestrator.core.jobs.lifecycle import Event
from orchestrator.core.jobs.transition_type import Transition, is_of_latest
from orchestrator.core.service.http_answers import HINT_CHARS_MAX
from orchestrator.core.text.error_text import summary_of
from orchestrator.core.text.next_step import NextStep
from orchestrator.core.text.wording import counted, shortened
from orchestrator.engine.endpoint.output_faults import OutputFaults
from orchestrator.engine.runtime.subscribers import Subscribers
from orchestrator.settings.run_settings import RunSettings

ENDS: Final = frozenset({Event.COMPLETED, Event.RETRIED, Event.ABANDONED, Event.CONTINUED})
"""What happens to a job whose execution has ended."""


class RunStops:
    """Of all runs at one endpoint, by their numbers. `changes` hears when one is stopped or goes on."""

    def __init__(
        self,
        endpoint: int,
        clock: Clock,
        settings_of: Mapping[int, RunSettings],
        warn: Callable[[str], None],
        advice: Callable[[NextStep, int], str],
        changes: Subscribers,
        faults: OutputFaults,
    ) -> None:
        self._endpoint = endpoint
        self._clock = clock
        self._settings_of = settings_of
        self._warn = warn
        self._advice = advice
        self._changes = changes
        self._faults = faults
        faults.changes.add(changes.wake)
        self._runs: dict[int, RunHealth] = {}

    def facts(self, run: int, *, cancelled: bool, paused: bool) -> RunFacts:
        """For the gates, with what people have asked of `run`."""
        facts = self._run(run).facts(cancelled=cancelled, paused=paused)
        return replace(facts, stopped=facts.stopped or self._faults.why(run))

    def why_stopped(self, run: int) -> str | None:
        """Why going on submitting jobs of `run` is pointless for now, whatever the endpoint does, if so."""
        return self._run(run).why_stopped or self._faults.why(run)

    def lack(self, run: int, reason: str, names: Sequence[str]) -> None:
        """The variables `names`, which jobs of `run` need, are not set; others may be sent."""
        if self._run(run).lack(reason, names, self._clock.now()):
            self._changes.wake()

    def look_for_variables(self, run: int, is_set: Callable[[str], bool]) -> None:
        """Looks, at growing pauses, whether the variables are set that `run` lacks."""
        if self._run(run).look_again(self._clock.now(), is_set):
            self._warn("the variables that were missing are set: going on")
            self._changes.wake()

    def on_steps(self, taken: Sequence[Transition]) -> None:
        """Takes in the steps of a transaction: which executions at the endpoint have brought a result, or failed."""
        for step in taken:
            if step.event not in ENDS or step.before.endpoint != self._endpoint:
                continue
            if is_success(step):
                self.observe_success(step.before.run)
            elif (message := failure_message(step)) is not None:
                self.observe_failure(step.before.run, message)

    def observe_success(self, run: int) -> None:
        """An execution of `run` has brought a result."""
        self._run(run).streak.observe(failed=False, stop_after=None)

    def observe_failure(self, run: int, message: str) -> None:
        """An execution of `run` has failed: the user must hear of it where that is the rule, before it costs more."""
        streak, stop_after = self._run(run).streak, self._settings_of[run].stop_after_failures
        sample = shortened(summary_of(message), HINT_CHARS_MAX)
        match streak.observe(failed=True, stop_after=stop_after):
            case Alarm.EARLY if self._settings_of[run].breaker.first and streak.failed == streak.ended:
                pass  # the breaker says so
            case Alarm.EARLY:
                self._warn(
                    f"{streak.failed} of the first {streak.ended} executions failed, the last one with: {sample}\n"
                    "Each may have been paid for. <setting stop-after-failures=N> stops a run of which so many fail in"
                    " a row"
                )
            case Alarm.ENOUGH:
                reason = f"{counted(streak.in_row, 'execution')} in a row failed, the last one with: {sample}"
                self.stop(run, reason)
            case None:
                pass

    def observe_validation(self, run: int, unjudged: str | None, disk_fault: str | None) -> None:
        """Why an output of `run` could not be judged, or no files be made of it (None: it could): none is sent to be
        paid for and not judged, or to stay in the ledger whole.
        """
        if disk_fault is not None:
            self.observe_files(run, disk_fault)
        if unjudged is not None:
            advice = self._advice(NextStep.REVALIDATE_RUN, run)
            self._faults.observe_unjudged(run, f"{unjudged}; once that is mended: {advice}")

    def observe_files(self, run: int, disk_fault: str | None) -> None:
        """Why no files can be made of outputs of `run`; None: they can by now, and what was kept whole is saved."""
        why = None if disk_fault is None else f"{disk_fault}: outputs are kept whole in the ledger"
        self._faults.observe_files(run, why)

    def stop(self, run: int, reason: str) -> None:
        """Going on submitting jobs of `run` is pointless until somebody mends something."""
        if self._run(run).stop(reason):
            self._changes.wake()

    def _run(self, run: int) -> RunHealth:
        if (found := self._runs.get(run)) is None:
            found = self._runs[run] = RunHealth()
        return found


def is_success(step: Transition) -> bool:
    """Whether `step`, which ends an execution, is due to one that works: not to one that was given up before."""
    if step.outcome is None:
        return step.trouble is None  # a segment that was given back as it should be
    is_executed = step.outcome.submission is not None  # a result that is taken again is of none
    return step.trouble is None and is_executed and not is_terminal(step.before) and is_of_latest(step)


def failure_message(step: Transition) -> str | None:
    """What the service said of the execution that `step` ends, if that failed.

    That an answer stays unreadable, that nothing is known of a job any more, and that we had it cancelled since it was
    stuck says nothing of whether executions work.
    """
    outcome = step.outcome or step.previous_outcome
    if outcome is None or step.trouble not in FAILED or outcome.status in (None, "CANCELLED"):
        return None
    return outcome.message or step.reason
