"""Finds jobs that do not come to an end (stuck), tells of them, and sends them anew where that is asked for.

What `/status` showed is in the endpoint's `stuck_detector`. `/health` is asked only while jobs wait suspiciously long,
and twice before anything is said: a worker is idle for a moment between two jobs, too.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from orchestrator.core.jobs.cancel_reason import CancelWhy
from orchestrator.core.jobs.escalation import own_policy
from orchestrator.core.polling.latency import DurationHistogram
from orchestrator.core.polling.stuck_jobs import Suspect, running_us_max, waiting_us_max
from orchestrator.core.text.durations import format_duration
from orchestrator.engine.endpoint.endpoint import Endpoint
from orchestrator.engine.runtime.subscribers import Subscribers
from orchestrator.ledger import Ledger
from orchestrator.settings.words_and_defaults import OnStuck
from orchestrator.units import MILLISECOND_US, SECOND_US
from orchestrator.views.status import StuckSummary

EXAMPLES_MAX: Final = 3
WARN_AGAIN_US: Final = 600_000_000
"""How long after one warning the next one may come."""

RESUBMIT_MAX: Final = 1_000
"""The most jobs that one look hands to the canceller."""

NOTHING: Final = StuckSummary()
NOTHING_LEARNED: Final = DurationHistogram()


@dataclass(kw_only=True, eq=False)
class StuckJobs:
    """Looks at every endpoint that this process serves; `owed` is woken when something is to be cancelled."""

    ledger: Ledger
    endpoints: Mapping[int, Endpoint]
    warn: Callable[[str], None]
    owed: Subscribers
    _idle_before: set[int] = field(init=False, default_factory=set)
    _found: dict[int, StuckSummary] = field(init=False, default_factory=dict)
    _told_at: int | None = field(init=False, default=None)

    def found(self, run: int) -> StuckSummary:
        """What the latest look found of `run`."""
        return self._found.get(run, NOTHING)

    async def run_once(self) -> None:
        """One look at everything."""
        found: dict[int, StuckSummary] = {}
        for endpoint in list(self.endpoints.values()):  # meanwhile another may come in
            running, waiting = self._running(endpoint), await self._waiting(endpoint)
            known = {suspect.job for suspect in running}
            stalled = [suspect for suspect in self._stalled(endpoint) if suspect.job not in known]
            for run in dict.fromkeys(suspect.run for suspect in (*running, *stalled, *waiting)):
                found[run] = await self._of_run(
                    endpoint,
                    run,
                    [suspect for suspect in running if suspect.run == run],
                    [suspect for suspect in stalled if suspect.run == run],
                    [suspect for suspect in waiting if suspect.run == run],
                )
        self._found = found

    def _running(self, endpoint: Endpoint) -> list[Suspect]:
        """Jobs of runs with different timeouts share an endpoint, and what was learned of it."""
        now, learned = self.ledger.now(), endpoint.estimates.durations.execution
        longest_us = {
            run: running_us_max(
                NOTHING_LEARNED if settings.resumable else learned,  # what others took says nothing of a segment
                settings.policy.timeout_ms * MILLISECOND_US,
            )
            for run, settings in endpoint.settings_of.items()
        }
        shortest_us = min(longest_us.values(), default=0)
        return [
            suspect
            for suspect in endpoint.stuck_detector.running(now, shortest_us)
            if now - suspect.since > max(longest_us[suspect.run], self._own_us(endpoint, suspect))
        ]

    @staticmethod
    def _own_us(endpoint: Endpoint, suspect: Suspect) -> int:
        """How long an execution may take that was given a time-out of its own, whatever the others took; else 0."""
        if not suspect.has_own:
            return 0
        policy = own_policy(endpoint.settings_of[suspect.run].policy, suspect.policy, suspect.escalated)
        return running_us_max(NOTHING_LEARNED, policy.timeout_ms * MILLISECOND_US)

    def _stalled(self, endpoint: Endpoint) -> list[Suspect]:
        """Resumable jobs that have had nothing new to report for as long as their runs allow."""
        now = self.ledger.now()
        return [
            suspect
            for run, settings in endpoint.settings_of.items()
            if settings.resumable and settings.stall_after_us is not None
            for suspect in endpoint.stuck_detector.stalled(
                run, now, endpoint.estimates.here_us(settings.stall_after_us)
            )
        ]

    async def _waiting(self, endpoint: Endpoint) -> list[Suspect]:
        waiting = endpoint.stuck_detector.waiting(self.ledger.now(), waiting_us_max(endpoint.estimates.durations.queue))
        if not waiting or not await self._has_idle_workers(endpoint):
            self._idle_before.discard(endpoint.id)
            return []
        if endpoint.id not in self._idle_before:
            self._idle_before.add(endpoint.id)
            return []
        return waiting

    async def _has_idle_workers(self, endpoint: Endpoint) -> bool:
        health = await endpoint.api.ask_health()
        return health is not None and bool(health.workers.idle)

    async def _of_run(
        self, endpoint: Endpoint, run: int, running: list[Suspect], stalled: list[Suspect], waiting: list[Suspect]
    ) -> StuckSummary:
        suspects = sorted((*running, *stalled, *waiting), key=lambda suspect: suspect.since)
        examples = await self.ledger.jobs.custom_ids(ids=[suspect.job for suspect in suspects[:EXAMPLES_MAX]])
        summary = StuckSummary(in_progress=len(running) + len(stalled), in_queue=len(waiting), examples=tuple(examples))
        resubmit = endpoint.settings_of[run].on_stuck is OnStuck.RESUBMIT
        if resubmit:
            await self._resubmit([suspect.job for suspect in suspects[:RESUBMIT_MAX]])
        self._tell(summary, suspects[0], stalled=len(stalled), resubmit=resubmit)
        return summary

    async def _resubmit(self, jobs: list[int]) -> None:
        """Cancels them at the service. Their end, when it is collected, sends them anew."""
        now = self.ledger.now()
        if await self.ledger.jobs.cancels.owe(jobs, CancelWhy.STUCK, now=now):
            self.owed.wake()

    def _tell(self, summary: StuckSummary, oldest: Suspect, *, stalled: int, resubmit: bool) -> None:
        now = self.ledger.now()
        if self._told_at is not None and now < self._told_at + WARN_AGAIN_US:
            return
        self._told_at = now
        parts = []
        if summary.in_progress > stalled:
            parts.append(f"{summary.in_progress - stalled:,} in progress far longer than the others were")
        if stalled:
            parts.append(f"{stalled:,} in progress without anything new to report")
        if summary.in_queue:
            parts.append(f"{summary.in_queue:,} in the queue while workers are idle")
        since = format_duration((now - oldest.since) // SECOND_US * SECOND_US)
        advice = "They are cancelled and sent anew" if resubmit else "<setting on-stuck=resubmit> would send them anew"
        self.warn(
            f"jobs that do not come to an end: {' and '.join(parts)}; the oldest for {since}, for example "
            f"{', '.join(summary.examples)}. {advice}"
        )
