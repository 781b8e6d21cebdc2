"""Whether one endpoint is well: what comes of the requests to it (429s, errors, silence), and what that says of the
next ones.
"""

from collections.abc import Callable
from typing import Final

from orchestrator.client import ServerlessEndpoint
from orchestrator.clock import Clock
from orchestrator.core.gates.circuit_breaker import QUESTIONS, SUBMISSIONS, CircuitBreaker, Connectivity
from orchestrator.core.gates.gates import EndpointFacts, suspected
from orchestrator.core.gates.probe_backoff import Probing
from orchestrator.core.gates.refusal_backoff import Refusals
from orchestrator.core.polling.missing_jobs import MissingJobs
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.core.service.http_answers import OF_THE_ADDRESS, Pointless
from orchestrator.core.service.outcomes import (
    Accepted,
    AskAgain,
    Deferred,
    NoNews,
    RunOutcome,
    StatusOutcome,
    Uncertain,
    trouble_of,
)
from orchestrator.engine.runtime.subscribers import Subscribers
from orchestrator.units import MINUTE_US

WARN_AGAIN_US: Final = MINUTE_US
"""How long after one warning that nothing gets through the next one may come."""

SUSPECT_US: Final = MINUTE_US
"""How long submitting pauses after an answer that makes the whole endpoint suspect."""


PAUSED_THERE: Final = "nothing is sent there for now; a run that is nowhere else stops after a minute"


class RequestHealth:
    """Of one kind of requests: whether they are answered, and whether they are refused."""

    def __init__(self, breaker: CircuitBreaker) -> None:
        self.breaker = breaker
        self.refusals = Refusals()


