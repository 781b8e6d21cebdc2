"""What stops single runs at one endpoint: executions that fail in a row, and variables that their jobs lack."""

from collections.abc import Callable, Mapping, Sequence

from orchestrator.clock import Clock
from orchestrator.core.gates.gates import RunFacts
from orchestrator.core.gates.run_health import Alarm, RunHealth
from orchestrator.core.service.answers import HINT_CHARS_MAX
from orchestrator.core.text.error_text import told
from orchestrator.core.text.wording import counted, shortened
from orchestrator.engine.runtime.subscribers import Subscribers
from orchestrator.settings.run_settings import RunSettings


class RunFailures:
    """Of all runs at one endpoint, by their numbers. `changes` hears when one is stopped or goes on."""

    def __init__(
        self,
        clock: Clock,
        settings_of: Mapping[int, RunSettings],
        warn: Callable[[str], None],
        changes: Subscribers,
    ) -> None:
        self._clock = clock
        self._settings_of = settings_of
        self._warn = warn
        self._changes = changes
        self._runs: dict[int, RunHealth] = {}

    def facts(self, run: int, *, cancelled: bool, paused: bool) -> RunFacts:
        """For the gates, with what people have asked of `run`."""
        return self._run(run).facts(cancelled=cancelled, paused=paused)

    def why_stopped(self, run: int) -> str | None:
        """Why going on submitting jobs of `run` is pointless for now, whatever the endpoint does, if so."""
        return self._run(run).why_stopped

    def lack(self, run: int, reason: str, names: Sequence[str]) -> None:
        """The variables `names`, which jobs of `run` need, are not set; others may be sent."""
        if self._run(run).lack(reason, names, self._clock.now()):
            self._changes.wake()

    def look_for_variables(self, run: int, is_set: Callable[[str], bool]) -> None:
        """Looks, at growing pauses, whether the variables are set that `run` lacks."""
        if self._run(run).look_again(self._clock.now(), is_set):
            self._warn("the variables that were missing are set: going on")
            self._changes.wake()

    def succeeded(self, run: int) -> None:
        """An execution of `run` has brought a result."""
        self._run(run).streak.observe(failed=False, stop_after=None)

    def failed(self, run: int, message: str) -> None:
        """An execution of `run` has failed: the user must hear of it where that is the rule, before it costs more."""
        streak, stop_after = self._run(run).streak, self._settings_of[run].stop_after_failures
        sample = shortened(told(message), HINT_CHARS_MAX)
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

    def stop(self, run: int, reason: str) -> None:
        """Going on submitting jobs of `run` is pointless until somebody mends something."""
        if self._run(run).stop(reason):
            self._changes.wake()

    def _run(self, run: int) -> RunHealth:
        if (found := self._runs.get(run)) is None:
            found = self._runs[run] = RunHealth()
        return found