class EndpointHealth:
    """Of one endpoint. `changes` hears of whatever may let requests go or keep them back."""

    def __init__(
        self, api: ServerlessEndpoint, clock: Clock, warn: Callable[[str], None], changes: Subscribers
    ) -> None:
        self._api = api
        self._clock = clock
        self._warn = warn
        self._changes = changes
        self.submissions = RequestHealth(CircuitBreaker(SUBMISSIONS))
        self.questions = RequestHealth(CircuitBreaker(QUESTIONS))
        self.missing_jobs = MissingJobs()
        self.connectivity = Connectivity()
        self.probing = Probing()
        """When it is looked whether a stopped endpoint was mended."""

        self.stopped: str | None = None
        """Why going on submitting is pointless, of whichever run, until somebody mends something."""

        self.uncollectable: str | None = None
        """Why going on asking is pointless as well."""

        self.has_worked = False
        """Whether a job of the ledger's was ever accepted here, as far as this process knows."""

        self._suspect_until = 0
        self._warned_at: int | None = None
        self._unread: int | None = None
        """The job of the first answer that was no news, since the last one that was."""

    def facts(self, *, in_flight: int = 0, by_retry: bool = False) -> EndpointFacts:
        """For the gates. `in_flight`: how many jobs are claimed or on their way."""
        return EndpointFacts(
            stopped=self.stopped,
            probed_at=self.probing.due_at,
            suspect_until=self._suspect_until,
            submissions_refused_until=self.submissions.refusals.until,
            questions_refused_until=self.questions.refusals.until,
            unanswered_until=self.submissions.breaker.until,
            in_flight=in_flight,
            by_retry=by_retry,
        )

    def stop_submitting(self, refusal: Pointless) -> None:
        """Going on submitting is pointless until somebody mends something."""
        if self.stopped is None:
            self.stopped = self._placed(refusal)
            self.probing.stop(self._clock.now(), self.stopped, refusal.status)
            self._changes.wake()

    def stop_collecting(self, refusal: Pointless) -> None:
        """Even `/status` is refused."""
        self.stop_submitting(refusal)
        if self.uncollectable is None:
            self.uncollectable = self._placed(refusal)
            self._changes.wake()

    def go_on(self) -> None:
        """It seems to be mended, as `/health` tells, or a question that was answered: single requests find out, and the
        first that is not refused lets all go.
        """
        self._warn("the endpoint says that it is well again: going on")
        self.stopped = self.uncollectable = None
        self.probing.go_on()
        now = self._clock.now()
        self.submissions.refusals.try_again(now)
        self.questions.refusals.try_again(now)
        self._changes.wake()

    def unreachable(self, reason: str, sent_at: int, now: int) -> None:
        """A request found no way to the service: it is repeated without end, so the user must hear of it."""
        self.connectivity.record_failure(sent_at=sent_at, now=now)
        if self._warned_at is None or now >= self._warned_at + WARN_AGAIN_US:
            self._warned_at = now
            self._warn(f"{reason}; trying again")

    def submission(self, outcome: RunOutcome, sent_at: int, now: int, *, by_retry: bool = False) -> None:
        """What came of a `/run` or `/retry`: while none is answered, only one leaves at a time.

        That a `/retry` is answered is no reason to go on with a `/run` that may be paid twice.
        """
        if isinstance(outcome, Accepted):
            self.has_worked = True
            self.probing.works()
            self.missing_jobs.accepted(now)
        if isinstance(outcome, Pointless):
            self._refused(self.submissions.refusals, outcome, sent_at, now)
            if self.submissions.refusals.are_lasting:
                self.stop_submitting(outcome)
        elif self.submissions.refusals.over(sent_at=sent_at):
            self._changes.wake()
        if isinstance(outcome, Uncertain | Deferred) and trouble_of(outcome) is not FailureClass.THROTTLED:
            is_costly = isinstance(outcome, Uncertain) and not by_retry
            trips = self.submissions.breaker.record_failure(sent_at=sent_at, now=now, is_costly=is_costly)
            if trips and trouble_of(outcome) is not FailureClass.TRANSPORT:
                self._warn(f"{outcome.reason}: no submission is answered; sending one at a time until one is")
        elif (not by_retry or not self.submissions.breaker.is_costly) and self.submissions.breaker.record_success(now):
            self._changes.wake()

    def question(self, job: int, outcome: StatusOutcome, sent_at: int, now: int) -> None:
        """What came of a `/status`: while none is answered, single ones go, and the first answer lets all go again.

        An answer that is no news is none, unless it is always about the same job: then that one is to blame.
        """
        if isinstance(outcome, Pointless):
            self._refused(self.questions.refusals, outcome, sent_at, now)
            if self.questions.refusals.are_lasting:
                self.stop_collecting(outcome)
        elif self.questions.refusals.over(sent_at=sent_at):
            self._changes.wake()
        if isinstance(outcome, NoNews):
            if outcome.is_torn:
                return
            if self._unread in (None, job):
                self._unread = job
                return
        elif not isinstance(outcome, AskAgain) or trouble_of(outcome) is FailureClass.THROTTLED:
            self._unread = None
            if self.questions.breaker.record_success(now):
                self._changes.wake()
            return
        trips = self.questions.breaker.record_failure(sent_at=sent_at, now=now)
        if trips and trouble_of(outcome) is not FailureClass.TRANSPORT:
            self._warn(f"{outcome.reason}: no question is answered; asking every few seconds until one is")

    def _refused(self, refusals: Refusals, refusal: Pointless, sent_at: int, now: int) -> None:
        was_refused = self.submissions.refusals.are_on or self.questions.refusals.are_on
        if refusals.refused(sent_at=sent_at, now=now) and not was_refused:  # mostly both are, and once said is enough
            self._warn(f"{self._placed(refusal)}: {PAUSED_THERE}")

    def _placed(self, refusal: Pointless) -> str:
        """The reason with the address, id and all, where that may be wrong."""
        return f"{refusal.reason}: {self._api.url}" if refusal.status in OF_THE_ADDRESS else refusal.reason

    @property
    def stopped_status(self) -> int | None:
        """The status of the answers that have stopped it, while it stands still."""
        return None if self.stopped is None else self.probing.status

    @property
    def is_silent(self) -> bool:
        """Whether nothing should be sent before a question that costs nothing was answered."""
        return self.submissions.breaker.is_tripped or self.questions.breaker.is_tripped

    def suspect(self, now: int) -> None:
        """So many 404s that the endpoint must be to blame: nothing is declared lost, nothing new is submitted."""
        if not self.is_suspect(now):
            self._warn(
                f"{suspected(now + SUSPECT_US)}, or longer while it goes on so (404); none is declared lost. Nothing"
                " needs to be done if the service is at fault; if its queue was purged or the endpoint made anew, their"
                " jobs count as expired, and are sent again, once their results could no longer be there"
            )
        self._suspect_until = now + SUSPECT_US

    def is_suspect(self, now: int) -> bool:
        """Whether the endpoint is to blame for what is missing there."""
        return now < self._suspect_until
